# SPDX-License-Identifier: Apache-2.0
"""A reaper's decisions: which zombies can be evicted, by which lever, within what budget; what it learned; whether it harms.

Only clean unmapped page cache is taken. Shared memory, swap, sockets and processes are somebody's, and are said, not touched.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from zombiescope.analysis.autopsy import Body
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.reaping import Evicted, EvictionOrder, Health, ReapBudget
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import Pin, PinKind

HARMFUL_PASSES = 3
FIRST_REST_SECONDS = 60.0
_LONGEST_REST_SECONDS, _MOST_LOOKS_APART = 3600.0, 4
RESTING, NOT_CACHED, DIRTY, MAPPED, NO_LEVER = "resting", "not_cached", "dirty", "mapped", "no_lever"
"""Why a zombie is left; beside these, the pin kind that eviction cannot remove."""


class Lesson(NamedTuple):
    """Of one live parent: how often in a row nothing came of it, and until when it is left alone."""

    barren: int = 0
    not_before: float = 0.0


class ReapChoice(NamedTuple):
    orders: tuple[EvictionOrder, ...]
    evictable: int
    """Zombies that the host's levers could free, now or later."""
    left: Mapping[str, int]
    """Zombies that are left, by reason: a word of a short list."""


class Reaping(StrEnum):
    FEW = "few"
    """Fewer zombies than are worth it."""
    RESTING = "resting"
    """Nothing could be evicted the last time, and no more have come since."""
    PRESSED = "pressed"
    EVICTED = "evicted"
    WOULD_EVICT = "would_evict"
    NOTHING_EVICTABLE = "nothing_evictable"
    STOPPED = "stopped"
    """It harmed."""


class Tally(NamedTuple):
    """Since the reaper began."""

    passes: int = 0
    walks: int = 0
    freed: int = 0
    pages: int = 0
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    refused: int = 0

    @property
    def core_share(self) -> float | None:
        return self.cpu_seconds / self.seconds if self.seconds > 0 else None


class Pass(NamedTuple):
    taken_at: float
    """Seconds since the epoch."""
    identity: Identity
    state: Reaping
    why: str
    zombies: int
    """Of the whole machine, by the plain counts."""
    choice: ReapChoice
    done: tuple[Evicted, ...]
    freed: int
    """By the pass before, seen now."""
    wait_seconds: float
    tally: Tally


def choose(
    bodies: Iterable[Body],
    reclaimable: frozenset[bytes],
    lessons: Mapping[bytes, Lesson],
    now: float,
    most_pages: int,
) -> ReapChoice:
    """`reclaimable`: live parents whose memory.reclaim can be asked without taking much of what is alive. Most zombies a
    page first, until the pages are spent. A zombie too large for one pass is begun, in files."""
    left: Counter[str] = Counter()
    by_target: dict[tuple[Remedy, bytes], EvictionOrder] = {}
    evictable = 0
    for body in bodies:
        why, orders = _ways_to(body, reclaimable)
        if why is None and lessons.get(body.zombie.parent, Lesson()).not_before > now:
            why = RESTING
        if why is not None:
            left[why] += 1
            continue
        evictable += 1
        for order in orders:
            key = order.lever, order.target
            known = by_target.get(key, order._replace(pages=0, zombies=frozenset()))
            by_target[key] = known._replace(pages=known.pages + order.pages, zombies=known.zombies | order.zombies)
    return ReapChoice(_within(by_target.values(), most_pages), evictable, dict(left.most_common()))


def _ways_to(body: Body, reclaimable: frozenset[bytes]) -> tuple[str | None, tuple[EvictionOrder, ...]]:
    """Why it cannot be evicted, or the orders that together free it."""
    stubborn = sorted({pin.kind for pin in body.pins if pin.kind not in (PinKind.PAGE_CACHE, PinKind.CHILD)})
    if stubborn:
        return stubborn[0], ()
    cached = [pin for pin in body.pins if pin.kind is PinKind.PAGE_CACHE]
    if not cached:
        return NOT_CACHED, ()
    if any(pin.dirty for pin in cached):
        return DIRTY, ()
    if all(pin.path is not None and not pin.mapped and pin.inode is not None for pin in cached):
        return None, tuple(_drop(body, pin) for pin in cached)
    if body.zombie.parent in reclaimable:
        pages = sum(pin.pages or 1 for pin in cached)
        parent = body.zombie.parent
        return None, (EvictionOrder(Remedy.RECLAIM_PARENT, parent, parent, pages, frozenset({body.zombie.serial})),)
    return MAPPED if any(pin.mapped for pin in cached) else NO_LEVER, ()


def _drop(body: Body, pin: Pin) -> EvictionOrder:
    assert pin.path is not None
    serials = frozenset({body.zombie.serial})
    return EvictionOrder(Remedy.DROP_FILE, pin.path, body.zombie.parent, pin.pages or 1, serials, pin.device, pin.inode)


def _within(orders: Iterable[EvictionOrder], most_pages: int) -> tuple[EvictionOrder, ...]:
    """Always one, however large: a budget that fits nothing would stand still for ever."""
    chosen: list[EvictionOrder] = []
    spent = 0
    for order in sorted(orders, key=_least_harm):
        if not chosen or spent + order.pages <= most_pages:
            chosen.append(order)
            spent += order.pages
    return tuple(chosen)


def _least_harm(order: EvictionOrder) -> tuple[bool, float, bytes]:
    return order.lever is Remedy.RECLAIM_PARENT, order.pages / len(order.zombies), order.target


def learn(
    lessons: Mapping[bytes, Lesson], done: Iterable[Evicted], still_there: frozenset[int], now: float
) -> dict[bytes, Lesson]:
    """A parent under which nothing of what was tried is gone rests, twice as long each time; one that gave starts afresh."""
    tried: dict[bytes, set[int]] = {}
    for each in done:
        tried.setdefault(each.order.parent, set()).update(each.order.zombies)
    learned = dict(lessons)
    for parent, serials in tried.items():
        if serials <= still_there:
            barren = learned.get(parent, Lesson()).barren + 1
            rest = min(FIRST_REST_SECONDS * 2 ** (barren - 1), _LONGEST_REST_SECONDS)
            learned[parent] = Lesson(barren, now + rest)
        else:
            learned.pop(parent, None)
    return learned


def freed(done: Iterable[Evicted], still_there: frozenset[int]) -> int:
    """Of the zombies that were tried, how many are gone."""
    return len(frozenset().union(*(each.order.zombies for each in done)) - still_there)


def pressed(health: Health, budget: ReapBudget) -> str | None:
    """Why this is no moment to evict anything."""
    if health.memory_pressure is not None and health.memory_pressure > budget.memory_pressure:
        return f"memory pressure {health.memory_pressure:.1f} % is above {budget.memory_pressure:.1f} %"
    if health.io_pressure is not None and health.io_pressure > budget.io_pressure:
        return f"I/O pressure {health.io_pressure:.1f} % is above {budget.io_pressure:.1f} %"
    return None


def refault_rate(before: Health, after: Health) -> float | None:
    """Pages read again a second between two looks."""
    if before.refaults is None or after.refaults is None or after.at <= before.at:
        return None
    return max(after.refaults - before.refaults, 0) / (after.at - before.at)


def usual_rate(rates: Sequence[float]) -> float | None:
    """Of the passes in which nothing was evicted: the middle one."""
    return sorted(rates)[len(rates) // 2] if rates else None


def harmed(rate: float | None, usual: float | None, budget: ReapBudget) -> str | None:
    """Why the pass before seems to have hurt somebody. Twice the usual, and a margin: a rate alone says nothing."""
    if rate is None:
        return None
    limit = 2 * (usual or 0.0) + budget.refaults_per_second
    if rate <= limit:
        return None
    return f"{rate:,.0f} pages per second were read again after the last pass, {limit:,.0f} are allowed"


def wait_seconds(cost_seconds: float, idle_passes: int, budget: ReapBudget) -> float:
    """Until the next pass: never so soon that our share of a core is exceeded, and longer each time there was nothing to do."""
    return max(cost_seconds / budget.core_share, min(2.0**idle_passes, _MOST_LOOKS_APART) * budget.interval_seconds)
