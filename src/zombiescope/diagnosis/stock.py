# SPDX-License-Identifier: Apache-2.0
"""How bad the zombies of a host are, for every rule that asks: by their number, and at any number by the harm that was measured.
And who makes them now, as far as one window tells: by events, by the births of the zombies that a walk found, else by the count
alone. Also without a walk: then births, deaths and restarts are all there is, and it is said how sure that is."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.analysis.ledger import label_of
from zombiescope.analysis.maker import unit_maker
from zombiescope.analysis.scan import Population
from zombiescope.analysis.zombie_cost import Walking, derive_sweep_cost
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.thresholds import Severity, worst_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import MakerFlow

if TYPE_CHECKING:
    from zombiescope.facts.units import ServiceLoop


def stock_severity(case: Case, population: Population) -> Severity:
    return worst_of([case.thresholds.of_population(population), measured_harm(case, population)])


def measured_harm(case: Case, population: Population) -> Severity:
    """What zombies were seen to cost in this window: reclaim that walks over them, or statistics that take long for them."""
    found = [Severity.OK]
    if not isinstance(case.reclaim, Gap) and case.reclaim.calls:
        from zombiescope.diagnosis.reclaim_work import harmful_walk  # noqa: PLC0415 (a scan does not pay for it)

        walk = harmful_walk(case, Walking.YES)
        found.append(walk[1] if walk else Severity.OK)
    sweep = case.first.snapshot.sweep
    if not isinstance(sweep, Gap) and population.zombies > population.live:
        cost = derive_sweep_cost(sweep)
        found.append(case.thresholds.of_sweep(cost.seconds) if cost.is_slow else Severity.OK)
    return worst_of(found)


BY_EVENTS = "by events: died and not released"
BY_WALK = "born in the window, by a walk of the zombies"
BY_DEATHS = "likely: died in the window while the count rose; no release can be seen here"
BY_LAST = "likely: nobody else left one that was born in the window"
BY_RHYTHM = "likely: the count rose as often as it restarts, and it was restarted about as often as there are zombies"
BY_COUNT = "by the count alone"
_LIVES_SHARE = 0.5
"""Of the zombies, which a unit's restarts must come to for it to have made most of them; and of its restarts, which must have left
a zombie for it to be a leak."""
_RHYTHM = 0.5
"""How far, as a share, the count may be from a unit's restarts in the window: both are counted at ends that do not meet."""


class Growing(NamedTuple):
    seconds: float
    grown: int
    makers: tuple[tuple[str, int], ...]
    """Each with how many it left in the window, most first; none where nobody could be named."""
    source: str
    """How it is known."""
    is_short: bool = False
    """A handful, told because hardly any of the maker's dead were released: a warning at most, whatever its pace."""

    @property
    def maker(self) -> str:
        return self.makers[0][0] if self.makers else ""

    @property
    def is_sure(self) -> bool:
        return self.source in (BY_EVENTS, BY_WALK)

    def of(self, maker: str) -> int:
        return next((left for name, left in self.makers if name == maker), 0)


def is_old_leak(case: Case, now: Growing) -> bool:
    """Who grows now had left as much long before: what a wave leaves is released within a minute or two."""
    if isinstance(case.remains, Gap) or not now.makers or now.is_short:
        return False
    left = case.remains.of(now.maker)
    if left is None or left.first_born_at is None:
        return False
    is_old = left.first_born_at <= case.remains.at - case.thresholds.growth_least_seconds
    return is_old and left.zombies - now.of(now.maker) >= case.thresholds.leak_least_zombies


def growing_of(case: Case) -> Growing | None:
    """None where nothing grew beyond noise, or nobody looked twice."""
    least, change = case.thresholds.growth_least, change_of(case)
    flows = case.flows
    if not isinstance(flows, Gap) and all(flow.releases is not None for flow in flows.makers):
        leaving = [flow for flow in flows.makers if not _is_on_its_way(flow, change)]
        total = sum(flow.left or 0 for flow in leaving)
        left = _left(leaving, least)
        if left or total >= least:
            return Growing(flows.seconds, total, left, BY_EVENTS)
        left = _in_a_row(case, leaving)
        if left:
            return Growing(flows.seconds, sum(each for _, each in left), left, BY_EVENTS, is_short=True)
        if not flows.lost:
            return None  # every death of the window was seen, and its release
    return None if change is None else _by_count(case, change)


def _by_count(case: Case, change: int) -> Growing | None:
    """The count rose and events do not tell for whom: named by what else is known."""
    least, flows = case.thresholds.growth_least, case.flows
    seconds = case.last.snapshot.taken_at - case.first.snapshot.taken_at
    looping = _in_rhythm(case, change, seconds)
    if looping:
        return Growing(seconds, change, ((looping, change),), BY_RHYTHM)
    if change < least:
        return None
    born = _most(case.remains.lately.items(), least) if not isinstance(case.remains, Gap) else ()
    if born:
        return Growing(seconds, change, born, BY_WALK)
    if not isinstance(flows, Gap):
        died = _most(((flow.maker, flow.deaths) for flow in flows.makers), least)
        if died:
            return Growing(seconds, change, tuple((maker, min(n, change)) for maker, n in died), BY_DEATHS)
    alone = _alone_lately(case)
    if alone:
        return Growing(seconds, change, ((alone[0], min(alone[1], change)),), BY_LAST)
    return Growing(seconds, change, (), BY_COUNT)


def _alone_lately(case: Case) -> tuple[str, int] | None:
    """The one maker whose last zombie was born in the window, where a walk did not count those born in it: an older recording."""
    if isinstance(case.remains, Gap) or case.remains.lately:
        return None
    began = case.first.snapshot.taken_at
    found = [left for left in case.remains.makers if left.last_born_at is not None and left.last_born_at >= began]
    is_one = len(found) == 1 and found[0].zombies >= case.thresholds.growth_least
    return (found[0].maker, found[0].zombies) if is_one else None


def has_lived(case: Case, loop: "ServiceLoop") -> bool:
    """It was restarted about as often as there are zombies: not half as often, nor so often that most of its dead must be gone."""
    population = case.last.scan.population
    if isinstance(population, Gap):
        return False
    return _LIVES_SHARE * population.zombies <= loop.restarts <= population.zombies / _LIVES_SHARE


def _in_rhythm(case: Case, change: int, seconds: float) -> str:
    """Where neither deaths nor the dead can be seen: the one unit that restarts as fast as the count rises, and has as often as
    there are zombies. A handful is enough then, as in a row: the stock says the same."""
    is_blind = isinstance(case.remains, Gap) and isinstance(case.flows, Gap)
    if isinstance(case.services, Gap) or not is_blind or change < case.thresholds.growth_least_in_a_row:
        return ""
    found = set()
    for loop in case.services.loops:
        if loop.kind != "unit" or not loop.every_seconds or not has_lived(case, loop):
            continue
        restarts = seconds / loop.every_seconds
        if abs(change - restarts) <= _RHYTHM * restarts:
            found.add(unit_maker(loop.name))
    return found.pop() if len(found) == 1 else ""


def _is_on_its_way(flow: MakerFlow, change: int | None) -> bool:
    """Churn: most of the dead of a maker were released in the window, and the count did not rise by those that were not."""
    return 2 * (flow.releases or 0) >= flow.deaths and 2 * (change or 0) < (flow.left or 0)


def _left(flows: Iterable[MakerFlow], least: int) -> tuple[tuple[str, int], ...]:
    """By maker; where each leaves a handful, pods and sessions together."""
    by_maker = _most(((flow.maker, flow.left or 0) for flow in flows), least)
    return by_maker or _most(((maker, left) for maker, (left, _) in _together(flows).items()), least)


def _together(flows: Iterable[MakerFlow]) -> dict[str, tuple[int, int]]:
    """By what people call them, such as all pods: left and died."""
    found: dict[str, tuple[int, int]] = {}
    for flow in flows:
        left, died = found.get(label_of(flow.maker), (0, 0))
        found[label_of(flow.maker)] = (left + (flow.left or 0), died + flow.deaths)
    return found


def _in_a_row(case: Case, flows: Iterable[MakerFlow]) -> tuple[tuple[str, int], ...]:
    """A slow leak, or a short look at any: of those that a maker let die in the window hardly one was released. Three are enough
    beside as many of its own as count, else a few more; a wave looks the same for a minute."""
    limits, found = case.thresholds, {}
    for maker, (left, died) in {
        **_together(flows),
        **{each.maker: (each.left or 0, each.deaths) for each in flows},
    }.items():
        before = None if isinstance(case.remains, Gap) else case.remains.of(maker)
        has_stock = before is not None and before.zombies >= limits.growth_least
        least = limits.growth_least_in_a_row if has_stock else limits.growth_least_alone
        if left >= least and left >= limits.unreleased_share * died:
            found[maker] = left
    return _most(found.items(), 1)


def _most(pairs: Iterable[tuple[str, int]], least: int) -> tuple[tuple[str, int], ...]:
    """Those that matter, most first."""
    return tuple(sorted((pair for pair in pairs if pair[1] >= least), key=lambda each: (-each[1], each[0])))


def change_of(case: Case) -> int | None:
    """By the counts at both ends of the window."""
    if len(case.observations) < 2 or case.last.snapshot.taken_at <= case.first.snapshot.taken_at:
        return None
    first, last = case.first.scan.population, case.last.scan.population
    return None if isinstance(first, Gap) or isinstance(last, Gap) else last.zombies - first.zombies


def makers_that_grow(case: Case) -> tuple[str, ...]:
    """By the agent's history where it was watched long enough, else by the window; most first."""
    known = [] if isinstance(case.growth, Gap) else [trend.maker for trend in case.growth.makers if trend.maker]
    now = growing_of(case)
    return tuple(dict.fromkeys([*known, *(maker for maker, _ in (now.makers if now else ()))]))
