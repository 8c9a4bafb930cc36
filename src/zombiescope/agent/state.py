# SPDX-License-Identifier: Apache-2.0
"""What the agent knows, and how it comes to know more: ticks, heavy looks and walks go in; a moment, its numbers and its judgement
come out. One thread, no lock."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from zombiescope.analysis.growth import Growth, GrowthWatch
from zombiescope.analysis.ledger import Accounts, renamed_counts
from zombiescope.analysis.looping import LoopingUnits, UnitStarts
from zombiescope.analysis.pod_owner import PodBook
from zombiescope.analysis.scan import Scan, derive_kernel_cost, derive_scan, memory_mark
from zombiescope.diagnosis.case import Case, Observation
from zombiescope.diagnosis.engine import Condition, Diagnosis, judge_condition
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.agent import MetricSample, Moment, Occurrence, ProbeRun, Reading, SweepTimes
from zombiescope.facts.cgroups import Census, Look, Residuals, Snapshot, Sweep
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import BORN_PREFIX, DIED_PREFIX, MAKER_PREFIX, RELEASED_PREFIX
from zombiescope.facts.lifecycle import Counts, EventTier, Histogram, Lifecycle
from zombiescope.facts.metric_names import SWEEP_BUCKETS, UNIT_RESTARTS
from zombiescope.facts.pods import POD_PREFIX, Pod
from zombiescope.host.access import Host
from zombiescope.watching.cgroups import Follower, Heavy, Restarts, Tick, Walked
from zombiescope.watching.watch import Filling, judge

_KEPT_MAKERS, _KEPT_BUSY = 20, 8
_NOT_YET = "not looked at yet: the agent has just begun"


class Judged(NamedTuple):
    """First what metrics are made of."""

    moment: Moment
    scan: Scan
    diagnosis: Diagnosis
    growth: Growth | Gap
    case: Case


class State:
    def __init__(self, follower: Follower, thresholds: Thresholds, image: str) -> None:
        self._follower = follower
        self.thresholds, self.image = thresholds, image
        self.pods = PodBook()
        """Names of pods, also of those that are gone."""
        self.accounts = Accounts(self.pods.makers)
        self._tick: Tick | None = None
        self._previous: Look | None = None
        self._lifecycle: Lifecycle | None = None
        self._growing = GrowthWatch()
        self.growth: Growth | Gap = Gap("growth", _NOT_YET)
        self._probes: dict[str, ProbeRun] = {}
        self._sweeps = SweepTimes((0,) * len(SWEEP_BUCKETS), 0, 0.0)
        self._heavy: Heavy | None = None
        self._readings: dict[str, Reading] = {}
        self._units, self._starts = LoopingUnits(), UnitStarts()
        self.watched: tuple[Filling, ...] = ()
        """What else is watched, for the findings."""
        self.restarted: tuple[Occurrence, ...] = ()
        """Units that began again, by the last tick."""

    @property
    def host(self) -> Host:
        return self._follower.host

    @property
    def taken_at(self) -> float | None:
        """When the last tick was; None before the first."""
        return self._tick.at if self._tick else None

    def take_tick(self, tick: Tick) -> None:
        if self._tick is not None and not isinstance(self._tick.look, Gap):
            self._previous = self._tick.look
        self._tick = tick
        look, events = tick.look, tick.lifecycle
        self._probes["census"] = ProbeRun(tick.look_seconds, look if isinstance(look, Gap) else None)
        self._probes["events"] = ProbeRun(tick.lifecycle_seconds, events if isinstance(events, Gap) else None)
        if isinstance(events, Lifecycle):
            self._lifecycle = events
            self.accounts.add(events.flows, events.other, sees_releases=events.tier is not EventTier.POLLING)
        self.restarted = self._starts.take(tick.at, self.accounts.lately if isinstance(events, Lifecycle) else {})
        if isinstance(look, Look):
            self._growing.take_look(tick.clock, look, self.accounts.died_lately)
        if isinstance(events, Lifecycle) and events.tier is not EventTier.POLLING:
            self._growing.take_makers(tick.clock, self.accounts)

    def take_walk(self, walked: Walked, counted: dict[str, Counts]) -> None:
        """`counted`: what the ledger had by the time of the walk."""
        found = walked.backlog
        self._probes["walk"] = ProbeRun(walked.seconds, found if isinstance(found, Gap) else None)
        if isinstance(found, Gap):
            return
        is_first = not self.accounts.is_backlog_known
        self._growing.take_walk(self._tick.clock if self._tick else 0.0, found.swapped, is_first=is_first)
        self.pods.still(maker.removeprefix(POD_PREFIX) for maker in found.by_maker if maker.startswith(POD_PREFIX))
        names, by_workload = self._workloads(found.by_maker), Counter[str]()
        for maker, count in found.by_maker.items():
            by_workload[names.get(maker, maker)] += count
        self.accounts.open_with(dict(by_workload), renamed_counts(counted, self._workloads(counted)))

    def _workloads(self, makers: Iterable[str]) -> dict[str, str]:
        """Of those that are pods by their uid: a child that looks does not know the names, and a name may come later."""
        known = self.pods.makers
        return {
            maker: known[uid]
            for maker in makers
            if maker.startswith(POD_PREFIX) and (uid := maker.removeprefix(POD_PREFIX)) in known
        }

    def take_pods(self, pods: Iterable[Pod], containers: Iterable[tuple[str, str]]) -> None:
        if renamed := self.pods.take(pods, containers):
            self.accounts.rename(renamed)
            self._growing.rename(renamed)

    def take_heavy(self, heavy: Heavy, at: float = 0.0) -> None:
        """`at`: seconds on a clock that only goes forward."""
        self._heavy = heavy
        for name, fact in (("residual", heavy.residual), ("sweep", heavy.sweep), ("empty", heavy.empty)):
            self._probes[name] = ProbeRun(heavy.seconds[name], fact if isinstance(fact, Gap) else None)
        if heavy.restarts is not None:
            self._take_restarts(at, heavy.seconds["restarts"], heavy.restarts)
        if isinstance(heavy.sweep, Sweep):
            took = heavy.sweep.seconds
            buckets = tuple(n + (took <= bound) for n, bound in zip(self._sweeps.buckets, SWEEP_BUCKETS, strict=True))
            self._sweeps = SweepTimes(buckets, self._sweeps.sweeps + 1, self._sweeps.seconds + took)

    def _take_restarts(self, at: float, seconds: float, found: Restarts | Gap) -> None:
        if isinstance(found, Gap):
            self.take_reading("restarts", ProbeRun(seconds, found), Reading(gap=found))
            return
        self._units.take(at, found.units)
        samples = tuple(MetricSample(UNIT_RESTARTS, (name,), n) for name, n in self._units.looping.items())
        self.take_reading("restarts", ProbeRun(seconds, None), Reading(samples))

    def take_reading(self, probe: str, run: ProbeRun, reading: Reading) -> None:
        """Of a light probe (`watching/catalogue.py`)."""
        self._probes[probe] = run
        if reading.pods or reading.containers:
            self.take_pods(reading.pods, reading.containers)
            reading = reading._replace(pods=(), containers=())
        self._readings[probe] = reading

    def fail(self, probe: str, why: str) -> None:
        self._probes[probe] = ProbeRun(0.0, Gap(probe, why))

    def report(self, probe: str, gap: Gap | None) -> None:
        self._probes[probe] = ProbeRun(0.0, gap)

    def forget(self, probe: str) -> None:
        self._probes.pop(probe, None)

    def failing(self) -> dict[str, Gap]:
        return {name: run.gap for name, run in sorted(self._probes.items()) if run.gap}

    def consider_growth(self) -> None:
        if self._tick is None:
            return
        found = self._growing.growth(self._tick.at, self.thresholds.growth_least, self._marks())
        if found is not None:
            self.growth = found

    def judge(self) -> Judged:
        moment = self.moment()
        scan = derive_scan(moment.snapshot)
        found = judge(Case((Observation(moment.snapshot, scan),), self.thresholds, self.growth), self.watched)
        return Judged(moment, scan, found.diagnosis, self.growth, found.case)

    def condition(self) -> Condition:
        """How this node is, in a cluster's words."""
        judged = self.judge()
        return judge_condition(judged.diagnosis, judged.moment.makers)

    def moment(self) -> Moment:
        events = self._lifecycle
        is_exact = events is not None and events.tier is not EventTier.POLLING
        return Moment(
            self._snapshot(),
            self._settled(),
            events.tier if events else None,
            events.total if events else None,
            is_exact,
            events.lost if events else None,
            self.accounts.zombies() if is_exact and self.accounts.is_backlog_known else None,
            self._sweeps,
            dict(self._probes),
            self.image,
            events.lifetimes if events else Histogram(),
            events.zombie_times if events else Histogram(),
            tuple(sample for reading in self._readings.values() for sample in reading.samples),
            events.gaps if events else (),
            tuple(each for reading in self._readings.values() for each in reading.histograms),
        )

    def sample(self) -> dict[str, float]:
        """What is remembered of this moment: raw numbers only."""
        tick = self._tick
        values: dict[str, float] = {}
        if tick is not None and isinstance(tick.look, Look):
            values |= {"counted": tick.look.counted, "live": tick.look.live, "zombies": tick.look.zombies}
        if self._lifecycle is not None:
            total = self._lifecycle.total
            values |= {"births": total.births, "deaths": total.deaths}
            if self._lifecycle.lost is not None:
                values["lost"] = self._lifecycle.lost
            if self._lifecycle.tier is not EventTier.POLLING:
                values["releases"] = total.releases
            spans = {
                "lifetime_seconds": self._lifecycle.lifetimes.quantile_seconds(0.5),
                "as_zombie_seconds": self._lifecycle.zombie_times.quantile_seconds(0.5),
            }
            values |= {name: span for name, span in spans.items() if span is not None}
        values |= self._of_makers() | self._of_heavy()
        if tick is not None:
            values["uptime"] = round(tick.clock)
        if (held := self._growing.ids_held) is not None:
            values["ids"] = held
        if self._heavy is not None and isinstance(self._heavy.sweep, Sweep):
            values["sweep_seconds"] = self._heavy.sweep.seconds
        for reading in self._readings.values():
            values |= reading.remembered
        return values

    def _of_makers(self) -> dict[str, float]:
        """Zombies of those with most, and of the busiest how many were born, died and were released since the agent began."""
        values: dict[str, float] = {}
        accounts = self.accounts.list()
        if self.accounts.is_backlog_known:
            ranked = [account for account in accounts if account.zombies or account.counts.births]
            values |= {MAKER_PREFIX + account.maker: account.zombies for account in ranked[:_KEPT_MAKERS]}
        if self._lifecycle is None or self._lifecycle.tier is EventTier.POLLING:
            return values
        dying = [account for account in accounts if account.counts.deaths]
        for account in sorted(dying, key=lambda account: (-account.counts.deaths, account.maker))[:_KEPT_BUSY]:
            numbers = zip((BORN_PREFIX, DIED_PREFIX, RELEASED_PREFIX), account.counts, strict=True)
            values |= {prefix + account.maker: number for prefix, number in numbers}
        return values

    def _of_heavy(self) -> dict[str, float]:
        """As the last heavy look measured it; the kernel's memory as of now."""
        values: dict[str, float] = {}
        heavy, look, shape = self._heavy, self._settled(), self._follower.shape
        if heavy and isinstance(heavy.sweep, Sweep):
            values["sweep_seconds"] = round(heavy.sweep.seconds, 6)
        if heavy and isinstance(heavy.residual, Residuals):
            uses = [use for path, use in heavy.residual.by_parent.items() if path not in heavy.residual.unsplit]
            for kind in ("file", "shmem", "anon", "swap"):
                known = [getattr(use, kind) for use in uses if getattr(use, kind) is not None]
                if known or not uses:
                    values[f"bytes.{kind}"] = sum(known)
        if look and (cost := derive_kernel_cost(look.zombies, shape)):
            values["kernel_bytes"] = cost.total_bytes
        return values

    def _settled(self) -> Look | None:
        looks = [each for each in (self._previous, self._tick.look if self._tick else None) if isinstance(each, Look)]
        if not looks or (self._tick and isinstance(self._tick.look, Gap)):
            return None
        return min(looks, key=lambda look: look.zombies)

    def _marks(self) -> list[tuple[str, float]]:
        marks = [
            ("warning", float(self.thresholds.zombies_warning)),
            ("critical", float(self.thresholds.zombies_critical)),
        ]
        shape, memory = self._follower.shape, self._follower.memory_bytes
        if shape.possible_cpus and shape.possible_nodes and isinstance(memory, int):
            mark = memory_mark(memory, self.thresholds.memory_share, shape.possible_cpus, shape.possible_nodes)
            marks.append(("memory", mark))
        return marks

    def _snapshot(self) -> Snapshot:
        follower, tick, heavy, look = self._follower, self._tick, self._heavy, self._settled()
        waiting = Gap("cost", _NOT_YET)
        census: Census | Gap = Gap("memcg.counted", _NOT_YET)
        if tick is not None and isinstance(tick.look, Gap):
            census = tick.look
        elif look is not None and tick is not None and tick.source is not None:
            why = "the agent counts by maker, not by parent"
            census = Census(tick.source, (look,), None, None, (Gap("parents[].zombies", why),))
        return Snapshot(
            tick.at if tick else follower.host.wall_clock(),
            follower.host.label,
            follower.identity,
            follower.shape,
            follower.hierarchy,
            census,
            heavy.residual if heavy else waiting,
            heavy.sweep if heavy else waiting,
            heavy.empty if heavy else waiting,
        )
