# SPDX-License-Identifier: Apache-2.0
"""What could be done about what the doctor found: the same planner as `plan`, over what the doctor saw already."""

from __future__ import annotations

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.levers import Levers
from zombiescope.host.access import Host
from zombiescope.pipeline.activity import activity_of
from zombiescope.pipeline.doctor import Examined
from zombiescope.pipeline.plan import enabling_links, is_this_host, with_files_in_use
from zombiescope.probes.readers.levers import read_levers
from zombiescope.remedies.plan import Plan
from zombiescope.remedies.planner import propose

_REPLAYED = Gap(
    "plan",
    "a recording cannot be mended, and without its unit files a plan would leave out who makes them",
    "zombiescope plan, on the host; zombiescope plan --root FILE tells what would free them",
)


def plan_for(host: Host, examined: Examined) -> Plan | Gap:
    if not is_this_host(host):
        return _REPLAYED
    audit = examined.judged[0] if examined.judged else None
    levers = _levers(host, examined)
    return propose(examined.diagnosis, examined.autopsy, audit, levers, activity=activity_of(examined.case))


def _levers(host: Host, examined: Examined) -> Levers:
    links = enabling_links(examined.judged[1]) if examined.judged else {}
    hierarchy = examined.case.last.snapshot.hierarchy
    if not isinstance(hierarchy, Hierarchy):
        return Levers(enabling_links=links)
    bodies = examined.autopsy.bodies if examined.autopsy else ()
    levers = read_levers(host, hierarchy, sorted({body.zombie.parent for body in bodies}))
    levers = with_files_in_use(host, levers, examined.autopsy)
    asked = examined.judged is not None and examined.judged[0].was_systemd_asked
    return levers._replace(enabling_links=links, has_systemd=levers.has_systemd and asked)
