# SPDX-License-Identifier: Apache-2.0
"""The page about many nodes: one pull by a child when somebody asks, through the server or from the documents that were named."""

import json
import selectors
from collections.abc import Callable, Mapping
from typing import NamedTuple

from zombiescope import __version__
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import ZombiescopeError
from zombiescope.facts.names import shown_text
from zombiescope.host.access import Host
from zombiescope.pipeline import fleet as many
from zombiescope.presenters.document import Json
from zombiescope.presenters.fleet_json import NodeLinks, render_cohorts_page, render_fleet_page, worst_of
from zombiescope.web.server import Apart
from zombiescope.web.site import Kept, Pace, Shelf, laid_out

DOCUMENTS = ("fleet", "cohorts")
_PULL_PACE = Pace(60.0, 0.05)
_NEVER_AGAIN = Pace(1e9, 1.0)
_POLL_SECONDS = 15
_EXPECTED_SECONDS = 3.0


class Asked(NamedTuple):
    """What the page is about."""

    host: Host
    source: many.Source
    sick: str
    lookback_seconds: float
    thresholds: Thresholds
    links: NodeLinks | None


Gather = Callable[[Asked], many.Gathered]


class ManyNodes:
    """A server is asked again at most once a minute; documents are read once."""

    def __init__(self, asked: Asked, selector: selectors.BaseSelector, gather: Gather | None = None) -> None:
        """`gather`: how the child comes by the nodes, where not from the source."""
        self._asked = asked
        self._is_live = asked.source.server is not None
        pace = _PULL_PACE if self._is_live else _NEVER_AGAIN
        self.shelf = Shelf(selector, lambda: pull_and_lay_out(asked, gather or pull), pace, _EXPECTED_SECONDS)
        self.shelf.want()

    def pulse(self) -> Json:
        about, now = self.shelf.about, self._asked.host.wall_clock()
        return {
            "schema": "zombiescope.page/1",
            "mode": "fleet",
            "version": __version__,
            "label": about.get("label") or self._asked.source.server or self._asked.source.files,
            "host": {"name": "fleet", "kernel": None, "hierarchy": None, "cpus": None},
            "at": about.get("at", now),
            "now": now,
            "is_live": self._is_live,
            "poll_seconds": _POLL_SECONDS if self._is_live else None,
            "views": ["fleet"],
            "severity": about.get("severity"),
            "history": None,
            "documents": {},
            "gaps": [],
        }

    def now(self) -> Kept | Apart | None:
        return None

    def asked(self, _: str) -> Callable[[Mapping[str, str]], Json] | None:
        return None

    def memory(self, _: str) -> int:
        return 0


def pull(asked: Asked) -> many.Gathered:
    return many.gather(asked.host, asked.source, asked.thresholds)


def pull_and_lay_out(asked: Asked, gather: Gather = pull) -> bytes:
    """In a child."""
    try:
        found = gather(asked)
        many.require_nodes(found, asked.source)
        compared = many.compare_cohorts(found, asked.sick, asked.thresholds, asked.lookback_seconds)
    except ZombiescopeError as error:
        helps = f"; would help: {error.hint}" if error.hint else ""
        return json.dumps({"why": f"{error.what}: {error.why}{helps}"}).encode() + b"\n"
    gaps = [*found.fleet.gaps, *compared.gaps]
    documents = {
        "fleet": render_fleet_page(found.judged, found.fleet, asked.links),
        "cohorts": render_cohorts_page(
            compared.comparison, compared.sickness.rule, compared.since, compared.lines, gaps
        ),
    }
    label = f"{len(found.judged):,} nodes · {shown_text(found.fleet.source)}"
    return laid_out(documents, (), {"at": found.taken_at, "severity": str(worst_of(found.judged)), "label": label})
