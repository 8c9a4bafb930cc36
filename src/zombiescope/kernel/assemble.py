# SPDX-License-Identifier: Apache-2.0
"""From what a walker found to the facts: former paths, nearest live ancestors, references taken apart, pins by kind."""

import mmap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Pages, Pin, References, Tier, Walk, Zombie
from zombiescope.host.page_size import PAGE_BYTES, every_cpu
from zombiescope.kernel.mount_paths import MountPaths
from zombiescope.kernel.raw import (
    CSS_DYING,
    CSS_ONLINE,
    SHAPE,
    Clock,
    PinNamer,
    RawMemcg,
    RawPin,
    RawWalk,
    in_swap_cache,
    pins_without_folios,
    without_explained,
)

_TICK_RATES = (100, 128, 250, 256, 300, 500, 512, 1000, 1024, 1200)
_BOOT_JIFFIES = 300  # jiffies start this many seconds below 2^32 (INITIAL_JIFFIES)
_SLACK_SECONDS = 20.0


def birth_times(memcgs: Sequence[RawMemcg], clock: Clock, *, is_v2: bool) -> list[float | None]:
    """Seconds since the epoch, one for each; None where nothing tells."""
    rate = tick_rate(clock)
    if rate and any(memcg.born for memcg in memcgs):
        zero = clock.wall_seconds - clock.jiffies / rate
        stamps, per_second = [memcg.born for memcg in memcgs], float(rate)
    elif not is_v2:
        zero = clock.wall_seconds - clock.monotonic_seconds
        stamps, per_second = [memcg.psi_born for memcg in memcgs], 1e9
    else:
        return [None] * len(memcgs)
    latest = clock.wall_seconds
    first = (latest - clock.monotonic_seconds - _SLACK_SECONDS - zero) * per_second
    last = (latest - zero) * per_second
    times = [
        zero + stamp / per_second if stamp and first <= stamp <= last else _edge(stamp, last, per_second, latest)
        for stamp in stamps
    ]
    if is_v2:
        _not_younger_than_successors(memcgs, times)
    return times


def _edge(stamp: int, last: float, per_second: float, latest: float) -> float | None:
    """A stamp less than a second ahead is of now: the clocks were not read at the same instant."""
    return latest if stamp and last < stamp <= last + per_second else None


def tick_rate(clock: Clock) -> int | None:
    """CONFIG_HZ, from the one rate at which the jiffies agree with the time since boot."""

    def error_seconds(rate: int) -> float:
        return abs((clock.jiffies - (1 << 32)) / rate + _BOOT_JIFFIES - clock.monotonic_seconds)

    best = min(_TICK_RATES, key=error_seconds)
    return best if error_seconds(best) < _SLACK_SECONDS else None


def _not_younger_than_successors(memcgs: Sequence[RawMemcg], times: list[float | None]) -> None:
    earliest = float("inf")
    for place in sorted(range(len(memcgs)), key=lambda place: memcgs[place].serial, reverse=True):
        time = times[place]
        if time is not None:
            earliest = times[place] = min(earliest, time)


class _Above(NamedTuple):
    """What a cgroup hands down to its children."""

    path: bytes
    """Without a slash at its end: nothing for the root."""
    live: bytes
    """Path of itself if live, else of its nearest live ancestor."""
    id: int | None


_OVER_ALL = _Above(b"", b"/", None)


class _Shapes:
    """Zombies of the same shape share their records: on a host with many, nearly all are alike."""

    def __init__(self) -> None:
        self.known: dict[tuple[object, int], tuple[References, Pages, tuple[Pin, ...]]] = {}

    def of(self, memcg: RawMemcg, children: int) -> tuple[References, Pages, tuple[Pin, ...]]:
        key = (memcg[SHAPE], children)
        found = self.known.get(key)
        if found is None:
            references = _references(memcg, children)
            found = self.known[key] = (references, _pages(memcg), pins_without_folios(memcg, references))
        return found


def assemble(raw: RawWalk, mounts: MountPaths, tier: Tier, page_bytes: int = PAGE_BYTES) -> Walk:
    shapes, namer, orphans = _Shapes(), PinNamer(mounts), 0
    zombies: list[Zombie] = []
    parents = {0: _OVER_ALL}  # those seen so far that have children: a parent always comes before them
    births = birth_times(raw.memcgs, raw.clock, is_v2=raw.is_v2)
    children = Counter([memcg.parent for memcg in raw.memcgs])
    writeback = _by_css(raw.writeback)
    add, make = zombies.append, tuple.__new__
    for memcg, born_at in zip(raw.memcgs, births, strict=True):
        css, up = memcg.css, memcg.parent
        orphans += up not in parents
        above = parents.get(up, _OVER_ALL)
        path = above.path + b"/" + memcg.name if up else b"/"
        dying = memcg.flags & CSS_DYING
        count = children.get(css, 0)
        if count:
            parents[css] = _Above(path if up else b"", above.live if dying else path, memcg.id)
        if not dying:
            continue
        if memcg.flags & CSS_ONLINE:
            memcg = _without_own_references(memcg)
        references, pages, others = shapes.of(memcg, count)
        pins = namer.of_folios(memcg) + others if others else namer.of_folios(memcg)
        if css in writeback:
            pins = without_explained(pins, references, writeback[css]) + namer.of_writeback(writeback[css])
        unsplit = memcg.lru_anon if pages.anon is None else 0
        add(make(Zombie, (
            memcg.id, memcg.serial, path, memcg.level, above.live, born_at, None,
            references, pages, pins, memcg.peak * page_bytes, memcg.oom_kills, above.id, unsplit,
        )))  # fmt: skip
    runs = raw.runs_nanoseconds
    return Walk(
        tier=tier,
        zombies=tuple(zombies),
        live_count=len(raw.memcgs) - len(zombies),
        gaps=tuple(_gaps(raw, orphans, zombies)),
        chunks=len(runs),
        kernel_nanoseconds=sum(runs) if runs else None,
        longest_run_nanoseconds=max(runs, default=None),
        page_bytes=page_bytes,
    )


def _without_own_references(memcg: RawMemcg) -> RawMemcg:
    """Killed but not yet taken offline, which a work queue does soon: until then the killing itself holds a reference, and the
    cgroup one of its own id, which would pass for swap."""
    return memcg._replace(refs=memcg.refs - (memcg.refs > 0), swap=memcg.swap - (memcg.swap > 0))


def _by_css(pins: list[RawPin]) -> dict[int, list[RawPin]]:
    found: dict[int, list[RawPin]] = {}
    for pin in pins:
        found.setdefault(pin.css, []).append(pin)
    return found


def _pages(memcg: RawMemcg) -> Pages:
    """Followed lists give each folio's nature; list sizes alone cannot tell shared from private anonymous memory.

    What is in the swap cache the kernel counts as swap, no longer as shared memory: so do we.
    """
    swap = memcg.swap if memcg.swap >= 0 else None
    if memcg.walked and (not memcg.bare or in_swap_cache(memcg)):
        return Pages(memcg.file, memcg.shmem, memcg.anon, memcg.unevictable, swap)
    none_or_unknown = None if memcg.lru_anon else 0
    return Pages(memcg.lru_file, none_or_unknown, none_or_unknown, memcg.unevictable, swap)


def _references(memcg: RawMemcg, children: int) -> References:
    total = memcg.refs if memcg.refs >= 0 else None
    swap = None if memcg.swap < 0 else int(memcg.swap > 0)
    folios = memcg.folios if memcg.walked and not memcg.unevictable else None
    if total is None or swap is None:
        return References(total, folios, children, swap, None)
    if folios is None and memcg.lru_anon + memcg.lru_file + memcg.unevictable == total - children - swap:
        folios = total - children - swap
    rest = None if folios is None else total - folios - children - swap
    return References(total, folios, children, swap, rest if rest is None or rest >= 0 else None)


def _gaps(raw: RawWalk, orphans: int, zombies: list[Zombie]) -> list[Gap]:
    gaps = [Gap("zombies", note, "run it again") for note in raw.notes]
    if orphans:
        gaps.append(Gap("zombies[].path", f"{orphans} cgroups appeared without their parent", "run it again"))
    if not zombies:
        return gaps
    gaps.append(Gap("zombies[].died_at", "the kernel does not keep the time of death", "the time of birth is known"))
    if any(zombie.born_at is None for zombie in zombies):
        gaps.append(Gap("zombies[].born_at", "this kernel stamps no usable time of birth"))
    unsplit = sum(zombie.pages.anon is None for zombie in zombies)
    if unsplit:
        reason = f"{unsplit} zombies have lists too long to follow: shared and private memory were not told apart"
        gaps += [Gap("zombies[].pages.shmem", reason), Gap("zombies[].pages.anon", reason)]
    unseen = sum(not zombie.pins and bool(zombie.unsplit_pages or zombie.pages.file) for zombie in zombies)
    if unseen:
        reason = f"the pages of {unseen} zombies moved while they were followed: what holds these was not seen"
        gaps.append(Gap("zombies[].pins", reason, "run it again"))
    unknown = sum(zombie.references.rest is None for zombie in zombies)
    if unknown:
        gaps.append(Gap("zombies[].refs", f"the references of {unknown} zombies could not be taken apart completely"))
    return gaps


def former_paths(memcgs: list[RawMemcg]) -> Iterator[tuple[bytes, bool | None]]:
    """Parents come before their children. The second is None where the kernel does not say."""
    above: dict[int, bytes] = {}
    for memcg in memcgs:
        parent = memcg.parent
        path = above.get(parent, b"") + b"/" + memcg.name if parent else b""
        above[memcg.css] = path
        flags = memcg.flags
        if flags & CSS_DYING:
            # Killed but not yet offline it still holds its own id once, which is no page in swap.
            held = memcg.swap - (memcg.swap > 0 and flags & CSS_ONLINE > 0)
            yield path or b"/", None if held < 0 else held > 0


_MADV_COLD = 20  # kernels from 5.4; where it is refused the batches stay as they are


def settle_batches() -> None:
    with mmap.mmap(-1, PAGE_BYTES) as page, suppress(OSError), closing(every_cpu()) as cpus:  # an older kernel refuses
        page[0] = 1
        for _ in cpus:
            page.madvise(_MADV_COLD)
