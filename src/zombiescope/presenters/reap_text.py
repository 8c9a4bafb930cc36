# SPDX-License-Identifier: Apache-2.0
"""A reaper's passes as lines for a person or a journal, and as metrics for a text file collector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from zombiescope.analysis.reaping import DIRTY, MAPPED, NO_LEVER, NOT_CACHED, RESTING, Pass, Reaping, Tally
from zombiescope.facts import metric_names as names
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, shown, zombies_said
from zombiescope.facts.reaping import Evicted, EvictionOrder
from zombiescope.facts.remedies import Remedy
from zombiescope.presenters.document import Json, document
from zombiescope.presenters.layout import Command
from zombiescope.presenters.metrics import Family

_EXAMPLES = 3
_WHY = {
    RESTING: "the last attempts below the same parent freed nothing; the next one comes later",
    NOT_CACHED: "nothing of the file is in the page cache",
    DIRTY: "the pages are not written back yet; the kernel does that by itself",
    MAPPED: "a process maps the pages and keeps them",
    NO_LEVER: "the file has no name here, and reclaim on the parent is not available or would take live caches",
}


def why_left(reason: str) -> str:
    return _WHY.get(reason, f"pinned by {reason}, which eviction cannot free (zombiescope autopsy names it)")


_STATES = {
    Reaping.FEW: "nothing to do",
    Reaping.RESTING: "resting",
    Reaping.PRESSED: "waiting: the host is under pressure",
    Reaping.EVICTED: "evicted",
    Reaping.WOULD_EVICT: "dry run, nothing was changed",
    Reaping.NOTHING_EVICTABLE: "nothing can be evicted",
    Reaping.STOPPED: "stopped: it did harm",
}


def render_pass(state: Reaping, why: str, zombies: int, freed: int) -> str:
    went = f"; the pass before freed {freed:,}" if freed else ""
    return f"{_STATES[state]}: {zombies_said(zombies)} on this host; {why}{went}"


def reap_next(state: Reaping) -> Command:
    match state:
        case Reaping.WOULD_EVICT:
            return Command("to do it", "zombiescope reap --yes")
        case Reaping.EVICTED:
            return Command("to keep the number down", "zombiescope reap --watch --yes")
        case _:
            return Command("to see what holds them", "zombiescope autopsy")


def render_orders(orders: Sequence[EvictionOrder]) -> Iterator[str]:
    """The first few; the log has all."""
    for order in orders[:_EXAMPLES]:
        what = "the cache of" if order.lever is Remedy.DROP_FILE else "reclaim on"
        yield f"  {what} {shown(order.target)}: {counted(order.pages, 'page')}, {zombies_said(len(order.zombies))}"
    if len(orders) > _EXAMPLES:
        yield f"  and {len(orders) - _EXAMPLES:,} more"


def render_tally(tally: Tally) -> str:
    passes = counted(tally.passes, "pass", "passes")
    took = f"{tally.cpu_seconds:.2f} s of CPU"
    if tally.passes > 1 and tally.core_share is not None:
        took += f" in {tally.seconds:,.0f} s: {100 * tally.core_share:.2f} % of a core"
    return f"freed {zombies_said(tally.freed)} and {counted(tally.pages, 'page')} in {passes}; {took}"


def render_left(left: Mapping[str, int]) -> Iterator[str]:
    """What stays, and why."""
    for reason, count in left.items():
        yield f"  left {count:,}: {why_left(reason)}"


def render_refused(done: Sequence[Evicted]) -> Iterator[str]:
    for why, count in Counter(each.refused for each in done if each.refused).items():
        yield f"  not done {count:,}: {why}"


def render_reaper_families(figures: Sequence[float], left: Mapping[str, int], state: str) -> list[Family]:
    """`figures` in the order of REAPER_FIGURES."""
    found = [
        Family(metric, (((), float(figure)),)) for metric, figure in zip(names.REAPER_FIGURES, figures, strict=True)
    ]
    found.append(Family(names.REAP_STATE, (((state,), 1.0),)))
    found.append(Family(names.REAP_LEFT, tuple(((reason,), float(count)) for reason, count in left.items())))
    return found


def render_reap_json(last: Pass) -> Json:
    tally, choice = last.tally, last.choice
    body: Json = {
        "state": last.state,
        "why": last.why,
        "zombies": last.zombies,
        "evictable": choice.evictable,
        "orders": [_order(order) for order in choice.orders],
        "refused": [{"target": shown(each.order.target), "why": each.refused} for each in last.done if each.refused],
        "left": [
            {"reason": reason, "zombies": count, "why": why_left(reason)} for reason, count in choice.left.items()
        ],
        "freed": {"zombies": tally.freed, "pages": tally.pages},
        "cost": {
            "cpu_seconds": tally.cpu_seconds,
            "seconds": tally.seconds,
            "passes": tally.passes,
            "walks": tally.walks,
        },
    }
    unknown = any(each.pages is None for each in last.done)
    gaps = [Gap("freed.pages", "the kernel does not say how many pages memory.reclaim found")] if unknown else []
    return document("reap/1", last, body, gaps)


def _order(order: EvictionOrder) -> Json:
    return {
        "action": order.lever.key,
        "target": shown(order.target),
        "parent": shown(order.parent),
        "pages": order.pages,
        "zombies": len(order.zombies),
    }
