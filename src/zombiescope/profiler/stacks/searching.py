# SPDX-License-Identifier: Apache-2.0
"""The right capture of many: by function, cause, process, cgroup, core or time, or by nothing at all. Summaries are compared with
each other, and what stands out most of what is usual in the ring comes first; then the best are looked at sample by sample."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from zombiescope.profiler.stacks.arrays import I64, Flags, Numbers
from zombiescope.profiler.stacks.capture import Capture, in_kernel, is_kernel_file, matches
from zombiescope.profiler.stacks.flame_graph import Shape
from zombiescope.profiler.stacks.saturation import rate_of
from zombiescope.profiler.stacks.summary import KINDS, CauseOf, Peaks, Usuals, frames_of_samples

_LEAST_SCORE = 3.0
_MOMENT_SCORE = 4.0
"""A core that left its baseline stands out, whatever the ring has of it elsewhere."""


class Question(NamedTuple):
    """Globs; what is empty does not matter."""

    function: str = ""
    cause: str = ""
    process: str = ""
    cgroup: str = ""
    core: str = ""
    since: float | None = None
    until: float | None = None

    def asked(self) -> list[tuple[str, str]]:
        return [(kind, glob) for kind in KINDS if (glob := str(getattr(self, kind)))]


class Known(NamedTuple):
    """A capture, as its summary tells it."""

    name: str
    begin: float | None
    seconds: float
    rate_hz: float
    peaks: Peaks
    peak_at: Mapping[str, Mapping[str, int]]
    moments: tuple[Mapping[str, Any], ...]


class Hit(NamedTuple):
    name: str
    begin: float | None
    """Of the capture, since the epoch."""
    at: float
    """Seconds after that."""
    until: float
    core: int | None
    score: float
    cores: float
    """What it took then."""
    usual: float
    kind: str
    what: str
    moment: Mapping[str, Any] | None = None


def search(ring: Sequence[Known], question: Question, is_inside: Callable[[str], bool] = lambda _: False) -> list[Hit]:
    """At most one for each capture, the one that stands out most first. `is_inside`: whether a capture has such a function, where
    its summary does not name it, for that leaves out what takes little."""
    usuals = Usuals([one.peaks for one in ring])
    hits = []
    for one in (each for each in ring if _is_of_time(each, question)):
        hit = _by_name(one, usuals, question, is_inside) if question.asked() else _by_itself(one, usuals)
        if hit is None and not question.asked() and question.since is not None:
            hit = _of_its_time(one, question.since)
        if hit is not None:
            hits.append(hit)
    return sorted(hits, key=lambda hit: (-hit.score, hit.begin or 0.0, hit.name))


def _is_of_time(one: Known, question: Question) -> bool:
    if one.begin is None:
        return question.since is None and question.until is None
    end = one.begin + one.seconds
    return (question.since is None or end >= question.since) and (question.until is None or one.begin <= question.until)


def _of_its_time(one: Known, since: float) -> Hit:
    """Nothing stands out in it, and it is of the time that was asked for."""
    at = max(0.0, since - (one.begin or 0.0))
    busy = max(one.peaks.get("process", {}).items(), key=lambda each: each[1], default=("", 0.0))
    return Hit(one.name, one.begin, at, at + 1, None, 0.0, busy[1], busy[1], "process", busy[0])


def _by_name(one: Known, usuals: Usuals, question: Question, is_inside: Callable[[str], bool]) -> Hit | None:
    """As much as the least of what was asked for stands out; each by the best name that fits."""
    found: list[Hit] = []
    asked = question.asked()
    # What a core did in the kernel says little of what others did on it: they are counted sample by sample.
    for kind, glob in [each for each in asked if each[0] != "core"] or asked:
        fitting = [name for name in one.peaks.get(kind, {}) if matches(name, glob)]
        if fitting:
            found.append(max((_hit(one, usuals, kind, name) for name in fitting), key=lambda hit: hit.score))
        elif kind == "function" and is_inside(one.name):
            found.append(Hit(one.name, one.begin, 0.0, 1.0, None, 0.0, 0.0, 0.0, kind, glob))
        else:
            return None
    weakest = min(found, key=lambda hit: hit.score)
    moment = next((each for each in one.moments if _fits(each, question)), None)
    return _with_moment(weakest, moment) if moment is not None else weakest


def _hit(one: Known, usuals: Usuals, kind: str, name: str) -> Hit:
    peak = one.peaks[kind][name]
    usual = usuals.of(kind, name)
    at = float(one.peak_at.get(kind, {}).get(name, 0))
    core = int(name) if kind == "core" else None
    return Hit(one.name, one.begin, at, at + 1, core, usual.score(peak, one.rate_hz), peak, usual.cores, kind, name)


def _fits(moment: Mapping[str, Any], question: Question) -> bool:
    of = {
        "function": moment["stack"],
        "cause": moment["causes"],
        "process": (moment["comm"],),
        "cgroup": (moment["cgroup"],),
        "core": (str(moment["core"]),),
    }
    return all(any(matches(name, glob) for name in of[kind]) for kind, glob in question.asked())


def _with_moment(hit: Hit, moment: Mapping[str, Any]) -> Hit:
    return hit._replace(
        at=float(moment["begin_seconds"]),
        until=float(moment["end_seconds"]),
        core=int(moment["core"]),
        score=hit.score + _MOMENT_SCORE,
        moment=moment,
    )


def _by_itself(one: Known, usuals: Usuals) -> Hit | None:
    """What stands out most, of its causes and functions; a core that was held counts before anything else."""
    named = [
        _hit(one, usuals, kind, name) for kind in ("cause", "function", "process") for name in one.peaks.get(kind, {})
    ]
    best = max(named, key=lambda hit: hit.score, default=None)
    moment = max(one.moments, key=lambda each: each["score"], default=None)
    if moment is None:
        return best if best is not None and best.score >= _LEAST_SCORE else None
    own = [hit for hit in named if hit.kind == "function" and hit.what in moment["stack"]]
    told = max(own, key=lambda hit: hit.score, default=best)
    return None if told is None else _with_moment(told, moment)


def look_for(capture: Capture, shape: Shape, question: Question, cause_of: CauseOf) -> "Seen | None":
    """The samples that are what was asked for, all of it at once. None: there are none."""
    rate = rate_of(capture)
    rows = np.flatnonzero(~capture.idle)
    rows = rows[_wanted(capture, shape, rows, question, cause_of)]
    if not len(rows) or not rate:
        return None
    second = ((capture.time[rows] - capture.time[0]) // np.uint64(10**9)).astype(np.int64)
    processes, process = np.unique(capture.comm[rows], return_inverse=True)
    names = tuple(capture.comms[number] for number in processes.tolist())
    return Seen(second, capture.cpu[rows], rate, capture.seconds, process, names)


def settled(hit: Hit, found: "Stretch") -> Hit:
    """When it was, on which core and how much, as the samples tell it; a core that was held then counts besides."""
    moment = hit.moment
    if moment is not None and found.begin <= moment["end_seconds"] and found.end >= moment["begin_seconds"]:
        return hit._replace(cores=found.peak, score=found.score + _MOMENT_SCORE)
    begin, end = float(found.begin), float(found.end)
    return hit._replace(at=begin, until=end, core=found.core, cores=found.peak, score=found.score, moment=None)


def _wanted(capture: Capture, shape: Shape, rows: np.ndarray[Any, Any], question: Question, cause_of: CauseOf) -> Flags:
    wanted = np.ones(len(rows), bool)
    frames: list[list[bool]] = []
    if question.function:
        frames.append([matches(name, question.function) for name in capture.frame_names])
    if question.cause:
        names = zip(capture.frame_names, map(is_kernel_file, capture.frame_files), strict=True)
        frames.append([inside and matches(cause_of(name) or "", question.cause) for name, inside in names])
    if frames:
        samples, numbers = frames_of_samples(capture, shape, rows)
        for fitting in frames:
            has = np.zeros(len(rows), bool)
            has[samples[np.array(fitting, bool)[numbers]]] = True
            wanted &= has
    for column, texts, glob in (
        (capture.comm, capture.comms, question.process),
        (capture.cgroup, capture.cgroups, question.cgroup),
    ):
        if glob:
            wanted &= np.array([matches(text, glob) for text in texts], bool)[column[rows]]
    if question.core:
        wanted &= capture.cpu[rows] == int(question.core)
        if len(question.asked()) == 1:
            wanted &= in_kernel(capture.mode[rows])
    return wanted


_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60)
"""Seconds."""
_LEAST_SAMPLES = 0.5
"""That the usual capture is taken to have of it: none was seen where others saw few is no proof that there never is one."""
_MOSTLY, _UPPER = 0.8, 0.75
_MOST_PROCESSES = 24
"""Told apart, those with most samples."""

Busiest = Mapping[str, Numbers]
"""By process: cores in its busiest stretch of each width."""


class Seen(NamedTuple):
    """Samples of one capture that are what was asked for."""

    second: I64
    """Of each of them, after the first sample of the capture."""
    core: Numbers
    rate_hz: float
    seconds: float
    process: I64
    """Of each of them, a place in `processes`."""
    processes: tuple[str, ...]

    @property
    def cores(self) -> float:
        """On average."""
        return len(self.second) / (self.rate_hz * max(1.0, self.seconds))

    def by_process(self) -> dict[str, I64]:
        """Samples in each second."""
        length = int(self.second.max(initial=-1)) + 1
        most = np.argsort(-np.bincount(self.process), kind="stable")[:_MOST_PROCESSES]
        return {
            self.processes[number]: np.bincount(self.second[self.process == number], minlength=length)
            for number in most.tolist()
        }


class Stretch(NamedTuple):
    begin: int
    end: int
    score: float
    """Deviations above what is usual."""
    peak: float
    """Cores in its busiest second."""
    core: int | None
    """Where nearly all of it was."""


def usual_cores(looked_at: Sequence[Seen], others: int, without: int) -> float:
    """Of the middle capture. `others` were not looked at, because more of it is in those that were; `without` have none."""
    averages = sorted(seen.cores for seen in looked_at)
    return median([*averages, *averages[:1] * others, *[0.0] * without] or [0.0])


def busiest(seen: Seen) -> Busiest:
    found = {}
    for process, counts in seen.by_process().items():
        sums = _sums(counts)
        most = [int((sums[width:] - sums[:-width]).max(initial=0)) / width for width in _widths(len(counts))]
        most += most[-1:] * (len(_WIDTHS) - len(most))
        found[process] = np.array(most) / seen.rate_hz
    return found


def usual_stretches(others: Sequence[Busiest]) -> Busiest:
    """What each process takes in the upper quarter of the captures in which it does this at all."""
    processes = {process for each in others for process in each}
    taken = {process: [each[process] for each in others if process in each] for process in processes}
    return {process: np.quantile(np.stack(cores), _UPPER, axis=0) for process, cores in taken.items()}


def best_stretch(seen: Seen, usual: float, elsewhere: Busiest) -> Stretch:
    """The seconds in a row whose count has the largest likelihood ratio against the usual one, as deviations. `elsewhere`: what is
    usual of each process where it does this."""
    counts = np.bincount(seen.second)
    length = max(len(counts), round(seen.seconds), 1)
    expected = (usual * seen.rate_hz * length + _LEAST_SAMPLES) / length
    sums = _sums(counts)
    known = [
        (_sums(mine), elsewhere[process] * seen.rate_hz)
        for process, mine in seen.by_process().items()
        if process in elsewhere
    ]
    best, begin, end = -1.0, 0, 1
    for place, width in enumerate(_widths(len(counts))):
        found = sums[width:] - sums[:-width]
        explained = np.full(len(found), expected * width)
        for mine, most in known:
            explained += np.minimum(mine[width:] - mine[:-width], most[place] * width)
        ratios = found * np.log(np.maximum(found, 1) / explained) - (found - explained)
        ratios[found <= explained] = 0
        at = int(np.argmax(ratios if ratios.any() else found))  # where nothing stands out, where most of it was
        if ratios[at] > best:
            best, begin, end = float(ratios[at]), at, at + width
    cores = np.bincount(seen.core[(seen.second >= begin) & (seen.second < end)])
    core = int(np.argmax(cores)) if len(cores) and int(cores.max()) >= _MOSTLY * int(cores.sum()) else None
    peak = float(counts[begin:end].max()) / seen.rate_hz
    return Stretch(begin, end, float(np.sqrt(2 * max(best, 0.0))), peak, core)


def _sums(counts: I64) -> I64:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _widths(seconds: int) -> list[int]:
    return [width for width in _WIDTHS if width <= seconds]
