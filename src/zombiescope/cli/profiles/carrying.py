# SPDX-License-Identifier: Apache-2.0
"""Captures for commands that are about something else, without numpy: which there are of a time; and those that travel in a
recording, out of a folder with their words replaced, and into one again."""

import os
from collections.abc import Iterable
from contextlib import suppress

from zombiescope.config import DEFAULT_CAPTURES, load_profile_config
from zombiescope.errors import ObservationError
from zombiescope.facts.history import KeptCapture
from zombiescope.host.safe_open import open_regular
from zombiescope.host.whole_file import write_whole
from zombiescope.pipeline.carrying import CarriedCaptures, Words
from zombiescope.profiler.files.ring import between
from zombiescope.profiler.formats.capture_heading import DAMAGE, put_together, safe_name, taken_apart
from zombiescope.profiler.stacks.about import weightiest

_SUFFIX = b".zscap"
_MOST, _MOST_TOLD = 200, 500
_MOST_BYTES = 24 << 20
"""Of one: its line must stay shorter than a recording's longest."""


def carried_captures(folder: bytes, words: Words, most_bytes: int) -> CarriedCaptures:
    """The newest that fit, oldest first."""
    found: list[tuple[float, bytes]] = []
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                if name.endswith(_SUFFIX):
                    found.append((os.stat(os.path.join(folder, name)).st_mtime, name))
    lines, left, damaged = list[bytes](), most_bytes, 0
    for number, (_, name) in enumerate(sorted(found, reverse=True)[:_MOST], 1):
        try:
            raw = _read(os.path.join(folder, name), min(left, _MOST_BYTES))
            if raw is None:
                continue
            called = safe_name(os.fsdecode(name[: -len(_SUFFIX)]), number, words.change)
            line = taken_apart(called, raw, words.change, words.functions())
        except DAMAGE:
            damaged += 1
            continue
        if len(line) <= left:
            lines.append(line)
            left -= len(line)
    return CarriedCaptures(tuple(lines[::-1]), len(lines), len(found), damaged)


def _read(path: bytes, most: int) -> bytes | None:
    """None: larger than that."""
    with os.fdopen(open_regular(path, follow=True)[0], "rb") as file:
        raw = file.read(most + 1)
    return raw if len(raw) <= most else None


def lay_down_captures(lines: Iterable[bytes], folder: bytes) -> int:
    """Raises ObservationError where a line is none, or none can be written."""
    number = 0
    for number, line in enumerate(filter(None, lines), 1):
        try:
            if number > _MOST:
                raise ValueError("of more captures than a recording carries")
            name, raw = put_together(line)
        except DAMAGE as error:
            why = f"its captures are not as they were written ({type(error).__name__}: {error})"[:160]
            raise ObservationError(
                "cannot read the captures of this recording", why, "ask for a new recording"
            ) from error
        write_whole(os.path.join(folder, os.fsencode(name) + _SUFFIX), [raw], make=0o700)
    return number


def captures_of(config: str | None, state: str | None) -> bytes:
    """Beside a state folder that was named, or where the recorder stores them."""
    beside = os.path.join(state, "captures") if state else ""
    return os.fsencode(beside if beside and os.path.isdir(beside) else load_profile_config(config, {}).text("captures"))


def captures_between(folder: bytes, since: float, until: float) -> list[KeptCapture]:
    place = "" if folder == os.fsencode(DEFAULT_CAPTURES) else os.fsdecode(folder)
    begun = [(one, one.span.begin or 0.0) for one in between(folder, since, until, _MOST_TOLD)]
    return [KeptCapture(one.name, begin, one.span.end or begin, weightiest(one.reasons), place) for one, begin in begun]
