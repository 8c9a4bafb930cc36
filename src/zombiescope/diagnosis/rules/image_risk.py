# SPDX-License-Identifier: Apache-2.0
"""The image this host was made from starts an agent that nothing needs and that may be restarted for ever: the next host has it
too. Of a host only what the vendor put there counts; `audit --image` looks into an image itself."""

from typing import TYPE_CHECKING

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import few
from zombiescope.facts.remedies import Remedy

if TYPE_CHECKING:
    from zombiescope.diagnosis.audit import Audit

FINDING = Declaration(
    id="image-risk",
    title="The image starts an agent that nothing needs and that may loop",
    role=Role.ORIGIN,
    explained_by=("unneeded-agent",),
    remedies=(Remedy.FIX_UNIT_IN_IMAGE,),
    thing="an agent in the image that may loop",
    link="every host made from this image gets it",
    what=(
        "The image that this host was made from starts an agent that nothing needs and that may be restarted for ever."
    ),
    matters="Every new host has the same problem.",
    do="Fix the image: disable the unit or give it a start limit before the image is used again.",
    next="zombiescope audit",
    proven_by="other-zone",
)


IN_AN_IMAGE, ON_A_HOST = Severity.CRITICAL, Severity.WARNING
"""An image is the place to stop it: each new host begins with the loop. On a host that runs what hurts is the agent itself, which
is a finding of its own; the image is for the next one."""


def told_risk(why: str, restarts_a_day: float | None) -> str:
    """How it may be restarted for ever."""
    if restarts_a_day is None:
        return why or "it restarts its child inside one unit, where no start limit counts"
    rate = f"up to {restarts_a_day:,.0f} restarts per day, each with a memory cgroup of its own"
    return f"{why}: {rate}" if why else rate


def judge(case: Case) -> Finding:
    seen = case.services
    if isinstance(seen, Gap) or not seen.were_files_read:
        return FINDING.unknown(seen.reason if isinstance(seen, Gap) else "unit files were not read")
    found = [unit for unit in seen.unneeded if unit.may_loop and unit.from_vendor]
    if not found:
        return FINDING.absent("the vendor ships no such unit")
    evidence = tuple(Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, seen.at) for unit in found)
    return FINDING.present(
        ON_A_HOST, few([f"{unit.name}: {told_risk('', unit.restarts_a_day)}" for unit in found]), evidence
    )


def judge_audit(audit: "Audit", at: float) -> Finding | None:
    """None where there is none, as far as could be judged."""
    told = [f"{unit.name}: {told_risk(unit.loop_why, unit.policy.restarts_per_day)}" for unit in audit.risks]
    told += [f"{one.name}: {one.lives.why}" for one in audit.workload_risks]
    evidence = [
        Evidence(f"{unit.name} {item.fact}", item.value, "", item.source, at)
        for unit in audit.risks
        for item in unit.evidence
    ]
    evidence += [
        Evidence(f"{one.name}: {one.lives.why}", one.why, "", one.workload.path, at) for one in audit.workload_risks
    ]
    return FINDING.present(IN_AN_IMAGE, few(told), tuple(evidence)) if told else None
