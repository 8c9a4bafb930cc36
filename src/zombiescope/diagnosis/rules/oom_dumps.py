# SPDX-License-Identifier: Apache-2.0
"""The kernel ran out of memory and killed, and each time wrote pages of report: on a slow console that alone holds a core for
seconds. Another reason for a stalled core than zombies."""

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import LogEventKind
from zombiescope.facts.names import counted
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="oom-dumps",
    title="The kernel runs out of memory, kills and reports it",
    role=Role.ORIGIN,
    remedies=(Remedy.GIVE_MEMORY,),
    thing="out-of-memory kills",
    link="the kernel runs out of memory and kills",
    what="The kernel killed processes because memory ran out, and wrote a long report each time.",
    matters="On a slow console the report alone holds a core for seconds.",
    do="Give memory to what was killed or raise its limit; take the serial console out of the way.",
    judged_by=("oom_reports_warning", "oom_recent_seconds"),
    next="zombiescope doctor",
    proven_by="oom-dumps",
    needs_title=True,
)


def judge(case: Case) -> Finding:
    log = case.kernel_log
    if isinstance(log, Gap):
        return FINDING.unknown(log.reason)
    since = log.until - case.thresholds.oom_recent_seconds
    dumps = [event for event in log.events if event.kind is LogEventKind.OUT_OF_MEMORY and event.at >= since]
    reports = [event for event in dumps if "invoked oom-killer" in event.text] or dumps
    window = min(case.thresholds.oom_recent_seconds, max(log.until - log.since, 0.0))
    evidence = (
        Evidence("oom_reports", len(reports), "reports", str(log.source), log.until),
        *(Evidence("oom_report", event.text[:120], "", str(log.source), event.at) for event in reports[-3:]),
    )
    number = counted(len(reports), "report") if reports else "no report"
    task = f", the last by {reports[-1].task}" if reports and reports[-1].task else ""
    summary = f"{number} in the last {window / 60:.0f} min of the kernel log{task}"
    is_telling = len(reports) >= case.thresholds.oom_reports_warning
    return FINDING.judged(Severity.WARNING if is_telling else Severity.OK, summary, evidence)
