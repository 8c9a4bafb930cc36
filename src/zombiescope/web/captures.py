# SPDX-License-Identifier: Apache-2.0
"""The page's way into the profiler: which captures there are, and what it asks of one. In a child that loads numpy and ends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from zombiescope import profiler
from zombiescope.errors import UsageError
from zombiescope.host.safe_open import open_regular
from zombiescope.pipeline import profile_events
from zombiescope.presenters.document import Json
from zombiescope.profiler.files.beside import read_beside
from zombiescope.profiler.files.ring import between
from zombiescope.profiler.formats.capture_heading import DAMAGE, Span, span_of_file
from zombiescope.profiler.formats.summary_document import read_document, reasons_in
from zombiescope.profiler.stacks.about import weightiest

Query = Mapping[str, str]
QUESTIONS = ("capture", "heatmap", "flame", "moments", "marks")
MEMORY = 1 << 30
"""Of address space: numpy maps much of which it uses little."""
_MOST = 500


def colours() -> Json:
    drawn = profiler.drawing.colours
    return {"light": drawn.HEAT, "dark": drawn.HEAT_ON_DARK}


def listed(folder: bytes | None) -> Json:
    body: Json = {"schema": "zombiescope.page-captures/1", "captures": [], "gaps": []}
    if folder is None:
        return {**body, "gaps": [_gap("no folder of captures is known", "zombiescope serve --captures DIR")]}
    try:
        found = profiler.files.store.entries(folder)
    except ImportError:
        return {**body, "gaps": [_gap("the package numpy is not installed", "pip install 'zombiescope[profile]'")]}
    body["captures"] = [_row(each) for each in found[-_MOST:]]
    if len(found) > _MOST:
        body["gaps"] = [_gap(f"the last {_MOST} of {len(found):,} are listed", "zombiescope profile list")]
    return body


def _row(stored: Any) -> Json:
    about, span, reasons = stored.about, _span(stored.path), reasons_in(read_document(read_beside(stored.path) or b""))
    begin, end, samples = (span.begin, span.end, span.samples) if span else (None, None, None)
    return {
        "name": stored.name,
        "from": begin,
        "to": end,
        "seconds": round(end - begin, 3) if begin is not None and end is not None else None,
        "samples": samples,
        "bytes": stored.size_bytes,
        "written_at": stored.written_at,
        "source": about.source if about else None,
        "host": about.host if about else None,
        "ring": bool(about and about.ring),
        "triggered": weightiest(reasons) or None,
        "is_damaged": about is None,
    }


def marks(folder: bytes | None, since: float, until: float) -> list[list[object]]:
    """Captures of that time: begin, end, name, whether something was the reason to keep it, and what. Without numpy, for a time
    axis."""
    kept = between(folder, since, until, _MOST) if folder is not None else []
    return [[one.span.begin, one.span.end, one.name, bool(one.reasons), weightiest(one.reasons)] for one in kept]


def _span(path: bytes) -> Span | None:
    """None: it cannot be read, or is damaged."""
    try:
        with os.fdopen(open_regular(path, follow=True)[0], "rb") as file:
            return span_of_file(file)
    except DAMAGE:
        return None


def _gap(reason: str, hint: str) -> Json:
    return {"fact": "captures", "reason": reason, "hint": hint}


def ask(folder: bytes | None, state: bytes | None, question: str, query: Query) -> Json:
    """One question about one capture of the folder; never about another file, whatever is given as its name."""
    paths = {each.name: each.path for each in profiler.files.store.entries(folder)} if folder is not None else {}
    name = query.get("name", "") or next(reversed(paths), "")
    if folder is None or name not in paths:
        raise UsageError("there is no such capture", "it is not in the folder of captures", "zombiescope profile list")
    opened = profiler.asking.open_capture(folder, os.fsdecode(paths[name]))
    if question == "marks":
        told = profile_events.marks_of(span_of(opened.capture), state, None)
        return {field: [one._asdict() for one in each] for field, each in told._asdict().items()}
    found = profiler.asking.ProfileApi(opened, {}).answer(f"/api/{question}", query)
    assert found is not None
    return found


def span_of(capture: Any) -> profile_events.Span | None:
    """None: it does not say when it was taken."""
    clock = capture.about.clock
    if capture.began is None or clock is None:
        return None
    return profile_events.Span(capture.began, clock.on_log(int(capture.time[0])) / 1e9, capture.seconds)
