# SPDX-License-Identifier: Apache-2.0
"""Watch the cores: who had no time but for the kernel. The agent, `top` and `verify` keep the stretches of the last minutes;
`doctor` and `cores` look ten times per second, keep a strip per core, and sample who burnt the saturated ones. The history
keeps the share of kernel time of each core over ten seconds (`CoreHeat`)."""

from collections import deque
from functools import reduce
from typing import TYPE_CHECKING

from zombiescope.analysis.core_saturation import (
    SaturationWatch,
    derive_blame,
    parse_causes,
    seconds_between,
    time_between,
)
from zombiescope.diagnosis.case import Case
from zombiescope.facts.agent import MetricSample, Reading
from zombiescope.facts.cores import (
    NOT_SAMPLED,
    Blame,
    CoreLook,
    CoreMode,
    CoresSeen,
    CoreTime,
    CoreUse,
    CoreWindow,
    KernelSamples,
    Stretch,
)
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import CORE_PREFIX
from zombiescope.facts.metric_names import CORE_SATURATED
from zombiescope.facts.plain import of_outcome, to_outcome
from zombiescope.host.access import Host
from zombiescope.host.safe_open import read_shipped
from zombiescope.probes.readers.cpu_time import FACT, read_cpu_time
from zombiescope.watching.watch import Events, Quiet, Teller

if TYPE_CHECKING:
    from zombiescope.probes.readers.kernel_stacks import KernelStacks

MOST_ROWS = 16
_SECONDS = 9.5


class CoreHeat:
    """The share of kernel time of each core over ten seconds, in percent. Where there are many, several stand in one row, and the
    highest among them is kept: a saturated core does not drown in an average."""

    def __init__(self) -> None:
        self._before: CoreLook | None = None
        self.shares: dict[str, float] = {}
        """By series, of the last ten seconds; empty until they are over."""

    def take(self, look: CoreLook) -> None:
        before = self._before
        elapsed = seconds_between(before, look) if before else None
        if before is None or elapsed is None:
            self._before, self.shares = look, {}
        elif elapsed >= _SECONDS:
            self._before, self.shares = look, _shares(before, look, elapsed)


def _shares(before: CoreLook, look: CoreLook, elapsed: float) -> dict[str, float]:
    rows: dict[str, float] = {}
    width = -(-(max(look.cores, default=0) + 1) // MOST_ROWS)
    for core, ticks in look.cores.items():
        then = before.cores.get(core)
        time = time_between(then, ticks, elapsed) if then else None
        if time is None:
            continue
        first = core // width * width
        name = CORE_PREFIX + (str(core) if width == 1 else f"{first}-{first + width - 1}")
        rows[name] = max(rows.get(name, 0.0), float(min(round(100 * time.kernel / elapsed), 100)))
    return rows


LOOKS_PER_SECOND = 10
_KEPT_SECONDS = 600.0
_MOST_STRETCHES, _MOST_EVENTS_A_MINUTE, _LOOKS_A_DRAIN = 500, 30, 5
_CAUSES, _EXPERIMENT = "kernel_causes.toml", "kernel_stacks"
_GARBLED = Gap(NOT_SAMPLED.fact, "the recorded call chains are not in a form we know", "record the host again")
_NOT_KEPT = Gap(NOT_SAMPLED.fact, "the recording holds no call chains", "zombiescope cores on the host itself")


class CoresWatch(Quiet):
    def __init__(self, host: Host, interval: float = 1.0, kept_seconds: float = _KEPT_SECONDS) -> None:
        """`interval`: how far apart the looks are; `kept_seconds`: how far back `seen` tells."""
        self._host, self._interval, self._kept = host, interval, kept_seconds
        self._watch = SaturationWatch()
        self._began: float | None = None
        self.last: CoreLook | None = None
        self._stretches: deque[Stretch] = deque(maxlen=_MOST_STRETCHES)
        self.at = 0.0
        """Of the last look."""
        self.ended: list[Stretch] = []
        self.gap: Gap | None = None
        """Of the last look."""

    @property
    def seconds(self) -> dict[CoreMode, float]:
        """Saturated since watching began, by what held the core."""
        return {mode: self._watch.seconds.get(mode, 0.0) for mode in CoreMode}

    def look(self) -> None:
        look = read_cpu_time(self._host)
        self.gap, self.ended = (look, []) if isinstance(look, Gap) else (None, self._take(look))

    def seen(self) -> CoresSeen | Gap:
        if self.last is None or self._began is None or self.gap:
            return self.gap or Gap(FACT, "no look was taken")
        since = max(self._began, self.last.at - self._kept)
        while self._stretches and self._stretches[0].begin + self._stretches[0].seconds < since:
            self._stretches.popleft()
        return CoresSeen(since, self.last.at - since, self._interval, len(self.last.cores), self._sorted())

    def _take(self, look: CoreLook) -> list[Stretch]:
        self._began = look.at if self._began is None or self._began > look.at else self._began
        self.last, self.at = look, look.at
        ended = self._watch.take(look)
        self._stretches.extend(ended)
        return ended

    def _sorted(self) -> tuple[Stretch, ...]:
        return tuple(sorted([*self._stretches, *self._watch.unfinished()], key=lambda each: (each.begin, each.core)))


class DetailedCoresWatch(CoresWatch):
    """`look` as often as the interval says, then `seen`, which closes it."""

    def __init__(self, host: Host, *, with_blame: bool = False) -> None:
        super().__init__(host, 1 / LOOKS_PER_SECOND)
        self._stretches = deque()
        self._stacks: KernelStacks | Gap | None = None
        self._with_blame, self._looks = with_blame, 0
        self._first: CoreLook | None = None
        self._windows: dict[int, list[CoreWindow]] = {}
        self._failed: Gap | None = None
        self._missed = 0

    def look(self) -> None:
        super().look()
        self._failed = self.gap or self._failed

    def close(self) -> None:
        if self._stacks and not isinstance(self._stacks, Gap):
            self._stacks.close()
        self._stacks = None

    def seen(self) -> CoresSeen | Gap:
        """Once, at the end: nothing is sampled any more."""
        try:
            return self._seen()
        finally:
            self.close()

    def _take(self, look: CoreLook) -> list[Stretch]:
        if self.last is None:
            self._first = look
        else:
            self._add_windows(self.last, look)
        ended = super()._take(look)
        if self._with_blame:
            self._sample(look)
        return ended

    def _sample(self, look: CoreLook) -> None:
        self._looks += 1
        if self._stacks is None:
            from zombiescope.probes.readers.kernel_stacks import open_kernel_stacks  # noqa: PLC0415 (the agent samples none)

            self._stacks = open_kernel_stacks(self._host, sorted(look.cores))
        elif not isinstance(self._stacks, Gap) and self._looks % _LOOKS_A_DRAIN == 0:
            self._stacks.drain()

    def _seen(self) -> CoresSeen | Gap:
        if self._first is None or self.last is None:
            return self._failed or Gap(FACT, "no look was taken")
        seconds = self.last.steady - self._first.steady
        if not self._windows:
            return self._failed or Gap(FACT, "nothing passes here: the counters were the same at every look")
        stretches = self._sorted()
        return CoresSeen(
            self._first.at,
            seconds if seconds > 0 else self.last.at - self._first.at,
            self._interval,
            len(self.last.cores),
            stretches,
            tuple(_use(core, windows) for core, windows in sorted(self._windows.items())),
            self._blame(stretches),
            tuple(self._gaps()),
        )

    def _blame(self, stretches: tuple[Stretch, ...]) -> Blame | Gap:
        if not self._with_blame or not stretches:
            return NOT_SAMPLED if not self._with_blame else Blame(0, 0, 0, ())
        outcome = self._host.experiment(_EXPERIMENT, lambda: to_outcome(self._named(stretches)))
        taken = _NOT_KEPT if outcome is None else of_outcome(outcome, KernelSamples, _GARBLED)
        if isinstance(taken, Gap):
            return taken
        return derive_blame(taken, list(stretches), parse_causes(read_shipped(_CAUSES)))

    def _named(self, stretches: tuple[Stretch, ...]) -> KernelSamples | Gap:
        if self._stacks is None or isinstance(self._stacks, Gap):
            return self._stacks or NOT_SAMPLED
        assert self.last is not None
        self._stacks.drain()
        times = [(each.core, each.begin, each.begin + each.seconds) for each in stretches]
        return self._stacks.named(times, self.last.at - self.last.steady)

    def _add_windows(self, before: CoreLook, after: CoreLook) -> None:
        if (elapsed := seconds_between(before, after)) is None:
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
            some = f"{self._missed:,} windows"
            found.append(Gap("cores[].windows", f"{some} could not be judged: a counter or the clock ran backwards"))
        return found


class CoresTeller(Teller):
    def __init__(self, host: Host) -> None:
        self._watch = CoresWatch(host)
        self._events = Events("core-saturated", "stretches", _MOST_EVENTS_A_MINUTE)
        self._heat = CoreHeat()

    def read(self) -> Reading:
        watch = self._watch
        watch.look()
        if watch.gap:
            return Reading(gap=watch.gap)
        seconds = watch.seconds
        if watch.last is not None:
            self._heat.take(watch.last)
        return Reading(
            tuple(MetricSample(CORE_SATURATED, (mode,), value) for mode, value in seconds.items()),
            {"saturated_seconds": sum(seconds.values()), **self._heat.shares},
            happened=self._events.take(watch.at, [(each.begin, _words(each)) for each in watch.ended]),
        )

    def fill(self, case: Case) -> Case:
        return case._replace(cores=self._watch.seen())


def _words(stretch: Stretch) -> str:
    least = "at least " if stretch.is_cut else ""
    return f"core {stretch.core}: {least}{stretch.seconds:.1f} s, {stretch.share:.0%} {stretch.mode}"


def _use(core: int, windows: list[CoreWindow]) -> CoreUse:
    return CoreUse(core, reduce(CoreTime.plus, (window.time for window in windows), CoreTime()), tuple(windows))
