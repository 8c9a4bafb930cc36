# SPDX-License-Identifier: Apache-2.0
"""From a file or a stored capture to an answer: open, ask, compare, find, write elsewhere; and the questions of the page, answered
as JSON."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.names import shown
from zombiescope.profiler.drawing.documents import render_capture, render_flame, render_heat_map, render_moments
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
    widest_first,
)
from zombiescope.profiler.stacks.heat_map import HeatMap, heat_map
from zombiescope.profiler.stacks.saturation import Explained, explain, find_moments

Writer = Callable[[Capture, Selection], Iterator[bytes]]
Drawn = tuple[FlameGraph, Sequence[Key]]
"""A flame graph, and the functions that its numbers mean."""
WRITERS: dict[str, Writer] = {
    "collapsed": write_collapsed,
    "pprof": write_pprof,
    "speedscope": write_speedscope,
    "firefox": write_firefox,
    "otlp": write_otlp,
}
_FINER = 8
"""Captures compared by name are cut this much finer first, so that a box wide in one is seldom missing in the other."""


@dataclass
class Opened:
    """A capture and what is made of it once."""

    name: str
    capture: Capture
    path: bytes = b""

    @cached_property
    def shape(self) -> Shape:
        return shape_of(self.capture.tree)


def open_capture(folder: bytes, name: str, choices: Choices | None = None) -> Opened:
    path = store.find(folder, name)
    shown_name = shown(os.path.basename(path).removesuffix(store.SUFFIX))
    return Opened(shown_name, read_capture(path, choices or Choices()), path)


def ask_heat_map(opened: Opened, selection: Selection, *, rows: int, column_seconds: float) -> HeatMap:
    with refused(opened):
        return heat_map(opened.capture, selection, rows=rows, column_seconds=column_seconds)


def ask_flame_graph(opened: Opened, selection: Selection) -> Drawn:
    with refused(opened):
        return flame_graph(opened.capture, opened.shape, selection), frames_of(opened.capture)


def ask_difference(before: tuple[Opened, Selection], after: tuple[Opened, Selection]) -> Drawn:
    with refused(after[0]):
        (first, earlier), (second, later) = before, after
        if first.capture is second.capture:
            return difference(first.capture, first.shape, earlier, later), frames_of(first.capture)
        graphs = [
            (opened.capture, flame_graph(opened.capture, opened.shape, selection, NARROWEST / _FINER))
            for opened, selection in (before, after)
        ]
        return compare(*graphs)


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


Query = Mapping[str, str]
USUAL_SIDE = "usual"
_ROWS, _MOST_TEXT = 50, 200


class ProfileApi:
    """One opened capture; every question is asked of memory."""

    QUESTIONS = frozenset(f"/api/{name}" for name in ("capture", "heatmap", "flame", "moments", "marks"))

    def __init__(self, opened: Opened, marks: dict[str, Any]) -> None:
        self._opened, self._marks = opened, marks

    def answer(self, path: str, query: Query) -> dict[str, Any] | None:
        """None: there is no such question."""
        answers: dict[str, Callable[[], dict[str, Any]]] = {
            "/api/capture": lambda: render_capture(self._opened.name, self._opened.capture, self._opened.name),
            "/api/heatmap": lambda: self._heat_map(query),
            "/api/flame": lambda: self._flame(query),
            "/api/moments": lambda: self._found,
            "/api/marks": lambda: self._marks,
        }
        return answers[path]() if path in answers else None

    def _selection(self, query: Query) -> Selection:
        """The usual side is the kernel's, as in the commands; both where nothing was sampled there."""
        if query.get("side") != USUAL_SIDE:
            return read_selection(query)
        return read_selection({**query, "side": "kernel" if self._opened.capture.kernel_samples else "both"})

    def _heat_map(self, query: Query) -> dict[str, Any]:
        found = ask_heat_map(self._opened, self._selection(query), rows=_ROWS, column_seconds=1.0)
        return render_heat_map(found, self._opened.name, self._opened.capture)

    def _flame(self, query: Query) -> dict[str, Any]:
        chosen = self._selection(query)
        if "before" not in query:
            graph, frames = ask_flame_graph(self._opened, chosen)
        else:
            begin, _, end = query["before"].partition("..")
            earlier = chosen._replace(begin=_seconds(begin), end=_seconds(end))
            graph, frames = ask_difference((self._opened, earlier), (self._opened, chosen))
        return render_flame(widest_first(graph), frames, self._opened.name, self._opened.capture)

    @cached_property
    def _found(self) -> dict[str, Any]:
        moments = ask_moments(self._opened) if self._opened.capture.about.has_time else []
        return render_moments(moments, self._opened.name, self._opened.capture)


def read_selection(query: Query) -> Selection:
    side = query.get("side", "both")
    if side not in ("both", "kernel", "user"):
        raise UsageError("cannot look at this side", "it is neither kernel, user nor both", "choose one")
    comm = query.get("comm", "")[:_MOST_TEXT]
    return Selection(
        _seconds(query.get("from", "")),
        _seconds(query.get("to", "")),
        cpus=tuple(_core(part) for part in query.get("core", "").split(",") if part),
        comms=(comm,) if comm else (),
        cgroups=(query["cgroup"][:_MOST_TEXT],) if query.get("cgroup") else (),
        side=side,
        with_idle=query.get("idle") == "1",
    )


def _seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise UsageError("cannot read the time", "it is no number", "seconds, such as 12.5") from error
    if not 0 <= value < 1e9:
        raise UsageError(f"cannot look at {value:g} s", "it is outside of any capture", "seconds, such as 12.5")
    return value


def _core(text: str) -> int:
    if not text.isdigit() or len(text) > 5:
        raise UsageError("cannot look at this core", "it is no number", "such as 0")
    return int(text)
