# SPDX-License-Identifier: Apache-2.0
"""Watch the cores for a window: looks go in, what was seen comes out, and on request who burnt the saturated ones. `doctor` and
`cores` look ten times a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from zombiescope.analysis.core_saturation import SaturationWatch
from zombiescope.analysis.core_time import seconds_between, time_between
from zombiescope.facts.blame import Blame, KernelSample, KernelSamples
from zombiescope.facts.cores import NOT_SAMPLED, CoreLook, CoresSeen, CoreTime, CoreUse, CoreWindow, Stretch
from zombiescope.facts.gap import Gap
from zombiescope.facts.node import Identity
from zombiescope.host.access import Host
from zombiescope.host.replay import ReplayHost
from zombiescope.probes.readers.cpu_time import FACT, PATH, read_cpu_time
from zombiescope.probes.readers.kernel_stacks import KernelStacks, open_kernel_stacks
from zombiescope.probes.readers.node import read_identity

LOOKS_PER_SECOND = 10
_LOOKS_A_DRAIN = 5
_CAUSES = "kernel_causes.toml"
_EXPERIMENT = "kernel_stacks"


class CoresAnswer(NamedTuple):
    taken_at: float
    identity: Identity
    seen: CoresSeen | Gap


def watch_cores(
    host: Host, seconds: float, progress: Callable[[float], None] = lambda _: None, *, with_blame: bool = True
) -> CoresAnswer:
    """`cores`: for so many seconds; of a recording for as long as it looked at the cores."""
    if isinstance(host, ReplayHost):
        host.go_to(PATH)
    seconds = watchable(host, seconds)
    window = CoresWindow(host, with_blame=with_blame)
    steps = max(round(seconds * LOOKS_PER_SECOND), 1)
    try:
        window.look()
        taken_at, identity = host.wall_clock(), read_identity(host)
        for step in range(1, steps + 1):
            host.wait(seconds / steps)
            window.look()
            progress(seconds * step / steps)
        return CoresAnswer(taken_at, identity, window.seen())
    finally:
        window.close()


def watchable(host: Host, seconds: float) -> float:
    """Of a recording no longer than it looked: afterwards its counters stand still, which says nothing of the machine."""
    left = host.seconds_left(PATH) if isinstance(host, ReplayHost) else None
    return min(seconds, left) if left else seconds


class CoresWindow:
    """`look` as often as the interval says, then `seen`, which closes it."""

    def __init__(self, host: Host, interval: float = 1 / LOOKS_PER_SECOND, *, with_blame: bool = False) -> None:
        self._host, self._interval = host, interval
        self._stacks: KernelStacks | Gap | None = None
        self._with_blame = with_blame
        self._looks = 0
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
        self._sample(look)

    def close(self) -> None:
        if isinstance(self._stacks, KernelStacks):
            self._stacks.close()
        self._stacks = None

    def _sample(self, look: CoreLook) -> None:
        if not self._with_blame:
            return
        self._looks += 1
        if self._stacks is None:
            self._stacks = open_kernel_stacks(self._host, sorted(look.cores))
        elif isinstance(self._stacks, KernelStacks) and self._looks % _LOOKS_A_DRAIN == 0:
            self._stacks.drain()

    def seen(self) -> CoresSeen | Gap:
        """Once, at the end: nothing is sampled any more."""
        try:
            return self._seen()
        finally:
            self.close()

    def _seen(self) -> CoresSeen | Gap:
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
            self._blame(stretches),
            tuple(self._gaps()),
        )

    def _blame(self, stretches: list[Stretch]) -> Blame | Gap:
        if not self._with_blame or not stretches:
            return NOT_SAMPLED if not self._with_blame else Blame(0, 0, 0, ())
        outcome = self._host.experiment(_EXPERIMENT, lambda: _plain(self._named(stretches)))
        if outcome is None:
            return Gap(NOT_SAMPLED.fact, "the recording holds no call chains", "zombiescope cores on the host itself")
        if "gap" in outcome:
            return Gap(*outcome["gap"])
        from zombiescope.analysis.kernel_blame import derive_blame, parse_causes  # noqa: PLC0415 (only when needed)
        from zombiescope.host.shipped import read_shipped  # noqa: PLC0415

        return derive_blame(_samples_of(outcome), stretches, parse_causes(read_shipped(_CAUSES)))

    def _named(self, stretches: list[Stretch]) -> KernelSamples | Gap:
        if not isinstance(self._stacks, KernelStacks):
            return self._stacks or NOT_SAMPLED
        assert self._last is not None
        self._stacks.drain()
        times = [(each.core, each.begin, each.begin + each.seconds) for each in stretches]
        return self._stacks.named(times, self._last.at - self._last.steady)

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


def _plain(taken: KernelSamples | Gap) -> dict[str, Any]:
    """As a recording keeps it."""
    if isinstance(taken, Gap):
        return {"gap": list(taken)}
    return {
        "rate_hz": taken.rate_hz,
        "lost": taken.lost,
        "samples": [[each.at, each.core, each.thread, list(each.frames)] for each in taken.samples],
        "threads": [list(each) for each in taken.threads],
    }


def _samples_of(plain: dict[str, Any]) -> KernelSamples:
    return KernelSamples(
        plain["rate_hz"],
        plain["lost"],
        tuple(KernelSample(at, core, thread, tuple(frames)) for at, core, thread, frames in plain["samples"]),
        tuple((thread, name) for thread, name in plain["threads"]),
    )
