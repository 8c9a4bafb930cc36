# SPDX-License-Identifier: Apache-2.0
"""Cgroups that ran out of their CPU quota: they wait by their own limit (cpu.max, cfs_quota), whatever zombies and reclaim do."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, shown
from zombiescope.facts.reclaim import ThrottledGroup

ID = "cpu-throttling"
TITLE = "Cgroups are throttled by their CPU quota"
_SOURCE = "cpu.stat"
_MOST_SHOWN = 5


def judge_cpu_throttling(case: Case) -> Finding:
    seen = case.pressure
    groups = seen if isinstance(seen, Gap) else seen.throttled
    if isinstance(seen, Gap) or isinstance(groups, Gap):
        assert isinstance(groups, Gap)
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.SYMPTOM, TITLE, groups.reason, ())
    at = case.last.snapshot.taken_at
    telling = [group for group in groups if group.periods >= case.thresholds.throttled_least_periods]
    worst = max(telling, key=lambda group: group.share, default=None)
    severity = case.thresholds.of_throttling(worst.share) if worst else Severity.OK
    evidence = _evidence(groups, at)
    if worst is None or severity is Severity.OK:
        some = (
            counted(len(groups), "cgroup with a quota was", "cgroups with a quota were")
            if groups
            else "none with a quota was"
        )
        most = f", throttled in at most {worst.share:.0%} of the periods" if worst else ""
        summary = f"not seen in {seen.seconds:,.0f} s: {some} busy{most}"
        return Finding(ID, Verdict.ABSENT, Severity.OK, Role.SYMPTOM, TITLE, summary, evidence)
    others = len([group for group in telling if case.thresholds.of_throttling(group.share) is not Severity.OK]) - 1
    summary = (
        f"{shown(worst.path)} ran out of its quota in {worst.throttled:,} of {worst.periods:,} periods and waited "
        f"{worst.seconds:.1f} s" + (f", and {others:,} more" if others else "")
    )
    remedies = ("raise-cpu-limit",)
    return Finding(ID, Verdict.PRESENT, severity, Role.SYMPTOM, TITLE, summary, evidence, (), remedies)


def _evidence(groups: tuple[ThrottledGroup, ...], at: float) -> tuple[Evidence, ...]:
    found = []
    for group in groups[:_MOST_SHOWN]:
        name = f"throttled[{shown(group.path)}]"
        found += [
            Evidence(f"{name}.periods", group.throttled, f"of {group.periods} periods", _SOURCE, at),
            Evidence(f"{name}.waited", round(group.seconds, 3), "seconds", _SOURCE, at),
        ]
    return tuple(found)
