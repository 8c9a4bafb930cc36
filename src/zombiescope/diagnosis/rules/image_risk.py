# SPDX-License-Identifier: Apache-2.0
"""The image this host was made from starts an agent that nothing needs and that may be restarted for ever: the next host has it
too. Of a host only what the vendor put there counts; `audit --image` looks into an image itself."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.services import UnneededService

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


def judge(case: Case) -> Finding:
    seen = case.services
    if isinstance(seen, Gap) or not seen.were_files_read:
        why = seen.reason if isinstance(seen, Gap) else "unit files were not read"
        return FINDING.unknown(why)
    found = [unit for unit in seen.unneeded if unit.may_loop and unit.from_vendor]
    if not found:
        return FINDING.absent("the vendor ships no such unit")
    summary = "; ".join(f"{unit.name}: {_how(unit)}" for unit in found)
    evidence = tuple(Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, seen.at) for unit in found)
    return FINDING.present(Severity.WARNING, summary, evidence)


def _how(unit: UnneededService) -> str:
    if unit.restarts_a_day is not None:
        return f"up to {unit.restarts_a_day:,.0f} restarts per day, each with a memory cgroup of its own"
    return "it restarts its child inside one unit, where no start limit counts"
