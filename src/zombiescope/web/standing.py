# SPDX-License-Identifier: Apache-2.0
"""The page without an agent: this host, or a recording. Everything comes from a look that a child takes."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Mapping
from typing import Any

from zombiescope import __version__
from zombiescope.errors import ZombiescopeError
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.plain import to_plain
from zombiescope.facts.services import ServicesSeen
from zombiescope.facts.zombies import Remains
from zombiescope.pipeline.page_look import Subject, documents, look, stories
from zombiescope.presenters.document import render_host
from zombiescope.probes.readers.cgroup_mounts import read_memory_hierarchy
from zombiescope.probes.readers.node import read_identity, read_shape
from zombiescope.web.remembered import Remembered, memory_of, question
from zombiescope.web.server import Apart
from zombiescope.web.shelf import Kept, Pace, Shelf, failed, laid_out
from zombiescope.web.site import VIEWS

Json = dict[str, Any]
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
    identity, shape, hierarchy = read_identity(host), read_shape(host), read_memory_hierarchy(host)
    return {
        "schema": "zombiescope.page/1",
        "mode": "host" if host.is_live else "recording",
        "version": __version__,
        "label": host.label,
        "host": {
            **render_host(identity),
            "hierarchy": hierarchy.version if isinstance(hierarchy, Hierarchy) else None,
            "cpus": shape.possible_cpus,
        },
        "is_live": host.is_live,
        "poll_seconds": _POLL_SECONDS if host.is_live else None,
        "views": list(VIEWS),
        "history": None,
        "gaps": [],
    }


def look_and_lay_out(subject: Subject) -> bytes:
    """In a child."""
    try:
        looked = look(subject)
    except ZombiescopeError as error:
        return failed(error)
    found = documents(subject, looked)
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
    return laid_out(found, stories(looked), about)
