# SPDX-License-Identifier: Apache-2.0
"""The page about nodes that are there already: judged, compared and laid out as `fleet serve` does it."""

from __future__ import annotations

from selectors import BaseSelector

from tests.build import ScriptedHost

from zombiescope.diagnosis.fleet_health import judge_nodes
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.fleet import Fleet
from zombiescope.pipeline.fleet import Gathered, Source
from zombiescope.presenters.fleet_json import NodeLinks
from zombiescope.web.fleet import Asked, ManyNodes


def many_nodes(fleet: Fleet, links: NodeLinks | None, selector: BaseSelector) -> ManyNodes:
    source = Source(files=fleet.source)
    asked = Asked(ScriptedHost({}), source, "severity", 604_800.0, Thresholds(), links)

    def gathered(_: Asked) -> Gathered:
        identity = Identity("here", None, None, None)
        return Gathered(fleet.taken_at, identity, fleet, judge_nodes(fleet, Thresholds()), None)

    return ManyNodes(asked, selector, gathered)
