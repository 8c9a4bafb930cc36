# SPDX-License-Identifier: Apache-2.0
"""Which segments of a rolling recording are worth keeping: those around a NIC reset, a saturated core or a finding."""

from __future__ import annotations

from collections.abc import Callable

from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.errors import ZombiescopeError
from zombiescope.host.live import LiveHost
from zombiescope.pipeline.nic_watch import NicWatch
from zombiescope.pipeline.scan import scan
from zombiescope.profiling.capture import Capture
from zombiescope.profiling.saturation import find_moments

AROUND = ("saturated-core", "nic-reset", "finding")


def keeper(around: tuple[str, ...]) -> Callable[[Capture], bool]:
    """A function that is asked after each segment; nothing asked for keeps all."""
    if not around:
        return lambda _: True
    watches: list[Callable[[Capture], bool]] = []
    if "saturated-core" in around:
        watches.append(lambda capture: bool(find_moments(capture)))
    if "nic-reset" in around:
        watches.append(_Resets().since_last)
    if "finding" in around:
        watches.append(lambda _: _has_finding())
    return lambda capture: any([watch(capture) for watch in watches])  # noqa: C419 (each watch must see each segment)


class _Resets:
    def __init__(self) -> None:
        self._watch = NicWatch(LiveHost())
        self._watch.look()

    def since_last(self, capture: Capture) -> bool:
        """By the kernel's log, or by what the drivers count where it may not be read."""
        del capture
        return bool(self._watch.look())


def _has_finding() -> bool:
    try:
        found = scan(LiveHost(), with_bytes=False).diagnosis.findings
    except ZombiescopeError:
        return False
    return any(one.verdict is Verdict.PRESENT and one.severity is not Severity.OK for one in found)
