# SPDX-License-Identifier: Apache-2.0
"""Watch the cores for a window: looks go in, what was seen comes out. `doctor` and `cores` look ten times a second."""

from __future__ import annotations

from zombiescope.analysis.core_saturation import SaturationWatch
from zombiescope.analysis.core_time import seconds_between, time_between
from zombiescope.facts.cores import CoreLook, CoresSeen, CoreTime, CoreUse, CoreWindow, Stretch
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.readers.cpu_time import FACT, read_cpu_time

LOOKS_PER_SECOND = 10


class CoresWindow:
    """`look` as often as the interval says, then `seen`."""

    def __init__(self, host: Host, interval: float = 1 / LOOKS_PER_SECOND) -> None:
        self._host, self._interval = host, interval
        self._watch = SaturationWatch()
        self._first: CoreLook | None = None
        self._last: CoreLook | None = None
        self._windows: dict[int, list[CoreWindow]] = {}
        self._ended: list[Stretch] = []
        self._failed: Gap | None = None
        self._missed = 0

    def look(self) -> None:
        look = read_cpu_time(self._host)
        if isinstance(look, Gap):
            self._failed = look
            return
        if self._last is None:
            self._first = look
        else:
            self._add_windows(self._last, look)
        self._ended += self._watch.take(look)
        self._last = look

    def seen(self) -> CoresSeen | Gap:
        if self._first is None or self._last is None:
            return self._failed or Gap(FACT, "no look was taken")
        seconds = self._last.steady - self._first.steady
        if not self._windows:
            return self._failed or Gap(FACT, "nothing passes here: the counters were the same at every look")
        stretches = sorted([*self._ended, *self._watch.finish()], key=lambda each: (each.begin, each.core))
        return CoresSeen(
            self._first.at,
            seconds if seconds > 0 else self._last.at - self._first.at,
            self._interval,
            len(self._last.cores),
            tuple(stretches),
            tuple(_use(core, self._windows[core]) for core in sorted(self._windows)),
            tuple(self._gaps()),
        )

    def _add_windows(self, before: CoreLook, after: CoreLook) -> None:
        elapsed = seconds_between(before, after)
        if elapsed is None:
            self._missed += 1
            return
        for core, ticks in after.cores.items():
            then = before.cores.get(core)
            time = time_between(then, ticks, elapsed) if then else None
            if time is not None:
                self._windows.setdefault(core, []).append(CoreWindow(before.at, elapsed, time))
            elif then:
                self._missed += 1

    def _gaps(self) -> list[Gap]:
        found = [self._failed] if self._failed else []
        if self._missed:
            why = f"{self._missed:,} windows could not be judged: a counter or the clock ran backwards"
            found.append(Gap("cores[].windows", why))
        return found


def _use(core: int, windows: list[CoreWindow]) -> CoreUse:
    total = CoreTime()
    for window in windows:
        total = total.plus(window.time)
    return CoreUse(core, total, tuple(windows))
