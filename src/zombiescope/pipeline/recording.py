# SPDX-License-Identifier: Apache-2.0
"""Which segments of a rolling recording are worth keeping: those around a NIC reset, a saturated core or a finding."""

from __future__ import annotations

from collections.abc import Callable

from zombiescope.config import thresholds_for
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.errors import ZombiescopeError
from zombiescope.history.reader import remember
from zombiescope.host.live import LiveHost
from zombiescope.pipeline.scan import scan
from zombiescope.profiling.capture import Capture
from zombiescope.profiling.saturation import find_moments
from zombiescope.watching.nics import FollowedNicsWatch

_REMEMBERED = {"saturated-core": "core-saturated", "nic-reset": "nic-reset", "finding": "finding-present"}
"""What the agent calls it in its history."""
AROUND = tuple(_REMEMBERED)
_SEVERE = (Severity.OK, Severity.UNKNOWN, Severity.WARNING, Severity.CRITICAL)


def keeper(
    around: tuple[str, ...], state: bytes | None = None, *, believe_users: bool = False
) -> Callable[[Capture], bool]:
    """A function that is asked after each segment; nothing asked for keeps all. `state`: what the agent saw counts too.

    A finding is an event when it comes, not as long as it is there: a sick machine would keep everything.
    """
    if not around:
        return lambda _: True
    watches: list[Callable[[Capture], bool]] = []
    if "saturated-core" in around:
        watches.append(lambda capture: bool(find_moments(capture)))
    if "nic-reset" in around:
        watches.append(_Resets(believe_users=believe_users).since_last)
    if "finding" in around:
        watches.append(_Findings(_findings).since_last)
    if state is not None:
        watches.append(_Remembered(state, frozenset(_REMEMBERED[event] for event in around)).since_last)
    return lambda capture: any([watch(capture) for watch in watches])  # noqa: C419 (each watch must see each segment)


class _Resets:
    def __init__(self, *, believe_users: bool) -> None:
        self._watch = FollowedNicsWatch(LiveHost(), believe_users=believe_users)

    def since_last(self, capture: Capture) -> bool:
        """By the kernel's log, or by what the drivers count where it may not be read."""
        del capture
        self._watch.look()
        return bool(self._watch.ended)


class _Remembered:
    """What the agent wrote into its history. It may write after a segment has ended: the one before is looked at again, and is
    kept beside this one."""

    def __init__(self, folder: bytes, kinds: frozenset[str]) -> None:
        self._folder, self._kinds = folder, kinds
        self._seen_to: float | None = None
        self._known: set[tuple[float, str]] = set()

    def since_last(self, capture: Capture) -> bool:
        clock = capture.about.clock
        if clock is None or not len(capture.time):
            return False
        began = (clock.wall_ns + int(capture.time[0]) - clock.sample_ns) / 1e9
        since, until = began if self._seen_to is None else min(began, self._seen_to), began + capture.seconds
        self._seen_to = began
        happenings = remember(self._folder, since, until, frozenset()).happenings
        found = {(each.at, each.what) for each in happenings if each.what in self._kinds}
        new, self._known = found - self._known, found
        return bool(new)


class _Findings:
    """Those of a scan that were not there at the look before, or not as severe."""

    def __init__(self, look: Callable[[], dict[str, Severity] | None]) -> None:
        self._look = look
        self._known = look() or {}

    def since_last(self, capture: Capture) -> bool:
        del capture
        found = self._look()
        if found is None:  # nothing could be seen: what comes after is compared with what was seen last
            return False
        known, self._known = self._known, found
        return any(_SEVERE.index(how) > _SEVERE.index(known.get(one, Severity.OK)) for one, how in found.items())


def _findings() -> dict[str, Severity] | None:
    try:
        found = scan(LiveHost(), with_bytes=False, thresholds=thresholds_for(None, is_live=True)).diagnosis.findings
    except ZombiescopeError:
        return None
    return {one.id: one.severity for one in found if one.verdict is Verdict.PRESENT}
