# SPDX-License-Identifier: Apache-2.0
"""A capture summed up: how many cores each function, cause, process, cgroup and core took, on average and in its busiest second,
and the moments when one core left its baseline; and what of that is unusual among the captures of a ring. Small enough to be
kept beside it and to search hundreds of them at once.

Everything is counted in cores: 0.5 is half of one core's time. Long captures are thinned evenly first.
"""

import math
from collections.abc import Callable, Collection, Mapping
from statistics import median
from typing import NamedTuple

import numpy as np

from zombiescope.profiler.stacks.arrays import I64, Numbers, ranges
from zombiescope.profiler.stacks.capture import (
    Capture,
    Selection,
    in_kernel,
    is_kernel_file,
    row_numbers,
)
from zombiescope.profiler.stacks.flame_graph import Shape
from zombiescope.profiler.stacks.saturation import Explained, explain, find_moments, rate_of

CauseOf = Callable[[str], str | None]
"""What a kernel function works for; None: not known."""
KINDS = ("function", "cause", "process", "cgroup", "core")
_MOST_SAMPLES = 60_000
_MOST_ENTRIES = {"function": 400, "cause": 40, "process": 60, "cgroup": 60, "core": 1024}
_MOST_MOMENTS, _LEAST_PEAK = 20, 0.05
_NO_CORE = 0xFFFF


class Taken(NamedTuple):
    """What one of a kind took."""

    name: str
    cores: float
    """On average."""
    peak: float
    """In its busiest second."""
    peak_at: int
    """That second, after the first sample."""
    file: str = ""
    own: float = 0.0
    """Of the average, what ended in this function and in none that it calls."""


class Happened(NamedTuple):
    """One core left its baseline for kernel work."""

    found: Explained
    causes: tuple[str, ...]
    """Of its stack, the innermost first."""
    cgroup: str


class Summary(NamedTuple):
    seconds: float
    samples: int
    rate_hz: float
    cpus: int
    busy: float
    """Cores that did something."""
    kernel: float
    """Of them in the kernel."""
    taken: dict[str, tuple[Taken, ...]]
    """By kind, those with the highest peak first."""
    moments: tuple[Happened, ...]


def sum_up(capture: Capture, shape: Shape, cause_of: CauseOf) -> Summary:
    rate, seconds = rate_of(capture), capture.seconds
    rows = row_numbers(capture, Selection())
    kernel = int(in_kernel(capture.mode[rows]).sum())
    scale = 1.0 / (rate * max(seconds, 1.0)) if rate else 0.0
    weights = len(rows) if capture.weight is None else float(capture.weight[rows].sum())
    summary = Summary(seconds, len(capture), rate, capture.core_count, weights * scale, kernel * scale, {}, ())
    if not rate or not len(rows) or not capture.about.has_time:
        return summary
    thin = -(-len(rows) // _MOST_SAMPLES)
    chosen, unit = rows[::thin], thin / rate
    seconds_of = ((capture.time[chosen] - capture.time[0]) // np.uint64(10**9)).astype(np.int64)
    counting = _Counting(seconds_of, int(seconds_of.max()) + 1, unit, max(seconds, 1.0))
    samples, frames = frames_of_samples(capture, shape, chosen)
    causes, names = _causes(capture, cause_of)
    taken = {
        "function": counting.functions(capture, chosen, samples, frames),
        "cause": counting.of_pairs(*_distinct(samples, causes[frames], len(names)), names),
        "process": counting.of_rows(capture.comm[chosen], capture.comms),
        "cgroup": counting.of_rows(capture.cgroup[chosen], capture.cgroups),
        "core": counting.cores(capture, chosen),
    }
    moments = sorted(find_moments(capture), key=lambda one: -one.score)[:_MOST_MOMENTS]
    happened = tuple(_happened(capture, explain(capture, shape, one), cause_of) for one in moments)
    kept = {kind: tuple(each[: _MOST_ENTRIES[kind]]) for kind, each in taken.items()}
    return summary._replace(taken=kept, moments=happened)


def frames_of_samples(capture: Capture, shape: Shape, rows: I64) -> tuple[I64, I64]:
    """Pairs of a sample (its place in `rows`) and a frame of its stack, each frame once for each sample."""
    nodes, inverse = np.unique(capture.node[rows].astype(np.int64), return_inverse=True)
    owners, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for level in shape.by_level[1:]:
        above = level[np.maximum(np.searchsorted(level, nodes, side="right") - 1, 0)]
        inside = np.flatnonzero((above <= nodes) & (shape.ends[above] > nodes))
        if not len(inside):
            break
        owners.append(inside)
        found.append(capture.tree.frame[above[inside]].astype(np.int64))
    owner, frame = _distinct(np.concatenate(owners), np.concatenate(found), len(capture.frame_names))
    begins = np.searchsorted(owner, np.arange(len(nodes)))
    many = (np.searchsorted(owner, np.arange(len(nodes)), side="right") - begins)[inverse]
    return np.repeat(np.arange(len(rows)), many), frame[ranges(begins[inverse], many)]


def _distinct(first: I64, second: I64, limit: int) -> tuple[I64, I64]:
    """Pairs without repeats, ordered; those whose second number is negative are left out."""
    keys = np.unique((first * limit + second)[second >= 0])
    return keys // max(1, limit), keys % max(1, limit)


def _causes(capture: Capture, cause_of: CauseOf) -> tuple[I64, list[str]]:
    """For each frame the number of its cause, or -1; and the causes."""
    names: dict[str, int] = {}
    numbers = np.full(max(1, len(capture.frame_names)), -1, np.int64)
    for frame, (name, file) in enumerate(zip(capture.frame_names, capture.frame_files, strict=True)):
        cause = cause_of(name) if is_kernel_file(file) else None
        if cause is not None:
            numbers[frame] = names.setdefault(cause, len(names))
    return numbers, list(names)


class _Counting(NamedTuple):
    second: I64
    """Of each sample."""
    seconds: int
    unit: float
    """Core seconds that one sample stands for."""
    length: float

    def of_pairs(self, samples: I64, things: I64, names: list[str] | tuple[str, ...]) -> list[Taken]:
        if not len(things):
            return []
        keys, counts = np.unique(things * self.seconds + self.second[samples], return_counts=True)
        of_thing = keys // self.seconds
        totals = np.bincount(of_thing, counts, minlength=len(names))
        order = np.lexsort((counts, of_thing))
        last = np.flatnonzero(np.append(of_thing[order][1:] != of_thing[order][:-1], True))
        found = [
            Taken(
                names[thing],
                round(float(totals[thing]) * self.unit / self.length, 5),
                round(float(counts[place]) * self.unit, 4),
                int(keys[place] % self.seconds),
            )
            for place, thing in zip(order[last].tolist(), of_thing[order[last]].tolist(), strict=True)
        ]
        return sorted(found, key=lambda one: (-one.peak, -one.cores, one.name))

    def of_rows(self, numbers: Numbers, names: tuple[str, ...]) -> list[Taken]:
        things = numbers.astype(np.int64)
        return [one for one in self.of_pairs(np.arange(len(things)), things, names) if one.name]

    def functions(self, capture: Capture, chosen: I64, samples: I64, frames: I64) -> list[Taken]:
        """Without the outermost frame, which is the thread's name; equal names of several files stay apart."""
        files = capture.frame_files
        ends = capture.tree.frame[capture.node[chosen]].astype(np.int64)
        own = np.bincount(ends[ends < len(files)], minlength=len(files)) * (self.unit / self.length)
        kept = np.array([bool(file) for file in files] or [False], bool)[frames]
        found = self.of_pairs(samples[kept], frames[kept], tuple(map(str, range(len(files)))))
        return [
            Taken(
                capture.frame_names[number := int(one.name)],
                one.cores,
                one.peak,
                one.peak_at,
                files[number],
                round(float(own[number]), 5),
            )
            for one in found
            if one.peak >= _LEAST_PEAK
        ]

    def cores(self, capture: Capture, chosen: I64) -> list[Taken]:
        """Time in the kernel, by core."""
        mine = np.flatnonzero(in_kernel(capture.mode[chosen]) & (capture.cpu[chosen] != _NO_CORE))
        cpus = capture.cpu[chosen][mine].astype(np.int64)
        return self.of_pairs(mine, cpus, tuple(map(str, range(int(cpus.max(initial=0)) + 1))))


def _happened(capture: Capture, found: Explained, cause_of: CauseOf) -> Happened:
    moment = found.moment
    rows = row_numbers(capture, Selection(moment.begin, moment.end, cpus=(moment.cpu,), side="kernel"))
    cgroup = capture.cgroups[int(np.argmax(np.bincount(capture.cgroup[rows])))] if len(rows) else ""
    causes = [cause for name in reversed(found.stack) if (cause := cause_of(name))]
    return Happened(found, tuple(dict.fromkeys(causes)), cgroup)


Peaks = Mapping[str, Mapping[str, float]]
"""Kind, name: cores in its busiest second."""
_MOST_CHANGED, _LEAST_RISE, _LEAST_SCORE, _LEAST_CAPTURES = 12, 0.15, 3.0, 3
_WIDEST = 1.4826
"""A median distance as a standard deviation."""


class Usual(NamedTuple):
    cores: float
    spread: float

    def score(self, peak: float, rate_hz: float) -> float:
        """How many deviations a peak is above what is usual: of counting samples, and of what the others show."""
        counted = (self.cores + 3.0 / max(1.0, rate_hz)) / max(1.0, rate_hz)
        return (peak - self.cores) / math.sqrt(counted + self.spread**2)


_NONE = Usual(0.0, 0.0)


class Changed(NamedTuple):
    kind: str
    name: str
    peak: float
    usual: float
    score: float


class Usuals:
    """Of a number of captures, worked out once."""

    def __init__(self, captures: Collection[Peaks]) -> None:
        self.captures = len(captures)
        self._found: dict[tuple[str, str], Usual] = {}
        values: dict[tuple[str, str], list[float]] = {}
        for each in captures:
            for kind, of_kind in each.items():
                for name, peak in of_kind.items():
                    values.setdefault((kind, name), []).append(peak)
        for key, seen in values.items():
            if 2 * len(seen) >= self.captures:  # of one that most captures lack, none is usual
                every = [*seen, *[0.0] * (self.captures - len(seen))]
                middle = median(every)
                self._found[key] = Usual(middle, _WIDEST * median(abs(value - middle) for value in every))

    def of(self, kind: str, name: str) -> Usual:
        return self._found.get((kind, name), _NONE)


def changed(peaks: Peaks, rate_hz: float, usuals: Usuals) -> tuple[Changed, ...]:
    """What takes more than usual, most first. Nothing where there is too little to compare with."""
    if usuals.captures < _LEAST_CAPTURES:
        return ()
    found = []
    for kind in KINDS:
        for name, peak in peaks.get(kind, {}).items():
            usual = usuals.of(kind, name)
            score = usual.score(peak, rate_hz)
            if peak - usual.cores >= _LEAST_RISE and score >= _LEAST_SCORE:
                found.append(Changed(kind, name, round(peak, 4), round(usual.cores, 4), round(score, 2)))
    return tuple(sorted(found, key=lambda one: -one.score)[:_MOST_CHANGED])
