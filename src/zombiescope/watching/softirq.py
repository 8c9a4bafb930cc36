# SPDX-License-Identifier: Apache-2.0
"""Watch softirqs: by ksoftirqd's wait alone over the last minutes (agent), or with all there is over a window (`doctor`).

And, for ever, how long the network's softirqs, and threads that poll in their place, wait for their core: long waits are seen one
by one at any load; short ones are stamped all the time while they are few, a slice of the time while they are many, so that stamps
cost no more than their share.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from zombiescope.analysis.softirq import (
    SHORT_BUCKETS,
    CoreStep,
    PollStep,
    Spread,
    added,
    derive_softirq,
    one_in_a_thousand,
    poll_step,
    spread,
    step_between,
    worst_core,
)
from zombiescope.diagnosis.case import NO_SOFTIRQ, Case
from zombiescope.errors import ObservationError
from zombiescope.facts.agent import HistogramSample, MetricSample, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram
from zombiescope.facts.metric_names import (
    POLL_RUN,
    POLL_RUN_POWERS,
    POLL_STAMPED,
    POLL_WAIT,
    POLL_WAIT_P999,
    POLL_WAIT_POWERS,
    SOFTIRQ_WAIT,
    Metric,
)
from zombiescope.facts.softirq import (
    Buckets,
    CoreLatency,
    PollLook,
    PollTail,
    SoftirqLook,
    SoftirqSeen,
    SoftirqStep,
    WaitTimes,
)
from zombiescope.host.access import Host
from zombiescope.kernel.bpf_poll import PollLatency
from zombiescope.probes.readers.softirq_wait import (
    LatencyWindow,
    find_ksoftirqd,
    open_poll_latency,
    read_softirq_wait,
)
from zombiescope.watching.watch import Events, Quiet, Teller

_MOST_STEPS = 120
"""Of five seconds each."""
_NOT_COUNTED = Gap(
    "softirq.latencies", "the network's softirqs are not followed here: see the probe `polls`", "zombiescope doctor"
)


class SoftirqWatch(Quiet):
    def __init__(self, host: Host, most_steps: int | None = _MOST_STEPS) -> None:
        self._host = host
        self.ksoftirqd = find_ksoftirqd(host)
        self._last: SoftirqLook | None = None
        self._steps: deque[SoftirqStep] = deque(maxlen=most_steps)
        self.waited_seconds = 0.0
        """Since watching began."""
        self.gap: Gap | None = None
        """Of the last look."""

    def look(self) -> None:
        look = read_softirq_wait(self._host, self.ksoftirqd)
        self.gap = look.ksoftirqd if isinstance(look.ksoftirqd, Gap) else None
        if self.gap is None:
            self._take(look)

    def seen(self) -> SoftirqSeen | Gap:
        if self.gap or not self._steps:
            return self.gap.about("softirq") if self.gap else NO_SOFTIRQ
        return derive_softirq(self._steps, _NOT_COUNTED)

    def _take(self, look: SoftirqLook) -> None:
        if self._last is not None:
            step = step_between(self._last, look)
            self._steps.append(step)
            self.waited_seconds += 0.0 if isinstance(step.waited_seconds, Gap) else step.waited_seconds
        self._last = look


class DetailedSoftirqWatch(SoftirqWatch):
    """`seen` ends it. Drops and squeezes are counted where no ksoftirqd is to be seen, too."""

    def __init__(self, host: Host) -> None:
        super().__init__(host, None)
        self._latency = LatencyWindow(host, self.ksoftirqd)
        self.look()

    def look(self) -> None:
        self._take(read_softirq_wait(self._host, self.ksoftirqd))

    def seen(self) -> SoftirqSeen | Gap:
        latencies = self._latency.end()
        if isinstance(self.ksoftirqd, Gap) and isinstance(latencies, Gap):
            return self.ksoftirqd.about("softirq")
        self.look()
        return derive_softirq(self._steps, latencies)._replace(
            is_least=self._latency.is_least, refused=self._latency.refused
        )


class SoftirqTeller(Teller):
    """Raises ObservationError where ksoftirqd is not to be seen."""

    def __init__(self, host: Host) -> None:
        self._watch = SoftirqWatch(host)
        if isinstance(found := self._watch.ksoftirqd, Gap):
            raise ObservationError("cannot follow ksoftirqd", found.reason, found.hint)

    def read(self) -> Reading:
        self._watch.look()
        if self._watch.gap:
            return Reading(gap=self._watch.gap)
        waited = self._watch.waited_seconds
        return Reading((MetricSample(SOFTIRQ_WAIT, (), waited),), {"softirq_wait_seconds": waited})

    def fill(self, case: Case) -> Case:
        return case._replace(softirq=self._watch.seen())


STAMP_SHARE = 0.001
"""Of a core, for stamps: half of what all of it may take."""
_USUAL_COST = 1e-6
"""Of the stamps of one softirq, until it was measured: more than seen on any machine."""
_SLICE_SECONDS, _SLICE_EVERY = 0.05, 15.0
_MINUTE, _MINUTES = 60.0, 10
LONG_SECONDS = 0.1
_MOST_EVENTS_PER_MINUTE = 10


class PollsWatch:
    """`look` about every five seconds. Raises ObservationError where the kernel refuses."""

    def __init__(self, host: Host, following: PollLatency | None = None) -> None:
        self._host = host
        self._following = following or open_poll_latency(host)
        self._cost, self._sliced_at = _USUAL_COST, float("-inf")
        self._shape: dict[str, Buckets] = {}
        """How short waits were spread when they were last stamped."""
        self._last: PollLook | None = None
        self._steps: deque[PollStep] = deque()
        self.waits = {"all": Spread.empty(POLL_WAIT_POWERS), "worst": Spread.empty(POLL_WAIT_POWERS)}
        self.runs = {"all": Spread.empty(POLL_RUN_POWERS), "worst": Spread.empty(POLL_RUN_POWERS)}
        self.long_waits, self.waited_seconds = 0, 0.0
        """A tenth of a second and more each, and all that the clock saw together; on all cores, since watching began."""
        self.late: list[tuple[float, CoreStep]] = []
        """When the last look found long waits that ended, and on which core."""

    def look(self) -> None:
        look = self._following.read()
        before, self._last = self._last, look
        self.late = []
        if before is None:
            return
        if look.looks == before.looks:
            raise ObservationError(
                "cannot follow the network's softirqs",
                "the core of its clock went away",
                "it is tried again in five minutes",
            )
        step = poll_step(before, look)
        self._steps.append(step)
        while self._steps and look.at - self._steps[0].at > _MINUTES * _MINUTE:
            self._steps.popleft()
        self._count(step)
        self._pace(step)

    @property
    def threads(self) -> int:
        """That poll the network in the softirq's place and are followed."""
        return self._last.threads if self._last else 0

    @property
    def gap(self) -> Gap | None:
        if self._last is None or self._last.threads_found <= self._last.threads:
            return None
        some = f"{self._last.threads_found:,} threads poll the network"
        return Gap("softirq.threads", f"{some}, of which {self._last.threads:,} are followed")

    def tail(self) -> PollTail | None:
        """None before two looks."""
        if not self._steps:
            return None
        now, *earlier = map(_p999, self._minutes())
        seconds = sum(step.seconds for step in self._steps)
        stamped = sum(step.stamped_seconds for step in self._steps) / seconds if seconds else 0.0
        above = sum(each >= LONG_SECONDS for each in (now, *earlier))
        return PollTail(now, sum(earlier) / len(earlier) if earlier else None, above, min(stamped, 1.0))

    def latencies(self) -> tuple[CoreLatency, ...]:
        """Of the last ten minutes, as a window tells them."""
        if self._last is None:
            return ()
        found = []
        for core in self._last.cores:
            steps = [each for step in self._steps for each in step.cores if each.core == core.core]
            if not any(each.number or each.open_wait for each in steps):
                continue
            short = [length for each in steps for length in each.thread_waits]
            waits = _lengths(
                [length for each in steps for length in each.waits], (each.waited for each in steps), short
            )
            polls = _lengths([length for each in steps for length in each.polls], (each.polled for each in steps))
            since = self._steps[0].at - self._steps[0].seconds
            if core.waits.longest_at is not None and core.waits.longest_at >= since:
                waits = waits._replace(longest_seconds=core.waits.longest_seconds, longest_at=core.waits.longest_at)
            if (longest := core.waits.open_seconds) > waits.longest_seconds:
                waits = waits._replace(longest_seconds=longest, longest_at=self._last.at - longest, is_open=True)
            found.append(CoreLatency(core.core, waits, WaitTimes(), polls, WaitTimes()))
        return tuple(found)

    def close(self) -> None:
        self._following.close()

    def _minutes(self) -> list[list[PollStep]]:
        """The last one first; a beginning that is no whole minute is left out."""
        end = self._steps[-1].at
        groups: dict[int, list[PollStep]] = {}
        for step in self._steps:
            groups.setdefault(int((end - step.at) / _MINUTE), []).append(step)
        whole = [steps for steps in groups.values() if sum(each.seconds for each in steps) >= 0.8 * _MINUTE]
        last = groups[0]
        return [last, *(steps for steps in reversed(whole) if steps is not last)]

    def _count(self, step: PollStep) -> None:
        worst = worst_core(step)
        for name, cores in (("all", step.cores), ("worst", (worst,) if worst else ())):
            waits = [each for core in cores for each in (*core.waits, *core.thread_waits)]
            polls = [each for core in cores for each in core.polls]
            number = sum(core.number for core in cores)
            waited, polled = added(core.waited for core in cores), added(core.polled for core in cores)
            if any(waited[:SHORT_BUCKETS]):
                self._shape[name] = waited
            shape = self._shape.get(name) or self._shape.get("all") or waited
            self.waits[name] = self.waits[name].plus(spread(POLL_WAIT_POWERS, waits, shape, number))
            self.runs[name] = self.runs[name].plus(spread(POLL_RUN_POWERS, polls, polled, None))
        for core in step.cores:
            self.waited_seconds += sum(mean * count for mean, count in core.waits)
            long_ones = sum(count for mean, count in core.waits if mean >= LONG_SECONDS)
            self.long_waits += long_ones
            if long_ones:
                self.late.append((step.at, core))

    def _pace(self, step: PollStep) -> None:
        """Stamps cost each softirq, and each poll: all the time while they are few, else a slice. How often threads poll is not
        known without stamps, so beside threads it is always a slice."""
        if step.seconds <= 0:
            return
        share = self._cost * sum(core.runs for core in step.cores) / step.seconds
        if share <= STAMP_SHARE / (1 if self._following.is_stamping else 2) and not self.threads:
            self._following.stamp()
            return
        self._following.rest()
        if step.at - self._sliced_at >= _SLICE_EVERY or step.at < self._sliced_at:
            self._sliced_at = step.at
            self._cost = self._following.stamp_for(_SLICE_SECONDS) or self._cost


def _p999(steps: list[PollStep]) -> float:
    """Of the worst core of a minute; a wait that is not over counts in the last look alone."""
    seconds = sum(step.seconds for step in steps)
    by_core: dict[int, list[tuple[float, int]]] = {}
    for step in steps:
        for core in step.cores:
            if core.waits:
                by_core.setdefault(core.core, []).extend(core.waits)
    for core in steps[-1].cores:
        if core.open_wait:
            by_core.setdefault(core.core, []).append((core.open_wait, 1))
    return max((one_in_a_thousand(waits, max(seconds, _MINUTE)) for waits in by_core.values()), default=0.0)


def _lengths(
    lengths: Sequence[tuple[float, int]], stamped: Iterable[Buckets], short: Sequence[tuple[float, int]] = ()
) -> WaitTimes:
    buckets = list(added(stamped)[:SHORT_BUCKETS])
    for mean, count in (*lengths, *short):
        place = max(int(mean * 1e6).bit_length(), 0)
        buckets.extend([0] * (place + 1 - len(buckets)))
        buckets[place] += count
    while buckets and not buckets[-1]:
        buckets.pop()
    return WaitTimes(Histogram(tuple(buckets)), max((mean for mean, _ in lengths), default=0.0))


class PollsTeller(Teller):
    def __init__(self, host: Host) -> None:
        self._host = host
        self._watch = PollsWatch(host)
        self._events = Events("poll-late", "late polls", _MOST_EVENTS_PER_MINUTE)

    def read(self) -> Reading:
        watch = self._watch
        watch.look()
        if (tail := watch.tail()) is None:
            return Reading()
        late = [(at, _words(core)) for at, core in watch.late]
        return Reading(
            (
                MetricSample(POLL_WAIT_P999, (), tail.p999_seconds),
                MetricSample(POLL_STAMPED, (), tail.stamped_share),
            ),
            {
                "poll_wait_p999_seconds": tail.p999_seconds,
                "poll_waited_seconds": watch.waited_seconds,
                "poll_waits_long": float(watch.long_waits),
            },
            watch.gap,
            self._events.take(self._host.wall_clock(), late),
            (
                *_histograms(POLL_WAIT, POLL_WAIT_POWERS, watch.waits),
                *_histograms(POLL_RUN, POLL_RUN_POWERS, watch.runs),
            ),
        )

    def fill(self, case: Case) -> Case:
        tail = self._watch.tail()
        if tail is None or isinstance(case.softirq, Gap):
            return case
        return case._replace(softirq=case.softirq._replace(latencies=self._watch.latencies(), tail=tail))

    def close(self) -> None:
        self._watch.close()


def _words(core: CoreStep) -> str:
    long_ones = [(mean, count) for mean, count in core.waits if mean >= LONG_SECONDS]
    number = sum(count for _, count in long_ones)
    times = "once" if number == 1 else f"{number:,} times"
    return f"core {core.core}: the network waited {times}, {max(mean for mean, _ in long_ones):.1f} s at most"


def _histograms(metric: Metric, powers: tuple[int, ...], found: dict[str, Spread]) -> tuple[HistogramSample, ...]:
    bounds = tuple(2.0**power / 1e6 for power in powers)
    return tuple(
        HistogramSample(metric, (cores,), bounds, each.at_most, each.all, each.seconds) for cores, each in found.items()
    )
