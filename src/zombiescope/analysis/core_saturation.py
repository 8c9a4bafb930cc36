# SPDX-License-Identifier: Apache-2.0
"""Stretches in which a core had no time but for the kernel, found while looks come in, ten a second or one; and samples of them
grouped: functions, processes, and causes in plain words by a table of every name that the same work has had in any kernel.

A window between two looks is hot when the kernel had nearly all of it. Hot windows in a row are a stretch; a short break (a
scheduler's mercy for other tasks) does not end it, and does not speak for what held the core: how much of it the kernel had is
judged by the hot windows, without the time that no tick accounts for. Its ends lie inside the windows at its edges: as far in as
their kernel time, above what the core had before, reaches of the level inside. A core that is merely busy in the kernel, and not
without time for anything else, is none. Cores that do nothing of the kind cost a subtraction each.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zombiescope.facts.cores import (
    USER_HZ,
    Blame,
    Blamed,
    CoreLook,
    CoreMode,
    CoreTicks,
    CoreTime,
    KernelSample,
    KernelSamples,
    Share,
    Stretch,
)

_IDLE, _IOWAIT = 3, 4
_TICK = 1.0 / USER_HZ
_MOST_TICKS_OVER = 8
"""Each of eight counters is cut to hundredths on its own."""
_CLOCK_MOVED = 0.2
"""By this share of the time between two looks (and 50 ms at least) the wall clock and the steady one may differ."""


def seconds_between(before: CoreLook, after: CoreLook) -> float | None:
    """By the wall clock, which a recording keeps; None when somebody set it meanwhile, or no time passed."""
    elapsed, steady = after.at - before.at, after.steady - before.steady
    if elapsed <= 0 or abs(elapsed - steady) > max(_CLOCK_MOVED * elapsed, 0.05):
        return None
    return elapsed


def time_between(before: CoreTicks, after: CoreTicks, elapsed: float) -> CoreTime | None:
    """None when a counter ran backwards, or when the busy ones tell of more time than passed."""
    moved = [now - then for now, then in zip(after, before, strict=True)]
    for place in (_IDLE, _IOWAIT):  # known to run backwards on idle cores of tickless kernels
        moved[place] = max(moved[place], 0)
    if min(moved) < 0:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (ticks * _TICK for ticks in moved)
    busy = user + nice + system + irq + softirq + steal
    if busy > elapsed * 1.5 + _MOST_TICKS_OVER * _TICK:
        return None
    free = max(elapsed - busy, 0.0)
    # Idle time is computed and may jump; what the ticks say was work is believed first.
    idle = min(idle, free)
    iowait = min(iowait, free - idle)
    return CoreTime(user + nice, system, softirq, irq, steal, iowait, idle, max(free - idle - iowait, 0.0))


_WHOLE = 0.9
"""A window covered so far is taken for covered: ticks do not tell it better."""


class SaturationTuning(NamedTuple):
    """Chosen on the tuning half of the labelled runs in `tests/cores`, judged on the other half (`bench/bench_cores.py`)."""

    hot: float = 0.75
    """Share of a window that the kernel has at least in a hot one."""
    least_share: float = 0.85
    """Of what ticks account for in the hot windows of a stretch, edges left out: a real-time task may have 95 % at most, so that
    with the breaks in it one that also works a little for itself would seem to be merely busy."""
    least_whole: float = 0.8
    """Of the whole stretch, breaks included, edges left out: one that rests as often as it works holds nothing up."""
    least_long: float = 0.83
    """Instead of `least_share` where windows are longer than a break and have it inside: midway between the busy and the held."""
    most_idle: float = 0.15
    join_seconds: float = 0.25
    least_seconds: float = 0.5


class _Piece(NamedTuple):
    """One window of a stretch."""

    end: float
    seconds: float
    share: float
    time: CoreTime


@dataclass(slots=True)
class _Open:
    """A stretch that goes on."""

    first: _Piece
    last: _Piece
    """The last hot one."""
    before: tuple[float, float]
    """Kernel share and seconds of the window before it."""
    quiet_share: float
    """Kernel share before it began: what the edges have anyway."""
    is_cut: bool
    level: float = 0.0
    """The highest share of its windows."""
    highest: float = 0.0
    """The same, of what ticks account for."""
    time: CoreTime = field(default_factory=CoreTime)
    inside: CoreTime = field(default_factory=CoreTime)
    """Without the first and the last hot window."""
    held: CoreTime = field(default_factory=CoreTime)
    """The same without the breaks."""
    waiting: list[_Piece] = field(default_factory=list)
    """Windows after the last hot one."""
    counted: float = 0.0
    """Seconds that are counted already."""

    def add(self, piece: _Piece) -> None:
        """One more hot window; what waited for it lies inside."""
        if self.last is not self.first:
            self.inside, self.held = self.inside.plus(self.last.time), self.held.plus(self.last.time)
        for each in self.waiting:
            self.inside, self.time = self.inside.plus(each.time), self.time.plus(each.time)
        self.waiting.clear()
        self.time, self.last = self.time.plus(piece.time), piece
        self.level = max(self.level, piece.share)
        self.highest = max(self.highest, told_share(piece.time))

    def covered(self, share: float) -> float:
        """Of a window at an edge, the part that lies in the stretch."""
        above = self.level - self.quiet_share
        return min(max((share - self.quiet_share) / above, 0.0), 1.0) if above > 0 else 0.0

    @property
    def begin(self) -> float:
        share, seconds = self.before
        begin = self.first.end - self.covered(self.first.share) * self.first.seconds
        return begin - (self.covered(share) * seconds if self.covered(self.first.share) > _WHOLE else 0.0)

    @property
    def end(self) -> float:
        if self.last is not self.first and self.covered(self.last.share) < _WHOLE:
            return self.last.end - (1 - self.covered(self.last.share)) * self.last.seconds
        following = self.waiting[0] if self.waiting else None
        return self.last.end + (self.covered(following.share) * following.seconds if following else 0.0)

    @property
    def share(self) -> float:
        return min(self.inside.kernel / self.inside.total, 1.0) if self.inside.total > 0 else self.level

    @property
    def held_share(self) -> float:
        return told_share(self.held) if self.held.total > 0 else self.highest


class SaturationWatch:
    def __init__(self, tuning: SaturationTuning = SaturationTuning()) -> None:  # noqa: B008 (immutable)
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
            self._shares.clear()
            return self.finish()
        ended: list[Stretch] = []
        for core in self._open.keys() - look.cores.keys():
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
        found = [self._stretch(core, current, is_cut=True) for core, current in self._open.items()]
        return [stretch for stretch in found if stretch is not None]

    def _look_closely(self, core: int, time: CoreTime | None, until: float, elapsed: float) -> list[Stretch]:
        if time is None:
            self._shares.pop(core, None)
            return self._close(core, is_cut=True)
        piece = _Piece(until, elapsed, min(time.kernel / elapsed, 1.0), time)
        is_hot = piece.share >= self._tuning.hot and (time.idle + time.iowait) / elapsed <= self._tuning.most_idle
        current = self._open.get(core)
        if is_hot:
            if current is None:
                current = self._open[core] = self._begin(core, piece)
            current.add(piece)
            if told_share(time) >= self._line(piece):
                self._count(current, mode_of(time), time.kernel)
        elif current is not None:
            current.waiting.append(piece)
            if sum(each.seconds for each in current.waiting) > self._tuning.join_seconds:
                return self._close(core, is_cut=False)
        else:
            known = self._shares.get(core)
            self._shares[core] = (piece.share, known[0] if known else piece.share, elapsed)
        return []

    def _begin(self, core: int, piece: _Piece) -> _Open:
        known = self._shares.pop(core, None)
        if known is None:
            return _Open(piece, piece, (0.0, 0.0), 0.0, is_cut=True)
        last, before_last, seconds = known
        return _Open(piece, piece, (last, seconds), min(last, before_last), is_cut=False)

    def _close(self, core: int, *, is_cut: bool) -> list[Stretch]:
        current = self._open.pop(core, None)
        if current is None:
            return []
        if current.waiting:
            latest = current.waiting[-1]
            self._shares[core] = (latest.share, latest.share, latest.seconds)
        stretch = self._stretch(core, current, is_cut=is_cut)
        if stretch is None:
            return []
        self._count(current, stretch.mode, max(stretch.seconds * stretch.share - current.counted, 0.0))  # the edges
        return [stretch]

    def _stretch(self, core: int, current: _Open, *, is_cut: bool) -> Stretch | None:
        seconds = current.end - current.begin
        is_held = current.held_share >= self._line(current.last) and current.share >= self._tuning.least_whole
        if seconds < self._tuning.least_seconds or not is_held:
            return None
        return Stretch(core, current.begin, seconds, mode_of(current.time), current.share, current.is_cut or is_cut)

    def _line(self, piece: _Piece) -> float:
        """What the hot windows have at least."""
        return self._tuning.least_long if piece.seconds > self._tuning.join_seconds else self._tuning.least_share

    def _count(self, current: _Open, mode: CoreMode, seconds: float) -> None:
        current.counted += seconds
        self.seconds[mode] = self.seconds.get(mode, 0.0) + seconds


def told_share(time: CoreTime) -> float:
    """The kernel's, of what ticks account for: they are cut to hundredths, and some are lost, whoever had the core."""
    told = time.total - time.lost
    return min(time.kernel / told, 1.0) if told > 0 else 0.0


def mode_of(time: CoreTime) -> CoreMode:
    return max(CoreMode, key=lambda mode: getattr(time, mode))


OTHER = "other"
_COMPILERS = re.compile(r"\.(isra|part|constprop|cold|llvm|lto_priv|localalias)\b.*")


class Causes(NamedTuple):
    exact: Mapping[str, str]
    """Function to cause."""
    beginnings: tuple[tuple[str, str], ...]
    words: Mapping[str, str]
    """Cause to what it is called in a sentence."""

    def of(self, function: str) -> str | None:
        name = _COMPILERS.sub("", function)
        return self.exact.get(name) or next((cause for start, cause in self.beginnings if name.startswith(start)), None)


def parse_causes(text: bytes) -> Causes:
    """Of `data/kernel_causes.toml`."""
    entries = tomllib.loads(text.decode("utf-8"))["cause"]
    named = [(function, entry["name"]) for entry in entries for function in entry["functions"]]
    return Causes(
        {function: cause for function, cause in named if not function.endswith("*")},
        tuple((function[:-1], cause) for function, cause in named if function.endswith("*")),
        {entry["name"]: entry["words"] for entry in entries},
    )


def derive_blame(taken: KernelSamples, stretches: Iterable[Stretch], causes: Causes) -> Blame:
    threads = dict(taken.threads)
    found = tuple(_blamed(taken.samples, stretch, threads, causes) for stretch in stretches)
    return Blame(taken.rate_hz, sum(each.samples for each in found), taken.lost, found)


def _blamed(samples: Iterable[KernelSample], stretch: Stretch, threads: Mapping[int, str], causes: Causes) -> Blamed:
    end = stretch.begin + stretch.seconds
    mine = [each for each in samples if each.core == stretch.core and stretch.begin <= each.at <= end]
    functions = Counter(each.frames[0] if each.frames else "[unknown]" for each in mine)
    processes = Counter(threads.get(each.thread, f"thread {each.thread}") for each in mine)
    why: Counter[str] = Counter()
    for each in mine:
        why.update({cause for frame in each.frames if (cause := causes.of(frame))} or {OTHER})
    return Blamed(
        stretch.core,
        stretch.begin,
        len(mine),
        _shares(functions, len(mine)),
        _by_cause(_shares(why, len(mine)), causes),
        _shares(processes, len(mine)),
    )


def _by_cause(shares: tuple[Share, ...], causes: Causes) -> tuple[Share, ...]:
    """Among causes that weigh alike the one that comes first in the table: whoever reads a file while memory is reclaimed over
    dead cgroups pays for the walk, not for the reading."""
    order = {name: place for place, name in enumerate(causes.words)}
    return tuple(
        sorted(shares, key=lambda each: (-round(each.share, 1), order.get(each.name, len(order)), -each.share))
    )


def _shares(counted: Counter[str], total: int) -> tuple[Share, ...]:
    ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Share(name, count / total) for name, count in ranked[:10])
