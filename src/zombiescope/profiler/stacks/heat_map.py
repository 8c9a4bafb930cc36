# SPDX-License-Identifier: Apache-2.0
"""Samples counted in cells of time: a column a second, a row a part of it, for each core or summed."""

from dataclasses import dataclass

import numpy as np

from zombiescope.profiler.stacks.arrays import I32, I64
from zombiescope.profiler.stacks.capture import BrokenCapture, Capture, Selection, rows_of

_MOST_CELLS = 30_000_000


@dataclass(frozen=True, slots=True)
class HeatMap:
    begin: float
    """Seconds after the first sample at which the first column begins."""
    column_seconds: float
    rows: int
    cpus: tuple[int, ...]
    counts: I64
    """[core, column, row]; row 0 is the earliest part of the column."""
    expected: float | None
    """Samples that a cell of one core has when the core is busy all the time and none is lost."""
    coverage: tuple[float | None, ...]
    """Samples seen of those expected, for each core, idle ones included: what is missing is not idle."""

    @property
    def columns(self) -> int:
        return int(self.counts.shape[1])

    def summed(self) -> I64:
        total: I64 = self.counts.sum(axis=0)
        return total


def heat_map(capture: Capture, selection: Selection, *, rows: int = 50, column_seconds: float = 1.0) -> HeatMap:
    if not capture.about.has_time:
        raise BrokenCapture("this capture has stacks without times", "import perf.data, perf script text or speedscope")
    begin = selection.begin or 0.0
    end = capture.seconds if selection.end is None else min(selection.end, capture.seconds)
    columns = max(1, int(np.ceil(max(end - begin, 1e-9) / column_seconds - 1e-9)))
    cpus = np.flatnonzero(np.bincount(capture.cpu))
    if columns * rows * max(1, len(cpus)) > _MOST_CELLS:
        raise BrokenCapture(
            f"{columns:,} columns for {len(cpus)} cores are too many to draw", "choose a range with --from and --to"
        )
    span, wanted = rows_of(capture, selection)
    # One row more than drawn, for what lies beyond the last column.
    number = np.zeros(int(cpus[-1]) + 1 if len(cpus) else 1, np.int32)
    number[cpus] = np.arange(len(cpus), dtype=np.int32)
    core = number[capture.cpu[span]]
    flat = core * np.int32(columns * rows + 1)
    flat += _cells(capture, span, begin, column_seconds / rows, columns * rows)
    weight = None if capture.weight is None else capture.weight[span]
    if wanted is not None:
        flat, weight = flat[wanted], None if weight is None else weight[wanted]
    counted = np.bincount(flat, weight, minlength=len(cpus) * (columns * rows + 1)).astype(np.int64)
    seen = np.bincount(core, minlength=len(cpus))
    rate = capture.about.rate_hz
    expected = None if rate is None else rate * (end - begin)
    return HeatMap(
        begin,
        column_seconds,
        rows,
        tuple(cpus.tolist()),
        counted.reshape(len(cpus), columns * rows + 1)[:, :-1].reshape(len(cpus), columns, rows),
        None if rate is None else rate * column_seconds / rows,
        tuple(None if not expected else min(1.0, int(count) / expected) for count in seen),
    )


def _cells(capture: Capture, span: slice, begin: float, cell_seconds: float, count: int) -> I32:
    """The cell of each sample, `count` for those beyond the last. Times ascend: where each cell begins is enough."""
    first = int(capture.time[0]) + round(begin * 1e9) if len(capture.time) else 0
    cell_ns = max(1, round(cell_seconds * 1e9))
    times = capture.time[span]
    if count < len(times) and first >= 0 and first + count * cell_ns < 1 << 63:
        edges = np.searchsorted(times, (first + np.arange(1, count + 1) * cell_ns).astype(np.uint64))
        return np.repeat(np.arange(count + 1, dtype=np.int32), np.diff(edges, prepend=0, append=len(times)))
    cells = (times - np.uint64(max(0, first))) // np.uint64(cell_ns)
    clipped: I32 = np.minimum(cells, np.uint64(count)).astype(np.int32)
    return clipped
