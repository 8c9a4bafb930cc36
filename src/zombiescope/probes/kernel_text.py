# SPDX-License-Identifier: Apache-2.0
"""The few text shapes the kernel writes, and what a failed read means. Any bytes give a value or None, never an exception."""

from __future__ import annotations

import errno
import re

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import NOT_RECORDED

_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")
_NUMBER = re.compile(rb"[0-9]{1,20}")
_STALLED = re.compile(rb"(?m)^(some|full) .*\btotal=([0-9]{1,20})")
_LARGEST = (1 << 64) - 1
_MOST_LISTED = 1 << 20
_MOST_QUOTED = 120


def number(text: bytes) -> int | None:
    """A whole number as the kernel prints it: decimal digits, at most 64 bits."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    value = int(text)
    return value if value <= _LARGEST else None


def flat_keyed(text: bytes) -> dict[bytes, int]:
    """`key value` lines, such as memory.stat and cgroup.stat. Lines of another shape are left out."""
    values: dict[bytes, int] = {}
    for line in text.split(b"\n"):
        key, _, value = line.partition(b" ")
        parsed = number(value)
        if parsed is not None:
            values[key] = parsed
    return values


def stall_totals(text: bytes) -> dict[str, float]:
    """A pressure file (PSI): seconds in which `some` or all (`full`) tasks waited, since boot or since the cgroup was made."""
    return {kind.decode(): int(total) / 1e6 for kind, total in _STALLED.findall(text)}


def cpu_list_count(text: bytes) -> int | None:
    """How many a list such as `0-3,8` names."""
    count = 0
    for part in text.strip().split(b","):
        first, dash, last = part.partition(b"-")
        low, high = number(first), number(last if dash else first)
        if low is None or high is None or high < low:
            return None
        count += high - low + 1
    return count if count <= _MOST_LISTED else None


def unoctal(field: bytes) -> bytes:
    """A mount table field: space, tab, newline and backslash are written as octal."""
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field)


def refusal(fact: str, path: bytes, error: OSError) -> Gap:
    """What a failed read means to the person who wanted the fact."""
    why = error.strerror or "cannot be read"
    hint = _RECORD_AGAIN if why == NOT_RECORDED else _HINTS.get(error.errno or 0, "")
    return Gap(fact, f"{shown(path)}: {why[0].lower()}{why[1:]}", hint)


def quoted(text: bytes) -> str:
    """Words of a stranger inside a reason: shown, and not more of them than a line holds."""
    return shown(text) if len(text) <= _MOST_QUOTED else shown(text[:_MOST_QUOTED]) + "..."


_RECORD_AGAIN = "run it on the host, or record it again with this version"
_HINTS = {
    errno.EACCES: "run as root",
    errno.EPERM: "run as root",
    errno.ENOENT: "this kernel or this view of it does not offer the file",
    errno.ENODEV: "the cgroup was removed while it was read: look again",
}
