# SPDX-License-Identifier: Apache-2.0
"""Stretches in which a core had no time but for the kernel, found while looks come in: ten a second or one.

A window between two looks is hot when the kernel had nearly all of it. Hot windows in a row are a stretch; a short break (a
scheduler's mercy for other tasks) does not end it. Its ends lie inside the windows around it: as far in as these had more kernel
time than the core had before. Cores that do nothing of the kind cost a subtraction each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from zombiescope.analysis.core_time import seconds_between, time_between
from zombiescope.facts.cores import USER_HZ, CoreLook, CoreMode, CoreTime, Stretch


class Tuning(NamedTuple):
    """Chosen on the tuning half of the labelled runs in `tests/cores`, judged on the other half (`bench/bench_cores.py`)."""

    hot: float = 0.75
    """Share of a window that the kernel has at least in a hot one."""
    most_idle: float = 0.15
    join_seconds: float = 0.25
    least_seconds: float = 0.5


@dataclass(slots=True)
class _Open:
    """A stretch that goes on."""

    begin: float
    end: float
    """Of the last hot window."""
    quiet_share: float
    """Kernel share before it began: what the edges have anyway."""
    is_cut: bool
    time: CoreTime = field(default_factory=CoreTime)
    waiting: list[tuple[float, float, CoreTime]] = field(default_factory=list)
    """Windows after the last hot one: seconds, kernel share, time."""

    @property
    def waiting_seconds(self) -> float:
        return sum(seconds for seconds, _, _ in self.waiting)


class SaturationWatch:
    def __init__(self, tuning: Tuning = Tuning()) -> None:  # noqa: B008 (immutable)
        self._tuning = tuning
        self._before: CoreLook | None = None
        self._shares: dict[int, tuple[float, float, float]] = {}
        """Kernel share of the last window, of the one before it, and the seconds of the last."""
        self._open: dict[int, _Open] = {}
        self.seconds: dict[CoreMode, float] = {}
        """Saturated since watching began: grows while a stretch lasts."""

    def take(self, look: CoreLook) -> list[Stretch]:
        """The stretches that this look showed to be over."""
        before, self._before = self._before, look
        if before is None:
            return []
        elapsed = seconds_between(before, look)
        if elapsed is None:
            return self._forget_all()
        ended: list[Stretch] = []
        gone = self._open.keys() - look.cores.keys()
        for core in gone:
            ended += self._close(core, is_cut=True)
        shares, hot, ticks_elapsed = self._shares, self._tuning.hot, elapsed * USER_HZ
        for core, now in look.cores.items():
            then = before.cores.get(core)
            if then is None:
                shares.pop(core, None)
                continue
            # Written out: on a machine with hundreds of cores this is the whole cost of watching them.
            kernel = now[2] + now[5] + now[6] + now[7] - then[2] - then[5] - then[6] - then[7]
            share = kernel / ticks_elapsed if kernel > 0 else 0.0
            if share >= hot or core in self._open:
                ended += self._look_closely(core, time_between(then, now, elapsed), look.at, elapsed)
            else:
                known = shares.get(core)
                shares[core] = (share, known[0] if known else share, elapsed)
        return ended

    def finish(self) -> list[Stretch]:
        """Those still going on, as far as they were seen."""
        return [stretch for core in sorted(self._open) for stretch in self._close(core, is_cut=True)]

    def unfinished(self) -> list[Stretch]:
        """Those still going on, as far as they were seen; they go on being followed."""
        found = [self._stretch(core, current, current.end, is_cut=True) for core, current in self._open.items()]
        return [stretch for stretch in found if stretch is not None]

    def going_on(self) -> tuple[int, ...]:
        return tuple(sorted(self._open))

    def _forget_all(self) -> list[Stretch]:
        self._shares.clear()
        return self.finish()

    def _look_closely(self, core: int, time: CoreTime | None, until: float, elapsed: float) -> list[Stretch]:
        if time is None:
            self._shares.pop(core, None)
            return self._close(core, is_cut=True)
        share = min(time.kernel / elapsed, 1.0)
        is_hot = share >= self._tuning.hot and (time.idle + time.iowait) / elapsed <= self._tuning.most_idle
        current = self._open.get(core)
        if is_hot:
            if current is None:
                current = self._open[core] = self._begin(core, until - elapsed)
            for _, _, waited in current.waiting:
                current.time = current.time.plus(waited)
            current.waiting.clear()
            current.time, current.end = current.time.plus(time), until
            self._count(time)
        elif current is not None:
            current.waiting.append((elapsed, share, time))
            if current.waiting_seconds > self._tuning.join_seconds:
                return self._close(core, is_cut=False)
        else:
            self._remember(core, share, elapsed)
        return []

    def _remember(self, core: int, share: float, elapsed: float) -> None:
        known = self._shares.get(core)
        self._shares[core] = (share, known[0] if known else share, elapsed)

    def _begin(self, core: int, begin: float) -> _Open:
        known = self._shares.pop(core, None)
        if known is None:
            return _Open(begin, begin, 0.0, is_cut=True)
        last, before_last, seconds = known
        quiet = min(last, before_last)
        return _Open(begin - (last - quiet) * seconds, begin, quiet, is_cut=False)

    def _close(self, core: int, *, is_cut: bool) -> list[Stretch]:
        current = self._open.pop(core, None)
        if current is None:
            return []
        end = current.end
        if current.waiting:
            seconds, share, _ = current.waiting[0]
            end += max(share - current.quiet_share, 0.0) * seconds
            _, last, _ = current.waiting[-1]
            self._shares[core] = (last, last, seconds)
        stretch = self._stretch(core, current, end, is_cut=is_cut)
        return [stretch] if stretch else []

    def _stretch(self, core: int, current: _Open, end: float, *, is_cut: bool) -> Stretch | None:
        if end - current.begin < self._tuning.least_seconds:
            return None
        share = min(current.time.kernel / current.time.total, 1.0)
        return Stretch(core, current.begin, end - current.begin, mode_of(current.time), share, current.is_cut or is_cut)

    def _count(self, time: CoreTime) -> None:
        mode = mode_of(time)
        self.seconds[mode] = self.seconds.get(mode, 0.0) + time.kernel


def mode_of(time: CoreTime) -> CoreMode:
    return max(CoreMode, key=lambda mode: getattr(time, mode))
