# SPDX-License-Identifier: Apache-2.0
"""The processes of a machine, by their folders in /proc. Each may be gone a moment later."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import HeldBy
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import number, refusal

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
    found = sorted(int(name) for name in names if number(name) is not None)
    return found or Gap(fact, "/proc lists no process", "mount proc, or run on the host itself")


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
    try:
        rows = [line.split(b":", 2) for line in host.read(b"/proc/%d/cgroup" % process).splitlines()]
    except OSError:
        return None
    by_name = {row[1]: row[2] for row in rows if len(row) == 3}
    return by_name.get(b"name=systemd", by_name.get(b""))
