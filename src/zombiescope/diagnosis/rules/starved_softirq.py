# SPDX-License-Identifier: Apache-2.0
"""Softirqs that waited for their core: by the kernel's own stamps where BPF is allowed. Where it is not, ksoftirqd's wait is a
suspicion, for kernels since 6.5 run softirqs at the end of an interrupt while ksoftirqd still stands in line behind busy programs:
it takes packets dropped meanwhile to call it starvation."""

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import CoreLatency, PollTail, SoftirqSeen, WaitTimes

FINDING = Declaration(
    id="starved-softirq",
    title="Softirqs were starved of their core",
    role=Role.SYMPTOM,
    explained_by=("saturated-core", "real-time-hog", "cpu-steal"),
    thing="network work that waits for its core",
    link="network work waits for its core",
    follows="network work waits",
    what="Network and timer work of the kernel (softirqs) waited for its core.",
    matters="Packets are late or dropped, and a network card whose queue stands still is reset.",
    do="Find what held the core (zombiescope cores) and treat that.",
    judged_by=("softirq_wait_warning_seconds", "softirq_wait_critical_seconds"),
    next="zombiescope cores",
    proven_by="incident",
    is_riddle=True,
)
_BPF, _HIST, _FILES = "bpf", "hist triggers", "/proc/PID/schedstat"
_LEAST_MINUTES = 2
"""Of the last ten: one bad minute that is over may be a boot or a deployment."""


def judge(case: Case) -> Finding:
    seen = case.softirq
    if isinstance(seen, Gap):
        return FINDING.unknown(seen.reason)
    if seen.tail is not None:
        return _followed(case, seen, seen.tail)
    wait, summary = _longest(seen)
    severity = case.thresholds.of_softirq_wait(wait)
    if severity is not Severity.OK and isinstance(seen.latencies, Gap):
        return _suspected(seen, summary, seen.latencies)
    if severity is not Severity.OK:
        return FINDING.present(severity, summary, _evidence(seen))
    if seen.is_least:
        told = f"{summary} as far as hist triggers tell, which know the last raise alone: it may have been longer"
        if seen.refused:
            told += f" (BPF, which knows: {seen.refused})"
        return FINDING.unknown(told, _evidence(seen))
    if isinstance(seen.latencies, Gap) or isinstance(seen.waited_seconds, Gap):
        gap = seen.latencies if isinstance(seen.latencies, Gap) else seen.waited_seconds
        assert isinstance(gap, Gap)
        return FINDING.unknown(f"{summary}; more is not known: {gap.reason}", _evidence(seen))
    return FINDING.absent(f"not seen in {seen.seconds:,.0f} s: {summary}", _evidence(seen))


def _followed(case: Case, seen: SoftirqSeen, tail: PollTail) -> Finding:
    """All the time: by what one packet in a thousand waited, so that a single late softirq is no alarm."""
    limit = case.thresholds.softirq_wait_warning_seconds
    told = f"one network packet in a thousand waited {_time(tail.p999_seconds)} or more for its core in the last minute"
    if tail.is_growing and tail.p999_seconds >= limit:
        told += f", and it grows: {_time(tail.earlier_seconds or 0.0)} in the minutes before"
    elif tail.minutes_above:
        told += f"; above {_time(limit)} in {tail.minutes_above} of the last ten minutes"
    if tail.p999_seconds < limit and tail.minutes_above < _LEAST_MINUTES:
        return FINDING.absent(told, _evidence(seen))
    wait, longest = _longest(seen)
    severity = case.thresholds.of_softirq_wait(max(tail.p999_seconds, limit))
    return FINDING.present(severity, f"{told}; {longest}" if wait >= limit else told, _evidence(seen))


def _suspected(seen: SoftirqSeen, summary: str, gap: Gap) -> Finding:
    """By ksoftirqd alone: a warning at most, and only with a second witness."""
    dropped = seen.longest.dropped if seen.longest else None
    if dropped:
        some = "1 packet was" if dropped == 1 else f"{dropped:,} packets were"
        return FINDING.present(Severity.WARNING, f"{summary}, and {some} dropped meanwhile", _evidence(seen))
    why = f"{summary}; whether softirqs waited with it is not known: {gap.reason}"
    return FINDING.unknown(why, _evidence(seen))


def _longest(seen: SoftirqSeen) -> tuple[float, str]:
    """The longest wait of a softirq, in seconds and in words. Where only ksoftirqd's wait is known, that."""
    found: list[tuple[float, str]] = []
    if not isinstance(seen.latencies, Gap):
        for core in seen.latencies:
            network = core.network.longest_seconds >= core.others.longest_seconds
            what = ("a network softirq" if seen.tail is None else "a poll of the network") if network else "a softirq"
            found.append((core.worst.longest_seconds, _words(what, core, core.worst)))
    elif seen.longest is not None and seen.longest.slices:
        mean = seen.longest.seconds / seen.longest.slices
        text = f"ksoftirqd of core {seen.longest.core} waited {_time(mean)} each time, {_time(seen.longest.seconds)} in all"
        found.append((mean, text))
    return max(found, default=(0.0, "no softirq waited"))


def _words(what: str, core: CoreLatency, times: WaitTimes) -> str:
    until = " and waited still" if times.is_open else ""
    return f"{what} waited {_time(times.longest_seconds)} for core {core.core}{until}"


def _time(seconds: float) -> str:
    return (
        f"{seconds:.2f} s"
        if seconds >= 1
        else f"{seconds * 1e3:.1f} ms"
        if seconds >= 1e-3
        else f"{seconds * 1e6:.0f} us"
    )


def _evidence(seen: SoftirqSeen) -> tuple[Evidence, ...]:
    end = seen.began_at + seen.seconds
    found = [Evidence("watched", round(seen.seconds, 1), "seconds", _FILES, end)]
    if not isinstance(seen.waited_seconds, Gap):
        found.append(Evidence("ksoftirqd.waited", round(seen.waited_seconds, 4), "seconds, all cores", _FILES, end))
    counts = (("softnet.squeezed", seen.squeezed), ("softnet.dropped", seen.dropped))
    found += [
        Evidence(name, value, "in the window", "/proc/net/softnet_stat", end)
        for name, value in counts
        if value is not None
    ]
    if seen.tail is not None:
        found += [
            Evidence(
                "network.wait.p999", round(seen.tail.p999_seconds, 4), "seconds, last minute, worst core", _BPF, end
            ),
            Evidence("network.stamped", round(seen.tail.stamped_share, 3), "share of the time", _BPF, end),
        ]
    if isinstance(seen.latencies, Gap):
        return tuple(found)
    source = _HIST if seen.is_least else _BPF
    for core in sorted(seen.latencies, key=lambda core: -core.worst.longest_seconds)[:5]:
        kinds = (("network", core.network), ("others", core.others), ("poll", core.poll), ("ksoftirqd", core.queue))
        found += [
            Evidence(
                f"core[{core.core}].{name}.longest",
                round(times.longest_seconds, 6),
                "seconds",
                source,
                times.longest_at or end,
            )
            for name, times in kinds
            if times.longest_at is not None or (seen.is_least and times.longest_seconds)
        ]
    return tuple(found)
