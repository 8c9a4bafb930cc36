# SPDX-License-Identifier: Apache-2.0
"""A real-time task that does not let go of its core: everything else there waits, softirqs in their thread included."""

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.units import RealTimeTask

FINDING = Declaration(
    id="real-time-hog",
    title="A real-time task keeps a core to itself",
    role=Role.ORIGIN,
    remedies=(Remedy.LOWER_PRIORITY,),
    thing="a real-time task that keeps a core",
    link="a real-time task keeps a core to itself",
    what="A real-time task does not let go of its core.",
    matters="Everything else on that core waits, the kernel's own work included.",
    do="Lower its priority or its share of the core, or find why it spins.",
    judged_by=("real_time_share",),
    next="zombiescope cores",
    proven_by="real-time",
    takes_cpu=True,
)


def judge(case: Case) -> Finding:
    seen = case.real_time
    if isinstance(seen, Gap):
        return FINDING.unknown(seen.reason)
    if seen.seconds <= 0:
        return FINDING.unknown("nothing was watched")
    hogs = [task for task in seen.tasks if task.seconds / seen.seconds >= case.thresholds.real_time_share]
    evidence = tuple(
        Evidence(
            f"{_name(task)}.seconds",
            round(task.seconds, 2),
            f"seconds of {seen.seconds:.1f}",
            "/proc/PID/stat",
            seen.at,
        )
        for task in seen.tasks[:5]
    )
    if not hogs:
        ran = f"; most by {_name(seen.tasks[0])}" if seen.tasks else ""
        return FINDING.absent(f"no real-time task had a core for long in {seen.seconds:.0f} s{ran}", evidence)
    first = hogs[0]
    where = "" if first.core is None else f" on core {first.core}"
    how = f"at priority {first.priority} ({first.policy}){where}"
    summary = f"{_name(first)} ran {first.seconds / seen.seconds:.0%} of the time {how}"
    return FINDING.present(Severity.WARNING, summary, evidence)


def _name(task: RealTimeTask) -> str:
    return f"{task.name} (pid {task.pid})" if task.name else f"pid {task.pid}"
