# SPDX-License-Identifier: Apache-2.0
"""Reclaim that walks over zombies: long on a core for hardly a page. Every task under the same parent's limit pays for it."""

from __future__ import annotations

from zombiescope.analysis.zombie_cost import derive_payer, is_walk
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimSeen

ID = "costly-reclaim-walk"
TITLE = "Reclaim walks over zombies"
_SOURCE = "bpf"


def judge_costly_reclaim_walk(case: Case) -> Finding:
    seen, population = case.reclaim, case.last.scan.population
    if isinstance(seen, Gap):
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.MECHANISM, TITLE, seen.reason, ())
    known = 0 if isinstance(population, Gap) else population.zombies
    walks = [kind for kind in seen.kinds if is_walk(kind, known)]
    at = case.last.snapshot.taken_at
    if not walks:
        return Finding(ID, Verdict.ABSENT, Severity.OK, Role.MECHANISM, TITLE, _calm(seen), _evidence(seen, at))
    if isinstance(population, Gap):
        why = f"{_words(walks[0])}; whether zombies are what it walks over is not known: {population.reason}"
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.MECHANISM, TITLE, why, _evidence(seen, at))
    if population.zombies < case.thresholds.reclaim_walk_least_zombies:
        why = f"{_words(walks[0])}, but {population.zombies:,} zombies are too few to be what it walks over"
        return Finding(ID, Verdict.ABSENT, Severity.OK, Role.MECHANISM, TITLE, why, _evidence(seen, at))
    worst = max(walks, key=lambda kind: kind.longest_seconds)
    severity = case.thresholds.of_reclaim_pass(worst.longest_seconds)
    payer = Evidence("pays_for_zombies", str(derive_payer(case.first.snapshot.sweep, seen, known)), "", "behaviour", at)
    summary = f"{_words(worst)}, over {population.zombies:,} zombies"
    return Finding(ID, Verdict.PRESENT, severity, Role.MECHANISM, TITLE, summary, (*_evidence(seen, at), payer))


def _words(calls: ReclaimCalls) -> str:
    times = "once" if calls.calls == 1 else f"{calls.calls:,} times"
    return (
        f"reclaim ({calls.kind}) ran {times}, {_each(calls.mean_seconds)} each (longest {calls.longest_seconds:.2f} s), "
        f"and gave back {calls.pages:,} pages"
    )


def _each(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.0f} ms"


def _calm(seen: ReclaimSeen) -> str:
    if not seen.calls:
        return f"not seen in {seen.seconds:,.0f} s: no task had to reclaim"
    worst = seen.worst
    assert worst is not None
    return (
        f"not seen in {seen.seconds:,.0f} s: reclaim ran {seen.calls:,} times, at most {worst.longest_seconds * 1e3:,.1f} ms, "
        f"and gave back {sum(kind.pages for kind in seen.kinds):,} pages"
    )


def _evidence(seen: ReclaimSeen, at: float) -> tuple[Evidence, ...]:
    found = [Evidence("watched", round(seen.seconds, 1), "seconds", _SOURCE, at)]
    for kind in seen.kinds:
        if not kind.calls:
            continue
        name = f"reclaim[{kind.kind}]"
        found += [
            Evidence(f"{name}.calls", kind.calls, "calls", _SOURCE, at),
            Evidence(f"{name}.fruitless", kind.fruitless, "calls", _SOURCE, at),
            Evidence(f"{name}.pages", kind.pages, "pages", _SOURCE, at),
            Evidence(f"{name}.on_a_core", round(kind.cpu_seconds, 3), "seconds", _SOURCE, at),
            Evidence(f"{name}.longest", round(kind.longest_seconds, 4), "seconds", _SOURCE, kind.longest_at or at),
        ]
    return tuple(found)
