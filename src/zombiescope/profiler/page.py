# SPDX-License-Identifier: Apache-2.0
"""Questions of the page, answered as JSON: what a capture is, its heat map, a flame graph or difference, its moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zombiescope.errors import UsageError
from zombiescope.profiler import asking as pipeline
from zombiescope.profiler.drawing.documents import render_capture, render_flame, render_heat_map, render_moments
from zombiescope.profiler.stacks.capture import Selection
from zombiescope.profiler.stacks.flame_graph import widest_first

Query = Mapping[str, str]
USUAL_SIDE = "usual"
_ROWS = 50
_MOST_TEXT = 200


class ProfileApi:
    """One opened capture; every question is asked of memory."""

    QUESTIONS = frozenset(f"/api/{name}" for name in ("capture", "heatmap", "flame", "moments", "marks"))

    def __init__(self, opened: pipeline.Opened, marks: dict[str, Any]) -> None:
        self._opened = opened
        self._marks = marks
        self._moments: dict[str, Any] | None = None

    def answer(self, path: str, query: Query) -> dict[str, Any] | None:
        """None: there is no such question."""
        match path:
            case "/api/capture":
                return render_capture(self._opened.name, self._opened.capture, self._opened.name)
            case "/api/heatmap":
                return self._heat_map(query)
            case "/api/flame":
                return self._flame(query)
            case "/api/moments":
                return self._found()
            case "/api/marks":
                return self._marks
            case _:
                return None

    def _selection(self, query: Query) -> Selection:
        """The usual side is the kernel's, as in the commands; both where nothing was sampled there."""
        if query.get("side") != USUAL_SIDE:
            return selection(query)
        return selection({**query, "side": "kernel" if self._opened.capture.kernel_samples else "both"})

    def _heat_map(self, query: Query) -> dict[str, Any]:
        found = pipeline.ask_heat_map(self._opened, self._selection(query), rows=_ROWS, column_seconds=1.0)
        return render_heat_map(found, self._opened.name, self._opened.capture)

    def _flame(self, query: Query) -> dict[str, Any]:
        chosen = self._selection(query)
        if "before" not in query:
            found = pipeline.ask_flame_graph(self._opened, chosen)
        else:
            begin, _, end = query["before"].partition("..")
            earlier = chosen._replace(begin=_seconds(begin), end=_seconds(end))
            found = pipeline.ask_difference((self._opened, earlier), (self._opened, chosen))
        return render_flame(widest_first(found.graph), found.frames, self._opened.name, self._opened.capture)

    def _found(self) -> dict[str, Any]:
        if self._moments is None:
            moments = pipeline.ask_moments(self._opened) if self._opened.capture.about.has_time else []
            self._moments = render_moments(moments, self._opened.name, self._opened.capture)
        return self._moments


def selection(query: Query) -> Selection:
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
