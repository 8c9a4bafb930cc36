# SPDX-License-Identifier: Apache-2.0
"""Samples counted in cells of time: a column a second, a row a part of it, for each core or summed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zombiescope.profiling.arrays import I64
from zombiescope.profiling.broken import BrokenCapture
from zombiescope.profiling.capture import Capture
from zombiescope.profiling.selection import Selection, rows_of

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
    cells = _cells(capture, span, begin, column_seconds / rows)
    number = np.zeros(int(cpus[-1]) + 1 if len(cpus) else 1, np.int64)
    number[cpus] = np.arange(len(cpus))
    core = number[capture.cpu[span]]
    inside = cells < columns * rows
    kept = inside if wanted is None else inside & wanted
    flat = cells + core * (columns * rows)
    weight = None if capture.weight is None else capture.weight[span][kept]
    counts = np.bincount(flat[kept], weight, minlength=len(cpus) * columns * rows).astype(np.int64)
    seen = np.bincount(core, minlength=len(cpus))
    rate = capture.about.rate_hz
    expected = None if rate is None else rate * (end - begin)
    return HeatMap(
        begin,
        column_seconds,
        rows,
        tuple(cpus.tolist()),
        counts.reshape(len(cpus), columns, rows),
        None if rate is None else rate * column_seconds / rows,
        tuple(None if not expected else min(1.0, int(count) / expected) for count in seen),
    )


def _cells(capture: Capture, span: slice, begin: float, cell_seconds: float) -> I64:
    first = int(capture.time[0]) + round(begin * 1e9) if len(capture.time) else 0
    since = capture.time[span] - np.uint64(max(0, first))
    cell_ns = max(1, round(cell_seconds * 1e9))
    cells: I64 = (since // np.uint64(cell_ns)).view(np.int64)
    return cells
