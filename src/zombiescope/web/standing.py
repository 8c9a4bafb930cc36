# SPDX-License-Identifier: Apache-2.0
"""The page without an agent: this host, or a recording. Everything comes from a look that a child takes."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zombiescope import __version__, pipeline
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import ObservationError, ZombiescopeError
from zombiescope.facts.gap import Gap
from zombiescope.facts.plain import to_plain
from zombiescope.facts.units import ServicesSeen
from zombiescope.facts.zombies import Remains
from zombiescope.presenters.document import Json, render_page_host
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.node import read_identity, read_shape
from zombiescope.web import captures
from zombiescope.web.server import APART_MEMORY, Apart
from zombiescope.web.site import VIEWS, Kept, Pace, Shelf, failed, laid_out

if TYPE_CHECKING:
    from zombiescope.pipeline.page_look import Subject

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
        assert of.state is not None
        try:
            found = _asked(path, of.thresholds)(of.state, query)
            if path == "events":
                kept = captures.marks(of.captures, found["from"], found["to"])
                found["lanes"].append(
                    {"id": "captures", "title": "Captures", "kind": "captures", "count": len(kept), "marks": kept}
                )
            return found
        except ObservationError as error:
            return {
                "schema": f"zombiescope.{path}/1",
                **_EMPTY,
                "gaps": [{"fact": "series", "reason": error.why, "hint": error.hint}],
            }

    return answer


def _asked(path: str, thresholds: Thresholds) -> Callable[[bytes, Mapping[str, str]], Json]:
    """Each question loads what it needs alone: a zoom is answered sooner than the others could be loaded."""
    if path in ("range", "cores", "series"):
        of_time = pipeline.page_time
        series = lambda state, _: of_time.series(state, thresholds)  # noqa: E731 (one of three like it)
        return {"range": of_time.range_of, "cores": of_time.cores, "series": series}[path]
    of_events = pipeline.page_events
    return {"events": of_events.events, "compare": of_events.compare, "follows": of_events.follows}[path]


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


_LIVE_PACE = Pace(30.0, 0.05)
_NEVER_AGAIN = Pace(1e9, 1.0)
_POLL_SECONDS = 5


class Standing:
    def __init__(
        self, subject: Subject, selector: selectors.BaseSelector, make: Callable[[], bytes] | None = None
    ) -> None:
        """`make`: what the child does instead of a look."""
        self._subject = subject
        pace = _LIVE_PACE if subject.host.is_live else _NEVER_AGAIN
        expected = subject.seconds + 2.0 if subject.host.is_live else 1.0
        self.shelf = Shelf(selector, make or (lambda: look_and_lay_out(subject)), pace, expected)
        self._about = _about(subject)
        self.shelf.want()

    def pulse(self) -> Json:
        host = self._subject.host
        about, now = self.shelf.about, self.shelf.get("now")
        return {
            **self._about,
            "at": about.get("at", host.wall_clock()),
            "now": host.wall_clock(),
            "severity": about.get("severity"),
            "documents": {"now": {"version": now.etag if now else None, "made_at": about.get("at")}},
        }

    def now(self) -> Kept | Apart | None:
        self.shelf.want()
        return self.shelf.get("now")

    def asked(self, path: str) -> Callable[[Mapping[str, str]], Json] | None:
        subject = self._subject
        return question(Remembered(subject.state, subject.captures, subject.thresholds), path)

    def memory(self, path: str) -> int:
        return memory_of(path)


def _about(subject: Subject) -> Json:
    host = subject.host
    return {
        "schema": "zombiescope.page/1",
        "mode": "host" if host.is_live else "recording",
        "version": __version__,
        "label": host.label,
        "host": render_page_host(read_identity(host), read_memory_hierarchy(host), read_shape(host)),
        "is_live": host.is_live,
        "poll_seconds": _POLL_SECONDS if host.is_live else None,
        "views": list(VIEWS),
        "history": None,
        "gaps": [],
    }


def look_and_lay_out(subject: Subject) -> bytes:
    """In a child, which alone loads what a look needs: an agent answers questions and never looks so closely itself."""
    try:
        looked = pipeline.page_look.look(subject)
    except ZombiescopeError as error:
        return failed(error)
    found = pipeline.page_look.documents(subject, looked)
    case, now = looked.examined.case, found["now"]
    about = {
        "at": case.last.snapshot.taken_at,
        "severity": looked.examined.diagnosis.worst,
        "how": now["how"],
        "remedy": now["remedy"],
        "remedy_gaps": [gap for gap in now["gaps"] if gap["fact"] == "remedy"],
        "remains": None if isinstance(case.remains, Gap) else to_plain(case.remains, Remains),
        "services": None if isinstance(case.services, Gap) else to_plain(case.services, ServicesSeen),
    }
    return laid_out(found, pipeline.page_look.stories(looked), about)
