# SPDX-License-Identifier: Apache-2.0
"""The few text shapes the kernel writes, and what a failed read means; the processes of a machine, by their folders in /proc, each
of which may be gone a moment later. Any bytes give a value or None, never an exception.
"""

import errno
import re
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.zombies import HeldBy
from zombiescope.host.access import NOT_RECORDED, Host, read_or_nothing

_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")
_NUMBER = re.compile(rb"[0-9]{1,20}")
_STALLED = re.compile(rb"(?m)^(some|full) .*\btotal=([0-9]{1,20})")
_LARGEST = (1 << 64) - 1
_MOST_LISTED, _MOST_QUOTED = 1 << 20, 120
TICKS_PER_SECOND = 100
"""Of the times in /proc/PID/stat: fixed by the interface, whatever the kernel's own tick."""


def number(text: bytes) -> int | None:
    """A whole number as the kernel prints it: decimal digits, at most 64 bits."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    value = int(text)
    return value if value <= _LARGEST else None


def flat_keyed(text: bytes) -> dict[bytes, int]:
    """`key value` lines, such as memory.stat and cgroup.stat. Lines of another shape are left out."""
    rows = (line.partition(b" ") for line in text.split(b"\n"))
    return {key: parsed for key, _, value in rows if (parsed := number(value)) is not None}


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
    return Gap(
        fact,
        f"{shown(path)}: {why[0].lower()}{why[1:]}",
        _RECORD_AGAIN if why == NOT_RECORDED else _HINTS.get(error.errno or 0, ""),
    )


def read_or_gap(host: Host, path: bytes, fact: str) -> bytes | Gap:
    """What a file holds, or why it cannot be read."""
    try:
        return host.read(path)
    except OSError as error:
        return refusal(fact, path, error)


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


_USER, _SYSTEM, _START_TICKS = 11, 12, 19
"""Among the fields behind the name."""


class ProcessState(NamedTuple):
    name: bytes
    state: str
    """One letter, as ps prints it: Z ended and not reaped, X on its way out."""
    parent: int
    start_ticks: int | None = None
    """Since boot."""
    cpu_ticks: tuple[int, int] | None = None
    """On a core so far, in user mode and in the kernel."""


def read_processes(host: Host, fact: str) -> list[int] | Gap:
    try:
        names = host.subdirectories(b"/proc")
    except OSError as error:
        return refusal(fact, b"/proc", error)
    return sorted(int(name) for name in names if number(name) is not None) or Gap(
        fact, "/proc lists no process", "mount proc, or run on the host itself"
    )


def parse_stat(text: bytes) -> ProcessState | None:
    """/proc/PID/stat. The name is in brackets and may hold brackets itself, so the last one ends it."""
    _, opening, rest = text.partition(b"(")
    name, closing, after = rest.rpartition(b")")
    fields = after.split()
    parent = number(fields[1]) if len(fields) > 1 else None
    if not opening or not closing or parent is None:
        return None
    user, system, started = (number(fields[at]) if len(fields) > at else None for at in (_USER, _SYSTEM, _START_TICKS))
    ticks = None if user is None or system is None else (user, system)
    return ProcessState(name, fields[0].decode("ascii", "replace"), parent, started, ticks)


def state_of(host: Host, process: int) -> ProcessState | None:
    """None where it has ended meanwhile."""
    try:
        return parse_stat(host.read(b"/proc/%d/stat" % process))
    except OSError:
        return None


def who_is(host: Host, process: int) -> HeldBy:
    """What is known of it; less where it has ended meanwhile."""
    state = state_of(host, process)
    return HeldBy(process) if state is None else HeldBy(process, state.name, state.start_ticks, _group(host, process))


def _group(host: Host, process: int) -> bytes | None:
    """The path that a manager of services gave it: systemd's own on v1, the only one on v2."""
    rows = [line.split(b":", 2) for line in read_or_nothing(host, b"/proc/%d/cgroup" % process).splitlines()]
    by_name = {row[1]: row[2] for row in rows if len(row) == 3}
    return by_name.get(b"name=systemd", by_name.get(b""))
