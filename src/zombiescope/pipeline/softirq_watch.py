# SPDX-License-Identifier: Apache-2.0
"""Watch softirqs: for a window with everything there is (`doctor`), or for ever by ksoftirqd's wait alone (the agent)."""

from __future__ import annotations

from collections import deque

from zombiescope.analysis.softirq_wait import derive_kept, derive_softirq, step_between
from zombiescope.errors import ObservationError
from zombiescope.facts.agent import MetricSample, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.metric_names import SOFTIRQ_WAIT
from zombiescope.facts.softirq import SoftirqLook, SoftirqSeen, SoftirqStep
from zombiescope.host.access import Host
from zombiescope.probes.readers.softirq_latency import LatencyWindow
from zombiescope.probes.readers.softirq_wait import find_ksoftirqd, read_softirq_wait

INTERVAL_SECONDS = 5.0
WINDOW_SECONDS = 600.0
"""How far back the agent's finding looks."""
_NOT_COUNTED = Gap(
    "softirq.latencies", "the agent does not stamp every softirq: it would cost each packet", "zombiescope doctor does"
)


class SoftirqWindow:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._ksoftirqd = find_ksoftirqd(host)
        self._latency = LatencyWindow(host, self._ksoftirqd)
        self._looks = [read_softirq_wait(host, self._ksoftirqd)]

    def look(self) -> None:
        self._looks.append(read_softirq_wait(self._host, self._ksoftirqd))

    def seen(self) -> SoftirqSeen | Gap:
        latencies = self._latency.end()
        if isinstance(self._ksoftirqd, Gap) and isinstance(latencies, Gap):
            return self._ksoftirqd.about("softirq")
        self.look()
        seen = derive_softirq(self._looks, latencies)
        return seen._replace(is_least=self._latency.is_least, refused=self._latency.refused)


class SoftirqProbe:
    """Raises ObservationError where ksoftirqd is not to be seen."""

    def __init__(self, host: Host) -> None:
        self._host = host
        found = find_ksoftirqd(host)
        if isinstance(found, Gap):
            raise ObservationError("cannot follow ksoftirqd", found.reason, found.hint)
        self._ksoftirqd = found
        self._last: SoftirqLook | None = None
        self._steps: deque[SoftirqStep] = deque(maxlen=int(WINDOW_SECONDS / INTERVAL_SECONDS))
        self._waited = 0.0

    def read(self) -> Reading | Gap:
        look = read_softirq_wait(self._host, self._ksoftirqd)
        if isinstance(look.ksoftirqd, Gap):
            return Reading(gap=look.ksoftirqd, facts={"softirq": look.ksoftirqd.about("softirq")})
        if self._last is not None:
            step = step_between(self._last, look)
            self._steps.append(step)
            self._waited += step.waited_seconds
        self._last = look
        return Reading(
            (MetricSample(SOFTIRQ_WAIT, (), self._waited),),
            {"softirq_wait_seconds": self._waited},
            facts={"softirq": derive_kept(self._steps, _NOT_COUNTED)} if self._steps else {},
        )

    def close(self) -> None:
        """Holds nothing."""
