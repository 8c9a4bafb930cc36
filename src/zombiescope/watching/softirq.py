# SPDX-License-Identifier: Apache-2.0
"""Watch softirqs: by ksoftirqd's wait alone over the last minutes (agent), or with all there is over a window (`doctor`)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from zombiescope.analysis.softirq import derive_softirq, step_between
from zombiescope.diagnosis.case import NO_SOFTIRQ
from zombiescope.errors import ObservationError
from zombiescope.facts.agent import MetricSample, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.metric_names import SOFTIRQ_WAIT
from zombiescope.facts.softirq import SoftirqLook, SoftirqSeen, SoftirqStep
from zombiescope.host.access import Host
from zombiescope.probes.readers.softirq_wait import find_ksoftirqd, read_softirq_wait
from zombiescope.watching.watch import Quiet, Teller

if TYPE_CHECKING:
    from zombiescope.diagnosis.case import Case

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
        from zombiescope.probes.readers.softirq_wait import LatencyWindow  # noqa: PLC0415 (the agent stamps none)

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
