# SPDX-License-Identifier: Apache-2.0
"""Every zombie, by a walk of the kernel's own tree of memory cgroups: BPF first, /proc/kcore where BPF is refused.

One call returns the records; each tier that was not to be had leaves its reason among the gaps. Nothing is changed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Tier, Walk
from zombiescope.host.access import Host
from zombiescope.kernel.assemble import assemble
from zombiescope.kernel.bpf_walk import walk_memcgs
from zombiescope.kernel.mount_paths import MountPaths, parse_mounts

_RECORDED = "a recording holds files, not the kernel's memory"


def read_zombie_walk(host: Host) -> Walk | Gap:
    if not host.is_live:
        return Gap("zombies", _RECORDED, "run zombiescope on the host itself")
    mounts = MountPaths(parse_mounts(_read_or_nothing(host, b"/proc/self/mountinfo")))
    try:
        with _collector_paused():
            return _walk(host, mounts)
    except ObservationError as error:
        return Gap("zombies", error.why, error.hint)


def _walk(host: Host, mounts: MountPaths) -> Walk:
    nodes = count_nodes(_read_or_nothing(host, b"/sys/devices/system/node/possible"))
    return assemble(walk_memcgs(nodes, host.wall_clock), mounts, Tier.BPF)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Tens of thousands of records and not one cycle: without this a third of the time goes to looking for some."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def count_nodes(possible: bytes) -> int:
    """NUMA nodes that may exist, by the highest in a list such as `0-1,4`; 1 where the kernel says nothing."""
    last = possible.strip().replace(b"-", b",").rpartition(b",")[2]
    return int(last) + 1 if last.isdigit() else 1


def _read_or_nothing(host: Host, path: bytes) -> bytes:
    try:
        return host.read(path)
    except OSError:
        return b""
