# SPDX-License-Identifier: Apache-2.0
"""The image this host was made from starts an agent that nothing needs and that may be restarted for ever: the next host has it
too. Of a host only what the vendor put there counts; `audit --image` looks into an image itself."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.services import UnneededService

ID = "image-risk"
TITLE = "The image starts an agent that nothing needs and that may loop"


def judge_image_risk(case: Case) -> Finding:
    seen = case.services
    if isinstance(seen, Gap) or not seen.were_files_read:
        why = seen.reason if isinstance(seen, Gap) else "unit files were not read"
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, TITLE, why, ())
    found = [unit for unit in seen.unneeded if unit.may_loop and unit.from_vendor]
    if not found:
        return Finding(ID, Verdict.ABSENT, Severity.OK, Role.ORIGIN, TITLE, "the vendor ships no such unit", ())
    summary = "; ".join(f"{unit.name}: {_how(unit)}" for unit in found)
    evidence = tuple(Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, seen.at) for unit in found)
    return Finding(
        ID, Verdict.PRESENT, Severity.WARNING, Role.ORIGIN, TITLE, summary, evidence, (), ("fix-unit-in-image",)
    )


def _how(unit: UnneededService) -> str:
    if unit.restarts_a_day is not None:
        return f"up to {unit.restarts_a_day:,.0f} restarts per day, each with a memory cgroup of its own"
    return "it restarts its child inside one unit, where no start limit counts"
