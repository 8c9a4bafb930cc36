# SPDX-License-Identifier: Apache-2.0
"""A network card that was reset: by the kernel's own words, and by what the drivers count. Says why, which queue, which core."""

from collections import Counter

from zombiescope.analysis.nic_resets import derive_resets
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import KernelLog, NicReset, ResetReason
from zombiescope.facts.softirq import NicCounters

FINDING = Declaration(
    id="nic-reset",
    title="A network card was reset",
    role=Role.SYMPTOM,
    explained_by=("starved-softirq", "saturated-core", "real-time-hog", "cpu-steal"),
    thing="network card resets",
    link="the network card is reset",
    follows="the network card was reset",
    what="A network card was reset by its driver.",
    matters=(
        "Connections stall or break. Often the card is well, and the core that serves it was held by something else."
    ),
    do="Compare its time with saturated cores and sweeps; replace the card only if nothing else explains it.",
    judged_by=("nic_reset_recent_seconds", "nic_resets_critical"),
    next="zombiescope doctor --since 24h",
    proven_by="incident",
    is_riddle=True,
    needs_title=True,
)


def judge(case: Case) -> Finding:
    log, counters, now = case.kernel_log, case.nic_counters, case.last.snapshot.taken_at
    resets = recent_resets(log, now, case.thresholds.nic_reset_recent_seconds)
    grown = {} if isinstance(counters, Gap) else counters.grown()
    last = () if isinstance(counters, Gap) else counters.last
    starved = sum(device.counters.get("suspected_poll_starvation", 0) for device in last)
    if not resets and not grown and not starved:
        return _nothing(log, counters)
    is_starvation = any(reset.reason is ResetReason.POLL_STARVATION for reset in resets) or starved > 0
    is_many = len(resets) >= case.thresholds.nic_resets_critical
    severity = Severity.CRITICAL if is_starvation or is_many or grown else Severity.WARNING
    return FINDING.present(
        severity,
        _summary(resets, grown, starved),
        (*_evidence_of_log(log, resets), *_evidence_of_counters(counters, grown)),
    )


def recent_resets(log: KernelLog | Gap, now: float, seconds: float) -> tuple[NicReset, ...]:
    if isinstance(log, Gap):
        return ()
    return tuple(reset for reset in derive_resets(log.events) if reset.at >= now - seconds)


def _nothing(log: KernelLog | Gap, counters: NicCounters | Gap) -> Finding:
    if isinstance(log, Gap):
        return FINDING.unknown(log.reason)
    if isinstance(counters, Gap):
        return FINDING.unknown(counters.reason)
    hours = max(log.until - log.since, 0) / 3600
    summary = f"no reset in the kernel log of {hours:,.1f} h, and no driver counted one in {counters.seconds:.0f} s"
    evidence = (
        Evidence("kernel_log.lines", log.lines, "lines", str(log.source), log.until),
        Evidence("kernel_log.since", round(log.since), "seconds since the epoch", str(log.source), log.until),
    )
    return FINDING.absent(summary, evidence)


def _summary(resets: tuple[NicReset, ...], grown: dict[str, dict[str, int]], starved: int) -> str:
    if not resets:
        device = next(iter(grown), "")
        if device:
            return f"{device}: its driver counted {sum(grown[device].values()):,} more while we looked; the log does not say why"
        return f"the driver suspected a starved poll {starved:,} times since it was loaded"
    last = resets[-1]
    reason, count = Counter(reset.reason for reset in resets).most_common(1)[0]
    where = f"queue {last.queue} of {last.device}" if last.queue is not None else last.device
    core = f", polled on CPU {last.napi_cpu}" if last.napi_cpu is not None else ""
    late = f", which did not run for {last.since_napi_seconds:.1f} s" if last.since_napi_seconds and core else ""
    times = "once" if len(resets) == 1 else f"{len(resets):,} times"
    most = "" if count == len(resets) else f" ({count:,} of them)"
    which = "" if len(resets) == 1 else "the last time "
    return f"{times} in the last day, {_WORDS[reason]}{most}: {which}{where}{core}{late}"


def _evidence_of_log(log: KernelLog | Gap, resets: tuple[NicReset, ...]) -> list[Evidence]:
    if isinstance(log, Gap):
        return []
    source = f"{log.source}, lines of user space believed" if log.believes_users else str(log.source)
    found = [Evidence("nic_resets", len(resets), "resets", source, log.until)]
    for reset in resets[-5:]:
        name = f"nic_reset[{reset.device}]"
        found.append(Evidence(f"{name}.reason", str(reset.reason), "", source, reset.at))
        numbers = (
            ("queue", reset.queue, ""),
            ("napi_cpu", reset.napi_cpu, ""),
            ("since_napi", reset.since_napi_seconds, "seconds"),
        )
        found += [
            Evidence(f"{name}.{what}", value, unit, source, reset.at)
            for what, value, unit in numbers
            if value is not None
        ]
    return found


def _evidence_of_counters(counters: NicCounters | Gap, grown: dict[str, dict[str, int]]) -> list[Evidence]:
    if isinstance(counters, Gap):
        return []
    found = [
        Evidence(f"{device}.{name}.grown", more, "in the window", "driver", counters.at)
        for device, names in grown.items()
        for name, more in names.items()
    ]
    for device in counters.last:
        found += [
            Evidence(f"{device.device}.{name}", value, "since the driver was loaded", "ethtool", counters.at)
            for name, value in device.counters.items()
            if value
        ]
    return found


_WORDS = {
    ResetReason.POLL_STARVATION: "because its poll was starved of its core",
    ResetReason.MISSING_COMPLETIONS: "because completions were missing",
    ResetReason.TRANSMIT_TIMEOUT: "because a transmit queue stalled",
    ResetReason.KEEP_ALIVE: "because the card's keep-alive was missing",
    ResetReason.ADMIN_QUEUE: "because its admin queue stopped",
    ResetReason.MISSING_INTERRUPT: "because interrupts were missing",
    ResetReason.OTHER: "for a reason that the driver did not give",
}
