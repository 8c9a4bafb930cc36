# SPDX-License-Identifier: Apache-2.0
"""Moments when one core left its own quiet baseline for kernel work: when, how far, which stack, and what differs from before.

Each core is compared with itself. Its quiet share of kernel time is what its lower windows show; a moment is a stretch of
windows that nearly-all-kernel explains far better than the quiet share does (a sum of log likelihood ratios).
"""

from dataclasses import dataclass

import numpy as np

from zombiescope.profiler.stacks.arrays import F64, I64
from zombiescope.profiler.stacks.capture import (
    BrokenCapture,
    Capture,
    Selection,
    in_kernel,
    is_kernel_file,
    row_numbers,
)
from zombiescope.profiler.stacks.flame_graph import FlameGraph, Shape, difference, paths


@dataclass(frozen=True, slots=True)
class Moment:
    cpu: int
    begin: float
    end: float
    share: float
    """Of the core's samples, those in the kernel and not idle."""
    quiet_share: float
    score: float


@dataclass(frozen=True, slots=True)
class Risen:
    name: str
    file: str
    before: float
    during: float


@dataclass(frozen=True, slots=True)
class Explained:
    moment: Moment
    stack: tuple[str, ...]
    """The kernel stack that dominates, outermost first."""
    stack_share: float
    comm: str
    risen: tuple[Risen, ...]


# Chosen on the tuning set of `bench/profile`, judged on the other one.
_WINDOW_SECONDS = 0.1
_LEAST_SAMPLES = 8.0
"""Windows grow until a busy core has this many samples in one."""
_SATURATED = 0.9
_QUIET_QUANTILE, _QUIET_LEAST, _QUIET_MOST = 0.3, 0.02, 0.5
_LEAST_SECONDS, _LEAST_RISE, _LEAST_SHARE, _LEAST_SCORE = 0.5, 0.3, 0.6, 12.0
_JOIN_SECONDS = 0.3
_MOST_RISEN, _MOST_WINDOWS = 5, 5_000_000
_NO_CORE = 0xFFFF


def find_moments(capture: Capture) -> list[Moment]:
    if not capture.about.has_time:
        raise BrokenCapture("this capture has stacks without times", "import perf.data or perf script text")
    rate = rate_of(capture)
    if not rate:
        return []
    window = max(_WINDOW_SECONDS, _LEAST_SAMPLES / rate)
    windows = int(capture.seconds / window) + 1
    if windows > _MOST_WINDOWS:
        raise BrokenCapture(f"{windows:,} windows of time are too many", "choose a shorter capture")
    found: list[Moment] = []
    for cpu in np.flatnonzero(np.bincount(capture.cpu)).tolist():
        if cpu != _NO_CORE:
            busy, seen = _windows(capture, cpu, window, windows)
            found += _moments_of(cpu, busy, np.maximum(seen, 0.5 * rate * window), window)
    return sorted(found, key=lambda moment: (moment.begin, moment.cpu))


def rate_of(capture: Capture) -> float:
    """Samples a second of one core: as asked for, or as the busiest core shows."""
    if capture.about.rate_hz:
        return capture.about.rate_hz
    return float(np.bincount(capture.cpu).max()) / capture.seconds if capture.seconds > 0 else 0.0


def _windows(capture: Capture, cpu: int, window: float, count: int) -> tuple[I64, F64]:
    mine = np.flatnonzero(capture.cpu == cpu)
    at = ((capture.time[mine] - capture.time[0]) // np.uint64(round(window * 1e9))).astype(np.int64)
    busy = in_kernel(capture.mode[mine]) & ~capture.idle[mine]
    return np.bincount(at[busy], minlength=count), np.bincount(at, minlength=count).astype(np.float64)


def _moments_of(cpu: int, busy: I64, seen: F64, window: float) -> list[Moment]:
    quiet = float(np.clip(np.quantile(busy / seen, _QUIET_QUANTILE), _QUIET_LEAST, _QUIET_MOST))
    scores = busy * np.log(_SATURATED / quiet) + (seen - busy) * np.log((1 - _SATURATED) / (1 - quiet))
    moments = [
        Moment(
            cpu,
            first * window,
            last * window,
            float(busy[first:last].sum() / seen[first:last].sum()),
            quiet,
            float(scores[first:last].sum()),
        )
        for first, last in _joined(_stretches(scores), round(_JOIN_SECONDS / window), scores)
    ]
    return [moment for moment in moments if _stands_out(moment)]


def _stands_out(moment: Moment) -> bool:
    return (
        moment.end - moment.begin >= _LEAST_SECONDS - 1e-9
        and moment.share >= max(_LEAST_SHARE, moment.quiet_share + _LEAST_RISE)
        and moment.score >= _LEAST_SCORE
    )


def _stretches(scores: F64) -> list[tuple[int, int]]:
    """All stretches of windows whose sum no longer or shorter neighbour betters (Ruzzo and Tompa)."""
    stack, total = list[tuple[int, int, float, float]](), 0.0
    for index, score in enumerate(scores.tolist()):
        before, total = total, total + score
        if score <= 0:
            continue
        first, last, left, right = index, index + 1, before, total
        while stack:
            other = next((place for place in range(len(stack) - 1, -1, -1) if stack[place][2] < left), None)
            if other is None or stack[other][3] >= right:
                break
            first, left = stack[other][0], stack[other][2]
            del stack[other:]
        stack.append((first, last, left, right))
    return [(first, last) for first, last, _, _ in stack]


def _joined(stretches: list[tuple[int, int]], apart: int, scores: F64) -> list[tuple[int, int]]:
    """Stretches with a short pause between are one."""
    joined: list[tuple[int, int]] = []
    for first, last in stretches:
        near = joined and first - joined[-1][1] <= apart
        if near and scores[joined[-1][1] : first].sum() + scores[first:last].sum() > 0:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def explain(capture: Capture, shape: Shape, moment: Moment) -> Explained:
    during = Selection(moment.begin, moment.end, cpus=(moment.cpu,), side="kernel")
    stack, share, comm = _dominating(capture, shape, during)
    with_idle = during._replace(side="both", with_idle=True)
    earlier = max(0.0, moment.begin - max(moment.end - moment.begin, 2.0))
    before = with_idle._replace(begin=earlier, end=moment.begin)
    return Explained(moment, stack, share, comm, _risen(capture, difference(capture, shape, before, with_idle)))


def _dominating(capture: Capture, shape: Shape, during: Selection) -> tuple[tuple[str, ...], float, str]:
    """The kernel's part of the stacks alone, whoever called it: outermost first, the widest way in, then the widest child while it
    holds half of its parent; its share of the moment; and the thread that ran most."""
    rows = row_numbers(capture, during)
    if not len(rows):
        return (), 0.0, ""
    nodes, counts = np.unique(capture.node[rows], return_counts=True)
    in_kernel = [is_kernel_file(file) for file in capture.frame_files]
    stacks = [[frame for frame in path if in_kernel[frame]] for path in paths(capture, nodes, shape)]
    left = [(stack, int(count)) for stack, count in zip(stacks, counts.tolist(), strict=True) if stack]
    path: list[str] = []
    share = whole = sum(count for _, count in left)
    while left:
        children: dict[int, int] = {}
        for stack, count in left:
            if len(stack) > len(path):
                children[stack[len(path)]] = children.get(stack[len(path)], 0) + count
        widest = max(children, key=children.__getitem__, default=None)
        if widest is None or (path and children[widest] * 2 < share):
            break
        share = children[widest]
        left = [(stack, count) for stack, count in left if len(stack) > len(path) and stack[len(path)] == widest]
        path.append(capture.frame_names[widest])
    return tuple(path), share / max(1, whole), capture.comms[int(np.argmax(np.bincount(capture.comm[rows])))]


def _risen(capture: Capture, graph: FlameGraph) -> tuple[Risen, ...]:
    """Functions by how much more of the time they hold than before; outer ones that only pass it on are left out."""
    if graph.before is None or not graph.samples:
        return ()
    during, before = graph.shares(), graph.shares_before()
    best: dict[tuple[str, str], Risen] = {}
    for entry in graph.own_changes(0.05, only_risen=True):
        frame = int(graph.frame[entry])
        key = (capture.frame_names[frame], capture.frame_files[frame])
        best.setdefault(key, Risen(*key, float(before[entry]), float(during[entry])))
    return tuple(best.values())[:_MOST_RISEN]
