# SPDX-License-Identifier: Apache-2.0
"""The processes of a machine, by their folders in /proc. Each may be gone a moment later."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import number, refusal


class ProcessState(NamedTuple):
    name: bytes
    state: str
    """One letter, as ps prints it: Z ended and not reaped, X on its way out."""
    parent: int


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
    return ProcessState(name, fields[0].decode("ascii", "replace"), parent)
