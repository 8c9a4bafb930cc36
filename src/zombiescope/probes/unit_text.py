# SPDX-License-Identifier: Apache-2.0
"""The text of unit files, drop-ins and presets, read as systemd reads it: comments, continued lines, quoted nothing.

A line that systemd would ignore is ignored and named, never guessed at.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

from zombiescope.facts.units import Setting

MOST_SETTINGS = 5_000
"""Of one file: fifty times what the largest of a distribution has."""
MOST_RULES = 4_000
"""Of all presets: each is tried on each unit, and a distribution has some hundred."""
_NAME = re.compile(
    r"[A-Za-z0-9:_.\\@-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)", re.ASCII
)


def is_unit_name(name: str) -> bool:
    return 0 < len(name) <= 255 and name[0] not in ".@" and bool(_NAME.fullmatch(name))


def template_of(name: str) -> str:
    """`getty@.service` for `getty@tty1.service`; empty when it is no instance."""
    stem, at, rest = name.partition("@")
    instance, dot, kind = rest.rpartition(".")
    return f"{stem}@.{kind}" if at and dot and instance else ""


def parse_settings(data: bytes, origin: str) -> tuple[list[Setting], list[str]]:
    """Every assignment in order, one more than MOST_SETTINGS at the most, and what was ignored."""
    settings: list[Setting] = []
    problems: list[str] = []
    section = ""
    for number, line in _logical_lines(data):
        if line is None:
            problems.append(f"{origin}:{number}: not valid UTF-8, ignored")
        elif line.startswith("["):
            section = line[1:-1] if line.endswith("]") else ""
            if not section:
                problems.append(f"{origin}:{number}: not a section header, ignored")
        elif "=" not in line:
            problems.append(f"{origin}:{number}: not an assignment, ignored")
        elif not section:
            problems.append(f"{origin}:{number}: an assignment outside every section, ignored")
        else:
            key, _, value = line.partition("=")
            settings.append(Setting(section, key.strip(), value.strip(), origin))
            if len(settings) > MOST_SETTINGS:
                break
    return settings, problems[:20]


def _logical_lines(data: bytes) -> Iterator[tuple[int, str | None]]:
    """Lines with continuations joined and comments gone; None for one that is not UTF-8."""
    pending = ""
    start = 0
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if raw.lstrip().startswith((b"#", b";")):
            continue
        try:
            text = raw.decode("utf-8").strip() if not pending else raw.decode("utf-8").rstrip()
        except UnicodeDecodeError:
            pending = ""
            yield number, None
            continue
        if text.endswith("\\"):
            start = start if pending else number
            pending += text[:-1] + " "
            continue
        line = (pending + text).strip()
        if line:
            yield start if pending else number, line
        pending = ""
    if pending.strip():
        yield start, pending.strip()


def parse_presets(data: bytes) -> list[tuple[bool, str]]:
    """`enable` and `disable` lines, in order; one more than MOST_RULES at the most."""
    rules: list[tuple[bool, str]] = []
    for line in data.decode("utf-8", "replace").splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] in ("enable", "disable"):
            rules.append((words[0] == "enable", words[1]))
            if len(rules) > MOST_RULES:
                break
    return rules


def preset_of(name: str, rules: list[tuple[bool, str]]) -> str:
    """What `systemctl preset` would do; the first match wins, and no match means enable."""
    for enable, pattern in rules:
        if fnmatch.fnmatchcase(name, pattern):
            return "enabled" if enable else "disabled"
    return "enabled"
