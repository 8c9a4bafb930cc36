# SPDX-License-Identifier: Apache-2.0
"""Cgroups that ran out of their CPU quota: they wait by their own limit (cpu.max, cfs_quota), whatever zombies and reclaim do."""

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, shown
from zombiescope.facts.reclaim import ThrottledGroup
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="cpu-throttling",
    title="Cgroups are throttled by their CPU quota",
    role=Role.SYMPTOM,
    remedies=(Remedy.RAISE_CPU_LIMIT,),
    thing="throttling by a CPU quota",
    link="cgroups wait for their CPU quota",
    what="Cgroups used up their own CPU quota and had to wait.",
    matters=(
        "It looks like a slow host, but it is a limit that somebody set. Zombies and reclaim do not throttle anybody."
    ),
    do="Raise the quota (cpu.max, cfs_quota_us) or make the work smaller.",
    judged_by=("throttled_share", "throttled_critical_share", "throttled_least_periods"),
    next="zombiescope doctor",
    proven_by="throttled",
)
_SOURCE = "cpu.stat"


def judge(case: Case) -> Finding:
    seen = case.pressure
    groups = seen if isinstance(seen, Gap) else seen.throttled
    if isinstance(seen, Gap) or isinstance(groups, Gap):
        assert isinstance(groups, Gap)
        return FINDING.unknown(groups.reason)
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
        return FINDING.absent(f"not seen in {seen.seconds:,.0f} s: {some} busy{most}", evidence)
    others = len([group for group in telling if case.thresholds.of_throttling(group.share) is not Severity.OK]) - 1
    summary = (
        f"{shown(worst.path)} ran out of its quota in {worst.throttled:,} of {worst.periods:,} periods and waited "
        f"{worst.seconds:.1f} s" + (f", and {others:,} more" if others else "")
    )
    return FINDING.present(severity, summary, evidence)


def _evidence(groups: tuple[ThrottledGroup, ...], at: float) -> tuple[Evidence, ...]:
    found = []
    for group in groups[:5]:
        name = f"throttled[{shown(group.path)}]"
        found += [
            Evidence(f"{name}.periods", group.throttled, f"of {group.periods} periods", _SOURCE, at),
            Evidence(f"{name}.waited", round(group.seconds, 3), "seconds", _SOURCE, at),
        ]
    return tuple(found)
