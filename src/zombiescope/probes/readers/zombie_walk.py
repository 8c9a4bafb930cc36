# SPDX-License-Identifier: Apache-2.0
"""Every zombie, by a walk of the kernel's own tree of memory cgroups: BPF first, /proc/kcore where BPF is refused.

One call returns the records; each tier that was not available leaves its reason among the gaps. Nothing is changed.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Holders, Tier, Walk
from zombiescope.host.access import Host, read_or_nothing
from zombiescope.kernel.assemble import assemble, former_paths, settle_batches
from zombiescope.kernel.bpf_walk import COUNT_ONLY, Depth, find_holders, walk_memcgs
from zombiescope.kernel.mount_paths import MountPaths, parse_mounts
from zombiescope.kernel.raw import CSS_DYING, RawMemcg, RawWalk

_RECORDED = Gap("zombies", "a recording holds files, not the kernel's memory", "run zombiescope on the host itself")


def read_zombie_walk(host: Host) -> Walk | Gap:
    if host.is_live:
        settle_batches()
    with _collector_paused():
        if isinstance(found := _walked(host), Gap):
            return found
        raw, tier, refused = found
        mounts = MountPaths(parse_mounts(read_or_nothing(host, b"/proc/self/mountinfo")), getattr(host, "root", b""))
        walk = assemble(raw, mounts, tier)
        return walk._replace(gaps=(*refused, *walk.gaps))


def read_zombie_serials(host: Host) -> frozenset[int] | Gap:
    """Only who is dead at this moment, by serial number: a second look at half the price."""
    with _collector_paused():
        found = _walked(host, COUNT_ONLY)
        return found if isinstance(found, Gap) else frozenset([memcg.serial for memcg in _dying(found[0])])


def read_former_paths(host: Host) -> list[tuple[bytes, bool | None]] | Gap:
    """Only the former path of each zombie, and whether it has pages in swap (None: not told): no list of pages is followed."""
    with _collector_paused():
        found = _walked(host, COUNT_ONLY)
        return found if isinstance(found, Gap) else list(former_paths(found[0].memcgs))


def try_zombie_walk(host: Host, tier: Tier) -> int | Gap:
    """How many dead ones this tier alone finds: whether it works here."""
    if not host.is_live:
        return _RECORDED
    try:
        return len(_dying(_by_bpf(host, COUNT_ONLY) if tier is Tier.BPF else _by_kcore(host)))
    except ObservationError as error:
        return Gap("zombies", error.why, error.hint)


def _dying(raw: RawWalk) -> list[RawMemcg]:
    return [memcg for memcg in raw.memcgs if memcg.flags & CSS_DYING]


def _walked(host: Host, depth: Depth | None = None) -> tuple[RawWalk, Tier, tuple[Gap, ...]] | Gap:
    """By the best tier, and why it is not a better one."""
    if not host.is_live:
        return _RECORDED
    try:
        return _by_bpf(host, depth), Tier.BPF, ()
    except ObservationError as error:
        refused = Gap("tier", error.why, error.hint)
    try:
        return _by_kcore(host), Tier.KCORE, (refused,)
    except ObservationError as error:
        return Gap("zombies", f"{refused.reason}; {error.why}", refused.hint or error.hint)


def _by_bpf(host: Host, depth: Depth | None) -> RawWalk:
    return walk_memcgs(_nodes(host), host.wall_clock, depth)


def _by_kcore(host: Host) -> RawWalk:
    from zombiescope.kernel.kcore_walk import walk_kcore  # noqa: PLC0415 (most hosts do not pay for it)

    return walk_kcore(host, _nodes(host), host.wall_clock)


def _nodes(host: Host) -> int:
    return count_nodes(read_or_nothing(host, b"/sys/devices/system/node/possible"))


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


def read_zombie_holders(host: Host) -> Holders | Gap:
    if not host.is_live:
        return Gap(
            "zombies[].pins[].holder", "a recording holds files, not the kernel's memory", "run it on the host itself"
        )
    try:
        return find_holders()
    except ObservationError as error:
        return Gap("zombies[].pins[].holder", error.why, error.hint)
