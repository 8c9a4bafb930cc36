# SPDX-License-Identifier: Apache-2.0
"""Reading every cgroup's statistics takes long: kernels up to 5.8 walk the dead for it, and whoever reads holds a core. Judged by
the time it took here, never by the release."""

from zombiescope.analysis.zombie_cost import derive_payer, derive_sweep_cost
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.reclaim_work import span, works_of
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.cgroups import Sweep
from zombiescope.facts.gap import Gap

FINDING = Declaration(
    id="costly-sweep",
    title="Reading the statistics of cgroups is costly",
    role=Role.MECHANISM,
    explained_by=("zombie-population", "visible-leak"),
    thing="slow cgroup statistics",
    link="reading all cgroup statistics becomes slow",
    follows="reading all statistics has become slow",
    what="Reading the statistics of every cgroup once takes long.",
    matters="kubelet, cAdvisor and others read them every ten seconds and hold a core each time.",
    do=(
        "Free the zombies or remove the empty directories that make it slow; until then let fewer programs "
        "read, less often."
    ),
    judged_by=("sweep_warning_seconds", "sweep_critical_seconds"),
    next="zombiescope scan",
    proven_by="incident",
)


def judge(case: Case) -> Finding:
    sweep, at = case.first.snapshot.sweep, case.first.snapshot.taken_at
    if isinstance(sweep, Gap):
        return FINDING.unknown(sweep.reason)
    cost = derive_sweep_cost(sweep)
    each = f"{span(cost.each_seconds)} for each of {sweep.cgroups:,} live cgroups"
    severity = case.thresholds.of_sweep(cost.seconds) if cost.is_slow else Severity.OK
    evidence = (*_evidence(sweep, at), *_who(case))
    if severity is Severity.OK:
        return FINDING.absent(f"one sweep takes {span(cost.seconds)}, {each}{_readers(case)}", evidence)
    slowest = f"the slowest is {sweep.slowest_file} ({span(sweep.slowest_seconds)})"
    summary = f"one sweep takes {span(cost.seconds)}, {each}; {slowest}{_readers(case)}"
    payer = Evidence("pays_for_zombies", str(derive_payer(sweep, works_of(case))), "", "behaviour", at)
    return FINDING.present(severity, summary, (*evidence, payer))


def _evidence(sweep: Sweep, at: float) -> list[Evidence]:
    how = "timed" if sweep.cgroups_read == sweep.cgroups else f"timed on {sweep.cgroups_read} of them"
    found = [
        Evidence("sweep", round(sweep.seconds, 4), "seconds", how, at),
        Evidence("sweep.slowest", round(sweep.slowest_seconds, 6), "seconds", sweep.slowest_file, at),
    ]
    if sweep.narrow_seconds is not None:
        only = "timed: the root and all pods together, where kubelet has the rest from its runtime"
        found.append(Evidence("sweep.root_and_pods", round(sweep.narrow_seconds, 6), "seconds", only, at))
    return found


def _readers(case: Case) -> str:
    """Who is there that reads them, whatever it costs."""
    if isinstance(case.sweepers, Gap) or not case.sweepers.sweepers:
        return ""
    return f"; read by {', '.join(each.name for each in case.sweepers.sweepers[:3])}"


def _who(case: Case) -> list[Evidence]:
    seen = case.sweepers
    if isinstance(seen, Gap) or seen.seconds <= 0:
        return []
    return [
        Evidence(
            f"sweeper[{each.name}].share",
            round(each.cpu_seconds / seen.seconds, 4),
            "of one core",
            "/proc/PID/stat",
            seen.at,
        )
        for each in seen.sweepers[:5]
    ]
