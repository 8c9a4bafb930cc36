# SPDX-License-Identifier: Apache-2.0
"""Softirq latencies of a window, counted in the kernel from begin to end: by BPF, or by hist triggers where it is refused. A
recording keeps what was told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram
from zombiescope.facts.softirq import CoreLatency, Times
from zombiescope.host.access import Host
from zombiescope.kernel.softirq_latency import SoftirqHist, SoftirqLatency
from zombiescope.probes.kernel_text import refusal

FACT = "softirq.latencies"
_PRESENCE = b"/proc/softirqs"
_NOT_HERE = Gap(
    FACT, "nothing happens in a folder, and its recording did not keep the latencies", "run it on the live host"
)


class LatencyWindow:
    is_least = False
    """They may have been longer: told by hist triggers."""

    def __init__(self, host: Host, ksoftirqd: Mapping[int, int] | Gap) -> None:
        self._host = host
        self._watch, self.refused = _begin(host, {} if isinstance(ksoftirqd, Gap) else ksoftirqd)

    def end(self) -> tuple[CoreLatency, ...] | Gap:
        watch = self._watch
        if isinstance(watch, Gap) and watch.reason.startswith(_PRESENCE.decode()):
            return watch
        outcome = self._host.experiment("softirq_latency", lambda: {**_told(watch), "refused": self.refused})
        if not isinstance(watch, Gap):
            watch.close()
        self.is_least = outcome is not None and outcome.get("by") == "hist"
        self.refused = str(outcome.get("refused", "")) if outcome is not None else ""
        return _NOT_HERE if outcome is None else _checked(outcome)


def _begin(host: Host, ksoftirqd: Mapping[int, int]) -> tuple[SoftirqLatency | SoftirqHist | Gap, str]:
    """And why BPF was refused, where it was."""
    try:
        host.read(_PRESENCE)
    except OSError as error:
        return refusal(FACT, _PRESENCE, error), ""
    if not host.is_live:
        return _NOT_HERE, ""
    try:
        return SoftirqLatency(host.wall_clock, ksoftirqd), ""
    except ObservationError as error:
        refused = Gap(FACT, error.why, error.hint)
    try:
        return SoftirqHist(), refused.reason
    except ObservationError as error:
        return refused._replace(reason=f"{refused.reason}; hist triggers: {error.why}"), refused.reason


def _told(watch: SoftirqLatency | SoftirqHist | Gap) -> dict[str, Any]:
    return {"gap": list(watch)} if isinstance(watch, Gap) else watch.read()


def _checked(outcome: dict[str, Any]) -> tuple[CoreLatency, ...] | Gap:
    """A recording comes from a stranger."""
    try:
        if "gap" in outcome:
            return Gap(*(str(word) for word in outcome["gap"]))
        return tuple(
            CoreLatency(int(core), *(_times(kinds[kind]) for kind in ("network", "others", "poll", "queue")))
            for core, kinds in sorted(outcome["cores"].items(), key=lambda pair: int(pair[0]))
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return Gap(FACT, "the recorded latencies are not in a form we know", "record the host again")


def _times(plain: Any) -> Times:
    buckets, longest, began, is_open = plain
    counts = tuple(int(count) for count in buckets)
    return Times(Histogram(counts), float(longest), None if began is None else float(began), bool(is_open))
