# SPDX-License-Identifier: Apache-2.0
"""Reclaim that walks over zombies: its time goes into looking into the dead, not into pages. Every task under the same parent's
limit pays for it. Judged by what it does for its time (visits and pages for a call, share of a core), never by milliseconds."""

from zombiescope.analysis.zombie_cost import ReclaimWork, Walking, derive_payer
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.reclaim_work import DECIDES, harmful_walk, span, told, works_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimSeen

FINDING = Declaration(
    id="costly-reclaim-walk",
    title="Reclaim walks over zombies",
    role=Role.MECHANISM,
    explained_by=("zombie-population",),
    thing="reclaim that walks over zombies",
    link="every reclaim walks over the zombies",
    follows="each reclaim walks over them",
    what="Reclaim spends its time visiting dead cgroups instead of finding memory.",
    matters="Every task below the same limit waits for it.",
    do="Free the zombies below the parent that the finding names, and stop who makes them.",
    judged_by=("walk_share", "walk_critical_share", "reclaim_pass_critical_seconds", "reclaim_walk_least_zombies"),
    next="zombiescope plan",
    proven_by="reclaim-walk",
)
_SOURCE = "bpf"


def judge(case: Case) -> Finding:
    seen, population = case.reclaim, case.last.scan.population
    if isinstance(seen, Gap):
        return FINDING.unknown(seen.reason)
    at = case.last.snapshot.taken_at
    if isinstance(population, Gap):
        if not seen.calls:
            return FINDING.absent(_calm(seen), _evidence(seen, (), at))
        why = f"{_ran(seen)}; whether zombies are what it walks over is not known: {population.reason}"
        return FINDING.unknown(why, _evidence(seen, (), at))
    works = works_of(case)
    assert not isinstance(works, Gap)
    evidence = _evidence(seen, works, at)
    found = harmful_walk(case, Walking.YES)
    if found:
        work, severity = found
        payer = Evidence("pays_for_zombies", str(derive_payer(case.first.snapshot.sweep, works)), "", "behaviour", at)
        return FINDING.present(severity, _words(seen, work), (*evidence, payer))
    undecided = harmful_walk(case, Walking.MAYBE)
    if undecided:
        why = f"{told(seen, undecided[0])}, beside {population.zombies:,} zombies: it may walk over them; {DECIDES}"
        return FINDING.unknown(why, evidence)
    return FINDING.absent(_calm(seen, works), evidence)


def _words(seen: ReclaimSeen, work: ReclaimWork) -> str:
    where = " below the limit that is reached" if work.is_placed else ""
    text = (
        f"{told(seen, work)}, over {work.zombies:,} zombies{where}: {span(work.visit_seconds)} per zombie and call, for "
        f"{work.pages_per_call:,.0f} pages"
    )
    return f"{text}; {work.slowdown:.1f} times as long per page as where there are none" if work.slowdown else text


def _ran(seen: ReclaimSeen) -> str:
    worst = seen.worst
    assert worst is not None
    pages = sum(kind.pages for kind in seen.kinds)
    return f"reclaim ran {seen.calls:,} times, at most {span(worst.longest_seconds)}, and gave back {pages:,} pages"


def _calm(seen: ReclaimSeen, works: tuple[ReclaimWork, ...] = ()) -> str:
    if not seen.calls:
        return f"not seen in {seen.seconds:,.0f} s: no task had to reclaim"
    text = f"not seen in {seen.seconds:,.0f} s: {_ran(seen)}"
    if any(work.walking is not Walking.NO for work in works):
        return f"{text}; it may walk over zombies, and took too little of a core to matter"
    if works and all(work.is_placed and work.are_few for work in works):
        text += "; whoever reclaimed has no zombies, or hardly any, to walk over below its limit"
    return text


def _evidence(seen: ReclaimSeen, works: tuple[ReclaimWork, ...], at: float) -> tuple[Evidence, ...]:
    found = [Evidence("watched", round(seen.seconds, 1), "seconds", _SOURCE, at)]
    for kind in (kind for kind in seen.kinds if kind.calls):
        name = f"reclaim[{kind.kind}]"
        found += [
            Evidence(f"{name}.calls", kind.calls, "calls", _SOURCE, at),
            Evidence(f"{name}.fruitless", kind.fruitless, "calls", _SOURCE, at),
            Evidence(f"{name}.pages", kind.pages, "pages", _SOURCE, at),
            Evidence(f"{name}.on_a_core", round(kind.cpu_seconds, 3), "seconds", _SOURCE, at),
            Evidence(f"{name}.longest", round(kind.longest_seconds, 4), "seconds", _SOURCE, kind.longest_at or at),
        ]
    for work in works:
        name = f"reclaim[{work.kind}]" + (f".beside[{work.zombies}]" if work.is_placed else "")
        if work.zombies:
            value = round(work.visit_seconds * 1e9, 1)
            found.append(Evidence(f"{name}.for_each_zombie", value, "nanoseconds per call", _SOURCE, at))
        if work.pages_per_second is not None:
            value = round(work.pages_per_second)
            found.append(Evidence(f"{name}.pages_per_second", value, "pages per second on a core", _SOURCE, at))
    return tuple(found)
