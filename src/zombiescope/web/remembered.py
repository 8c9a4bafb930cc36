# SPDX-License-Identifier: Apache-2.0
"""Questions about what is remembered, a history and captures: the same for a page with an agent and one without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.web import captures
from zombiescope.web.server import APART_MEMORY

Json = dict[str, Any]
Question = Callable[[Mapping[str, str]], Json]
_CAPTURES = "captures/"


class Remembered(NamedTuple):
    state: bytes | None
    """Where a history is kept; None: nowhere."""
    captures: bytes | None
    thresholds: Thresholds


def question(of: Remembered, path: str) -> Question | None:
    if path == "colours":
        return lambda _: captures.colours()
    if path == "captures":
        return lambda _: captures.listed(of.captures)
    name = path.removeprefix(_CAPTURES)
    if path.startswith(_CAPTURES) and name in captures.QUESTIONS:
        return partial(captures.ask, of.captures, of.state, name)
    return _of_time(of, path)


def _of_time(of: Remembered, path: str) -> Question | None:
    if path not in ("series", "range", "events", "compare", "follows", "cores"):
        return None
    if of.state is None:
        return lambda _: {"schema": f"zombiescope.{path}/1", **_EMPTY}

    def answer(query: Mapping[str, str]) -> Json:
        from zombiescope.errors import ObservationError  # noqa: PLC0415 (in a child)

        assert of.state is not None
        try:
            found = _asked(path)(of.state, query) if path != "series" else _series(of.state, of.thresholds)
            if path == "events":
                kept = captures.marks(of.captures, found["from"], found["to"])
                lane = {"id": "captures", "title": "Captures", "kind": "captures", "count": len(kept), "marks": kept}
                found["lanes"].append(lane)
            return found
        except ObservationError as error:
            gap = {"fact": "series", "reason": error.why, "hint": error.hint}
            return {"schema": f"zombiescope.{path}/1", **_EMPTY, "gaps": [gap]}

    return answer


def _asked(path: str) -> Callable[[bytes, Mapping[str, str]], Json]:
    """Each question loads what it needs alone: a zoom is answered sooner than the others could be loaded."""
    if path == "range":
        from zombiescope.pipeline.page_time import range_of  # noqa: PLC0415

        return range_of
    if path == "cores":
        from zombiescope.pipeline.page_time import cores  # noqa: PLC0415

        return cores
    from zombiescope.pipeline import page_events  # noqa: PLC0415

    return {"events": page_events.events, "compare": page_events.compare, "follows": page_events.follows}[path]


def _series(state: bytes, thresholds: Thresholds) -> Json:
    from zombiescope.pipeline.page_time import series  # noqa: PLC0415

    return series(state, thresholds)


_NO_HISTORY = {"fact": "series", "reason": "no history is kept", "hint": "zombiescope agent keeps one"}
_EMPTY: Json = {
    "from": None,
    "to": None,
    "series": [],
    "lanes": [],
    "rows": [],
    "cores": [],
    "stretches": [],
    "pauses": [],
    "gaps": [_NO_HISTORY],
}


def memory_of(path: str) -> int:
    return captures.MEMORY if path.startswith(("captures", "colours")) else APART_MEMORY
