# SPDX-License-Identifier: Apache-2.0
"""From a file or a stored capture to an answer: open, ask, compare, find, write elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.profiler.files import store
from zombiescope.profiler.files.reading import Choices, read_capture, within_bounds
from zombiescope.profiler.formats.json_forms import write_firefox, write_speedscope
from zombiescope.profiler.formats.protobuf import write_pprof
from zombiescope.profiler.formats.sending import write_otlp
from zombiescope.profiler.formats.text import write_collapsed
from zombiescope.profiler.stacks.capture import BrokenCapture, Capture, Selection
from zombiescope.profiler.stacks.flame_graph import (
    NARROWEST,
    FlameGraph,
    Key,
    Shape,
    compare,
    difference,
    flame_graph,
    frames_of,
    shape_of,
)
from zombiescope.profiler.stacks.heat_map import HeatMap, heat_map
from zombiescope.profiler.stacks.saturation import Explained, explain, find_moments

Writer = Callable[[Capture, Selection], Iterator[bytes]]
WRITERS: dict[str, Writer] = {
    "collapsed": write_collapsed,
    "pprof": write_pprof,
    "speedscope": write_speedscope,
    "firefox": write_firefox,
    "otlp": write_otlp,
}
_FINER = 8
"""Captures compared by name are cut this much finer first, so that a box wide in one is seldom missing in the other."""


@dataclass(slots=True)
class Opened:
    """A capture and what is made of it once."""

    name: str
    capture: Capture
    path: bytes = b""
    _shape: Shape | None = field(default=None)

    @property
    def shape(self) -> Shape:
        if self._shape is None:
            self._shape = shape_of(self.capture.tree)
        return self._shape


@dataclass(frozen=True, slots=True)
class Compared:
    graph: FlameGraph
    frames: Sequence[Key]


def open_capture(folder: bytes, name: str, choices: Choices | None = None) -> Opened:
    path = store.find(folder, name)
    stem = os.path.basename(path)
    shown_name = shown(stem.removesuffix(store.SUFFIX))
    return Opened(shown_name, read_capture(path, choices or Choices()), path)


def ask_heat_map(opened: Opened, selection: Selection, *, rows: int, column_seconds: float) -> HeatMap:
    with refused(opened):
        return heat_map(opened.capture, selection, rows=rows, column_seconds=column_seconds)


def ask_flame_graph(opened: Opened, selection: Selection) -> Compared:
    with refused(opened):
        return Compared(flame_graph(opened.capture, opened.shape, selection), frames_of(opened.capture))


def ask_difference(before: tuple[Opened, Selection], after: tuple[Opened, Selection]) -> Compared:
    with refused(after[0]):
        (first, earlier), (second, later) = before, after
        if first.capture is second.capture:
            return Compared(difference(first.capture, first.shape, earlier, later), frames_of(first.capture))
        graphs = [
            (opened.capture, flame_graph(opened.capture, opened.shape, selection, NARROWEST / _FINER))
            for opened, selection in (before, after)
        ]
        return Compared(*compare(graphs[0], graphs[1]))


def ask_moments(opened: Opened) -> list[Explained]:
    with refused(opened):
        return [explain(opened.capture, opened.shape, moment) for moment in find_moments(opened.capture)]


def write_elsewhere(opened: Opened, selection: Selection, form: str) -> Iterator[bytes]:
    with refused(opened):
        yield from WRITERS[form](opened.capture, selection)


@contextmanager
def refused(opened: Opened) -> Iterator[None]:
    """A question that this capture cannot answer is an error with a way on, not a bug. None takes more than its file allows."""
    what = f"cannot answer from the capture {opened.name}"
    try:
        with within_bounds(what, opened.path):
            yield
    except BrokenCapture as error:
        raise ObservationError(what, error.why, error.hint) from error
