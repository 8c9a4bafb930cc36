# SPDX-License-Identifier: Apache-2.0
"""Look for a window and judge what was seen: `doctor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.analysis.numbered import fold_flows
from zombiescope.analysis.scan import derive_scan
from zombiescope.diagnosis.case import NO_HISTORY, Case, Observation
from zombiescope.diagnosis.engine import Diagnosis, diagnose
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.flows import FlowsSeen
from zombiescope.facts.gap import Gap
from zombiescope.facts.remains import Remains
from zombiescope.host.access import Host
from zombiescope.pipeline.flow_watch import FlowWatch
from zombiescope.pipeline.remains import Examination
from zombiescope.pipeline.scan import USUAL, growth_of, observe
from zombiescope.pipeline.window import Window, watches_over
from zombiescope.probes.readers.cgroup_census import read_census

if TYPE_CHECKING:
    from zombiescope.analysis.autopsy import Autopsy
    from zombiescope.diagnosis.audit import Audit
    from zombiescope.facts.units import UnitFiles


class Examined(NamedTuple):
    case: Case
    diagnosis: Diagnosis
    autopsy: Autopsy | None = None
    """Every zombie, where they could be seen one by one here and now."""
    judged: tuple[Audit, UnitFiles] | None = None
    """Every service, where they could be asked here and now."""


def examine(  # noqa: PLR0913 (what to look at, for how long, and what is known already)
    host: Host,
    seconds: float,
    progress: Callable[[float], None] = lambda _: None,
    state: bytes | None = None,
    *,
    believe_lab: bool = False,
    thresholds: Thresholds = USUAL,
    flows: FlowWatch | None = None,
) -> Examined:
    """A snapshot, a window in which much is watched at once, the census and an autopsy after it. `progress` is told the seconds
    that are over; `state` is where an agent may keep a history of this host; `flows`: births and deaths that were watched from
    before."""
    first = observe(host)
    hierarchy = first.snapshot.hierarchy
    parents = () if isinstance(first.scan.parents, Gap) else [share.path for share in first.scan.parents]
    window = Window(host, hierarchy, watches_over(parents, believe_users=believe_lab))
    window.let_pass(seconds, progress)
    facts = window.facts()
    if flows is not None:
        facts["flows"] = flows.seen()
    observations = [first]
    examination = Examination(host, first.snapshot.taken_at)
    if isinstance(hierarchy, Hierarchy):
        census = read_census(host, hierarchy)
        later = first.snapshot._replace(census=census, taken_at=host.wall_clock())
        observations.append(Observation(later, derive_scan(later)))
        facts["remains"] = examination.remains()
    held, seen = facts.get("remains"), facts.get("flows")
    if isinstance(seen, FlowsSeen):
        facts["flows"] = fold_flows(seen, (left.maker for left in held.makers) if isinstance(held, Remains) else ())
    growth = growth_of(host, state, thresholds) if state is not None and host.label == "this host" else NO_HISTORY
    case = Case(tuple(observations), thresholds, growth, **facts)
    judged = getattr(window.watch("services"), "judged", None)
    return Examined(case, diagnose(case), examination.autopsy, judged)
