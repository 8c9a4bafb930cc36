# SPDX-License-Identifier: Apache-2.0
"""One core without time but for the kernel, for seconds: what the average over all cores hides. A window that saw none says how
long it was; one that could not look says why."""

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.cores import Blamed, CoreMode, CoresSeen, Share, Stretch, shares_of
from zombiescope.facts.gap import Gap

FINDING = Declaration(
    id="saturated-core",
    title="A core saturated in the kernel",
    role=Role.SYMPTOM,
    explained_by=("costly-reclaim-walk", "costly-sweep", "oom-dumps", "real-time-hog", "cpu-steal", "reclaim-pressure"),
    thing="a core stuck in the kernel",
    link="one core is stuck in the kernel",
    follows="a core is stuck in the kernel",
    what="One core had no time for anything but the kernel, for seconds.",
    matters=(
        "The average over all cores hides it, but whatever had to run on that core waited: packets, timers, drivers."
    ),
    do="See who held it (zombiescope cores), and treat the finding that explains it.",
    judged_by=("saturated_warning_seconds", "saturated_critical_seconds"),
    next="zombiescope cores",
    proven_by="reclaim-walk",
    is_riddle=True,
)
_SOURCE, _SAMPLED = "/proc/stat", "perf_event_open"
_MOSTLY = 0.5
"""Of the time: a window of which most is unknown has not shown that nothing happened."""
_HELD_BY = {
    CoreMode.SYSTEM: "in the kernel",
    CoreMode.SOFTIRQ: "in softirqs",
    CoreMode.IRQ: "in interrupts",
    CoreMode.STEAL: "taken by the hypervisor",
}


def judge(case: Case) -> Finding:
    seen = case.cores
    if isinstance(seen, Gap):
        return FINDING.unknown(seen.reason)
    longest = seen.longest
    severity = case.thresholds.of_stretch(longest.seconds) if longest else Severity.OK
    if longest is None or severity is Severity.OK:
        summary = f"not seen in {seen.seconds:,.0f} s on {seen.cores:,} {_cores(seen.cores)}"
        shares = shares_of(seen)
        lost = 0.0 if isinstance(shares, Gap) else shares.lost
        if lost >= _MOSTLY:
            why = f"{summary}, but {lost:.0%} of that time is unaccounted for: neither busy nor idle"
            return FINDING.unknown(why, _evidence(seen))
        if longest is not None:
            summary += f" (longest {longest.seconds:.1f} s, on core {longest.core})"
        return FINDING.absent(summary, _evidence(seen))
    return FINDING.present(severity, _summary(seen, longest), _evidence(seen))


def _summary(seen: CoresSeen, longest: Stretch) -> str:
    least = "at least " if longest.is_cut else ""
    text = f"core {longest.core} was {least}{longest.seconds:.1f} s {_HELD_BY[longest.mode]} without a break"
    others = len(seen.stretches) - 1
    if others:
        held = len({stretch.core for stretch in seen.stretches})
        more = "stretch" if others == 1 else "stretches"
        text += f", and {others:,} more {more} on {held:,} {_cores(held)} in {seen.seconds:,.0f} s"
    blamed = _blamed(seen, longest)
    if blamed:
        text += f"; for {blamed.processes[0].name} ({blamed.processes[0].share:.0%}), {_first(blamed.causes)}"
    return text


def _blamed(seen: CoresSeen, stretch: Stretch) -> Blamed | None:
    found = None if isinstance(seen.blame, Gap) else seen.blame.of(stretch.core, stretch.begin)
    return found if found and found.samples else None


def _first(shares: tuple[Share, ...]) -> str:
    return f"{shares[0].name} {shares[0].share:.0%}"


def _cores(count: int) -> str:
    return "core" if count == 1 else "cores"


def _evidence(seen: CoresSeen) -> tuple[Evidence, ...]:
    end = seen.began_at + seen.seconds
    found = [
        Evidence("watched", round(seen.seconds, 1), "seconds", _SOURCE, end),
        Evidence("saturated", round(seen.saturated_seconds, 1), "seconds", _SOURCE, end),
    ]
    for stretch in sorted(seen.stretches, key=lambda each: -each.seconds)[:5]:
        name = f"core[{stretch.core}]"
        found += [
            Evidence(f"{name}.{stretch.mode}_seconds", round(stretch.seconds, 2), "seconds", _SOURCE, stretch.begin),
            Evidence(f"{name}.kernel_share", round(stretch.share, 2), "of the core", _SOURCE, stretch.begin),
        ]
        blamed = _blamed(seen, stretch)
        if blamed:
            told = (("process", blamed.processes), ("cause", blamed.causes), ("function", blamed.functions))
            found += [
                Evidence(f"{name}.{what}", _first(shares), "of its samples", _SAMPLED, stretch.begin)
                for what, shares in told
            ]
    return tuple(found)
