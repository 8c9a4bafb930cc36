# SPDX-License-Identifier: Apache-2.0
"""The page about many nodes: pulled by a child, kept when the next pull fails, and why it failed is told."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from tests.build import ScriptedHost
from tests.unit.web.test_site import Turning

from zombiescope.diagnosis.fleet_health import judge_nodes
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import ObservationError
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.fleet import Fleet, FleetNode
from zombiescope.pipeline.fleet import Gathered, Source
from zombiescope.presenters.fleet_json import INSTANCE_PAGE, NodeLinks
from zombiescope.web.fleet import DOCUMENTS, Asked, ManyNodes
from zombiescope.web.http import Request, Response
from zombiescope.web.site import Site

NODES = (
    FleetNode("a", {"zone": "x"}, 20_000, 40, 20_040, 12.0, 1.8e9, {"nic-reset": "critical"}),
    FleetNode("b", {}, None, None, None),
)
FLEET = Fleet(1.8e9, "http://server:9090", NODES, addresses={"a": "10.0.0.1:9478", "b": "evil/../"})


def ask(site: Site, path: str) -> tuple[int, Any]:
    found = site.answer(Request(f"/api/v1/{path}", {}))
    assert isinstance(found, Response)
    body = gzip.decompress(found.body) if found.is_packed else found.body
    return found.status, json.loads(body)


@pytest.fixture
def turning() -> Turning:
    return Turning()


def source(turning: Turning, told: list[Gathered | ObservationError]) -> ManyNodes:
    """A pull gives the first of those that are told by then: a child is a copy, so that the caller takes the old one away."""

    def gather(_: Asked) -> Gathered:
        found = told[0]
        if isinstance(found, ObservationError):
            raise found
        return found

    links = NodeLinks(INSTANCE_PAGE)
    asked = Asked(ScriptedHost({}), Source(server="http://server:9090"), "severity", 3600.0, Thresholds(), links)
    return ManyNodes(asked, turning.selector, gather)


def gathered() -> Gathered:
    identity = Identity("here", None, None, None)
    return Gathered(FLEET.taken_at, identity, FLEET, judge_nodes(FLEET, Thresholds()), None)


def test_nodes_are_columns_and_unknown_stays_unknown(turning: Turning) -> None:
    many = source(turning, [gathered()])
    site = Site(many, DOCUMENTS)
    assert turning.until(lambda: ask(site, "fleet")[0] == 200)
    _, fleet = ask(site, "fleet")
    assert fleet["columns"]["page"] == {"values": ["http://10.0.0.1:9478/", None]}
    assert fleet["columns"]["zombies"]["deltas"] == [20_000, None]
    assert fleet["labels"] == [{"name": "zone", "values": ["x", None]}]
    assert fleet["columns"]["severity"] == {"values": ["critical", "unknown"]}
    _, pulse = ask(site, "page")
    assert (pulse["mode"], pulse["severity"], pulse["views"]) == ("fleet", "critical", ["fleet"])
    assert ask(site, "cohorts")[1]["verdict"].startswith("all 1 nodes are sick") or "1 node" in str(
        ask(site, "cohorts")
    )
    assert site.answer(Request("/api/v1/zombies", {})) is None, "it has no such document"
    site.close()


def test_a_pull_that_fails_leaves_what_is_there_and_says_why(turning: Turning) -> None:
    broken = ObservationError("cannot ask http://server:9090", "connection refused", "is it up?")
    told_next: list[Gathered | ObservationError] = [gathered(), broken]
    many = source(turning, told_next)
    site = Site(many, DOCUMENTS)
    assert turning.until(lambda: ask(site, "fleet")[0] == 200)
    told_next.pop(0)
    many.shelf._next = 0.0  # a minute later
    ask(site, "fleet")
    assert turning.until(lambda: bool(ask(site, "page")[1]["documents"]["fleet"]["why"]))
    told = ask(site, "page")[1]["documents"]["fleet"]
    assert told["why"] == "cannot ask http://server:9090: connection refused; would help: is it up?"
    assert ask(site, "fleet")[0] == 200, "the last answer stays"
    site.close()


def test_a_server_that_never_answered_is_told_with_its_hint(turning: Turning) -> None:
    site = Site(source(turning, [ObservationError("cannot ask it", "it sends us on", "give its path")]), DOCUMENTS)
    assert turning.until(lambda: ask(site, "fleet")[0] == 503)
    assert "give its path" in ask(site, "fleet")[1]["why"]
    site.close()
