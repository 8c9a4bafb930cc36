# SPDX-License-Identifier: Apache-2.0
"""Every zombie, by a walk of the kernel's own tree of memory cgroups: BPF first, /proc/kcore where BPF is refused.

One call returns the records; each tier that was not available leaves its reason among the gaps. Nothing is changed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Holders, Tier, Walk
from zombiescope.host.access import Host
from zombiescope.kernel.assemble import settle_batches
from zombiescope.kernel.bpf_walk import COUNT_ONLY, find_holders, walk_memcgs
from zombiescope.kernel.raw import CSS_DYING, RawWalk

_RECORDED = "a recording holds files, not the kernel's memory"


def read_zombie_walk(host: Host) -> Walk | Gap:
    if not host.is_live:
        return Gap("zombies", _RECORDED, "run zombiescope on the host itself")
    settle_batches()
    with _collector_paused():
        found = _by_bpf(host)
        return found if isinstance(found, Walk) else _by_kcore(host, found)


def read_zombie_serials(host: Host) -> frozenset[int] | Gap:
    """Only who is dead at this moment, by serial number: a second look at half the price."""
    if host.is_live:
        try:
            with _collector_paused():
                raw = walk_memcgs(_nodes(host), host.wall_clock, COUNT_ONLY)
                return frozenset([memcg.serial for memcg in raw.memcgs if memcg.flags & CSS_DYING])
        except ObservationError:
            pass
    walk = read_zombie_walk(host)
    return walk if isinstance(walk, Gap) else frozenset(zombie.serial for zombie in walk.zombies)


def read_former_paths(host: Host) -> list[tuple[bytes, bool | None]] | Gap:
    """Only the former path of each zombie, and whether it has pages in swap (None: not told): no list of pages is followed."""
    from zombiescope.kernel.assemble import former_paths  # noqa: PLC0415 (only who counts by maker)

    if not host.is_live:
        return Gap("zombies", _RECORDED, "run zombiescope on the host itself")
    with _collector_paused():
        try:
            raw = walk_memcgs(_nodes(host), host.wall_clock, COUNT_ONLY)
        except ObservationError as error:
            other = _raw_by_kcore(host, Gap("tier", error.why, error.hint))
            if isinstance(other, Gap):
                return other
            raw = other
        return list(former_paths(raw.memcgs))


def try_zombie_walk(host: Host, tier: Tier) -> int | Gap:
    """How many dead ones this tier alone finds: whether it works here."""
    if not host.is_live:
        return Gap("zombies", _RECORDED, "run zombiescope on the host itself")
    try:
        if tier is Tier.BPF:
            raw = walk_memcgs(_nodes(host), host.wall_clock, COUNT_ONLY)
        else:
            from zombiescope.kernel.kcore_walk import walk_kcore  # noqa: PLC0415 (most hosts do not pay for it)

            raw = walk_kcore(host, _nodes(host), host.wall_clock)
    except ObservationError as error:
        return Gap("zombies", error.why, error.hint)
    return sum(bool(memcg.flags & CSS_DYING) for memcg in raw.memcgs)


def _by_bpf(host: Host) -> Walk | Gap:
    try:
        return _assembled(host, walk_memcgs(_nodes(host), host.wall_clock), Tier.BPF)
    except ObservationError as error:
        return Gap("tier", error.why, error.hint)


def _by_kcore(host: Host, refused: Gap) -> Walk | Gap:
    """Where BPF was refused; the reason stays among the gaps."""
    raw = _raw_by_kcore(host, refused)
    if isinstance(raw, Gap):
        return raw
    walk = _assembled(host, raw, Tier.KCORE)
    return walk._replace(gaps=(refused, *walk.gaps))


def _raw_by_kcore(host: Host, refused: Gap) -> RawWalk | Gap:
    from zombiescope.kernel.kcore_walk import walk_kcore  # noqa: PLC0415 (most hosts do not pay for it)

    try:
        return walk_kcore(host, _nodes(host), host.wall_clock)
    except ObservationError as error:
        return Gap("zombies", f"{refused.reason}; {error.why}", refused.hint or error.hint)


def _assembled(host: Host, raw: RawWalk, tier: Tier) -> Walk:
    from zombiescope.kernel.assemble import assemble  # noqa: PLC0415 (who only counts does not pay for it)
    from zombiescope.kernel.mount_paths import MountPaths, parse_mounts  # noqa: PLC0415

    mounts = parse_mounts(_read_or_nothing(host, b"/proc/self/mountinfo"))
    return assemble(raw, MountPaths(mounts, getattr(host, "root", b"")), tier)


def _nodes(host: Host) -> int:
    return count_nodes(_read_or_nothing(host, b"/sys/devices/system/node/possible"))


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


def read_zombie_holders(host: Host) -> Holders | Gap:
    if not host.is_live:
        return Gap(
            "zombies[].pins[].holder", "a recording holds files, not the kernel's memory", "run it on the host itself"
        )
    try:
        return find_holders()
    except ObservationError as error:
        return Gap("zombies[].pins[].holder", error.why, error.hint)
