# SPDX-License-Identifier: Apache-2.0
"""Links what was found: symptom to mechanism to origin. A cause is named only where it is present and the facts fit it.

Each finding declares its candidates in the order in which they are believed; what holds most zombies comes first.
"""

from collections.abc import Mapping, Sequence

from zombiescope.analysis.maker import maker_said
from zombiescope.analysis.zombie_cost import Walking
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.catalogue import FINDINGS
from zombiescope.diagnosis.finding import Declaration, Finding, Role, Verdict
from zombiescope.diagnosis.loops import Suspect, has_lived_them, suspects_of
from zombiescope.diagnosis.reclaim_work import DECIDES, harmful_walk
from zombiescope.diagnosis.rules import memory_shortage
from zombiescope.diagnosis.rules.pinned import makers_of
from zombiescope.diagnosis.stock import BY_RHYTHM, growing_of, makers_that_grow, stock_severity
from zombiescope.diagnosis.thresholds import SEVERITIES, Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import MakerRemains

PIN_RULES: Mapping[str, Declaration] = {name: each for name, each in FINDINGS.items() if each.pins}
LOOP_KINDS: Mapping[str, frozenset[str]] = {name: each.loops for name, each in FINDINGS.items() if each.loops}
_ROLES = (Role.SYMPTOM, Role.MECHANISM, Role.ORIGIN)


def link(case: Case, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    present = {finding.id: finding for finding in findings if finding.verdict is Verdict.PRESENT}
    return tuple(
        finding._replace(explained_by=_causes(case, finding.id, present)) if finding.id in present else finding
        for finding in findings
    )


def chains(findings: tuple[Finding, ...]) -> tuple[tuple[str, ...], ...]:
    """From each thing that nothing else comes from, down to its root: the worst first, what hurts before what causes it."""
    present = {finding.id: finding for finding in findings if finding.verdict is Verdict.PRESENT}
    effects = {cause for finding in present.values() for cause in finding.explained_by}
    found = [_down(name, present) for name in present if name not in effects]
    # A symptom that nothing explains is told last: it names no origin.
    return tuple(sorted(found, key=lambda chain: (FINDINGS[chain[-1]].is_riddle, *_rank(chain, present))))


def _rank(chain: Sequence[str], present: Mapping[str, Finding]) -> tuple[int, float]:
    head, root = present[chain[0]], chain[-1]
    role = float(_ROLES.index(head.role))
    if FINDINGS[root].takes_cpu and head.role is Role.ORIGIN:
        role = _ROLES.index(Role.MECHANISM) + 0.3
    elif head.id == "zombie-growth" or (head.id == "zombie-population" and (root in PIN_RULES or root == head.id)):
        role += 0.6  # growth is in the first line in any case
    return -SEVERITIES.index(head.severity), role


def _down(head: str, present: Mapping[str, Finding]) -> tuple[str, ...]:
    path = [head]
    while causes := [cause for cause in present[path[-1]].explained_by if cause not in path]:
        path.append(causes[0])
    return tuple(path)


def leaking(case: Case, finding: str) -> list[Suspect]:
    """Of the loops behind a finding, those that left something, or must have; most first."""
    suspects = suspects_of(case, LOOP_KINDS[finding])
    return [each for each in suspects if each.is_leaking(case.thresholds) or each.grown or has_lived_them(case, each)]


def rivals(case: Case, finding: str) -> list[Suspect]:
    """Without a walk: several loops that each were restarted as often as there are zombies, and nothing tells which left them."""
    found = leaking(case, finding) if isinstance(case.remains, Gap) else []
    return found if len(found) > 1 and not any(each.grown for each in found) else []


def _causes(case: Case, effect: str, present: Mapping[str, Finding]) -> tuple[str, ...]:
    found = [
        cause for cause in FINDINGS[effect].explained_by if cause in present and _fits(case, effect, cause, present)
    ]
    if effect == "zombie-population" and not isinstance(case.remains, Gap):
        remains = case.remains
        pins = [cause for cause in found if cause in PIN_RULES]
        found = sorted(pins, key=lambda cause: -remains.with_pins(PIN_RULES[cause].pins)) or found
    return tuple(found)


def _fits(case: Case, effect: str, cause: str, present: Mapping[str, Finding]) -> bool:
    if cause in LOOP_KINDS:
        return _loop_fits(case, effect, cause)
    if cause == "zombie-growth":
        return _growth_fits(case, effect)
    if cause == "cpu-steal":  # it explains what waits only where no core was held by the kernel itself
        return "saturated-core" not in present or _is_stolen_stretch(case)
    return effect != "saturated-core" or not _is_stolen_stretch(case)


def _loop_fits(case: Case, effect: str, cause: str) -> bool:
    """It left zombies of this kind, a fair share of all; who merely loops beside them is innocent."""
    if isinstance(case.remains, Gap):
        return bool(leaking(case, cause))
    for suspect in leaking(case, cause):
        if effect == "zombie-growth" and suspect.grown:
            return True
        if suspect.share < case.thresholds.blame_share or suspect.left is None:
            continue
        rule = PIN_RULES.get(effect)
        if rule is None or any(suspect.left.by_pin.get(kind, 0) for kind in rule.pins):
            return True
    return False


def _growth_fits(case: Case, effect: str) -> bool:
    """Who makes more of them now left a fair share of those that are there, held as these are."""
    now = growing_of(case)
    if isinstance(case.remains, Gap):
        return now is not None and bool(now.makers)
    rule = PIN_RULES.get(effect)
    held = case.remains.with_pins(rule.pins) if rule else case.remains.zombies
    mine = [_held(each, rule) for each in map(case.remains.of, makers_that_grow(case)) if each is not None]
    return any(count and count >= case.thresholds.blame_share * held for count in mine)


def _held(left: MakerRemains, rule: Declaration | None) -> int:
    return left.zombies if rule is None else sum(left.by_pin.get(kind, 0) for kind in rule.pins)


def _is_stolen_stretch(case: Case) -> bool:
    longest = None if isinstance(case.cores, Gap) else case.cores.longest
    return longest is not None and longest.mode == "steal"


_DAY, _HOUR, _MINUTE, _ROUND_SECONDS = 86400.0, 3600.0, 60.0, 9.5


def say(case: Case, chain: Sequence[str], present: Mapping[str, Finding], others: Sequence[str]) -> str:
    """`chain`: from what hurts to its root; `others`: the roots of what else is wrong."""
    root = chain[-1]
    text = _of_root(case, root, present)
    if "zombie-growth" in present and root != "zombie-growth" and not _is_told(case, root):
        text += f"; zombies are growing: {present['zombie-growth'].summary}"
        others = [other for other in others if other != "zombie-growth"]
    undecided = _undecided(case) if "reclaim-pressure" in present else ""
    if undecided and root != "reclaim-pressure":
        text += f"; {undecided}"
        others = [other for other in others if other != "reclaim-pressure"]
    follows = [FINDINGS[each].follows for each in reversed(chain[:-1]) if FINDINGS[each].follows]
    if follows:
        text += f"; {_and(follows)}"
    also = [_small(present[other].title) for other in others]
    return f"{text}. Besides: {_and(also)}" if also else text


def maker_of(case: Case, root: str) -> str:
    """Who is to be named for a root: the unit that loops or nobody needs, or whose zombies are held; else nobody."""
    if root in LOOP_KINDS:
        return "" if rivals(case, root) else (leaking(case, root) or suspects_of(case, LOOP_KINDS[root]))[0].maker
    if root in PIN_RULES and not isinstance(case.remains, Gap):
        return next((maker for maker, _ in makers_of(PIN_RULES[root], case.remains)), "")
    if root in ("zombie-population", "zombie-growth"):
        return next(iter(makers_that_grow(case)), "")
    if root == "unneeded-agent" and not isinstance(case.services, Gap):
        return next((f"unit:{unit.name}" for unit in case.services.unneeded), "")
    return ""


def _of_root(case: Case, root: str, present: Mapping[str, Finding]) -> str:
    if root in LOOP_KINDS:
        return _loop(case, root)
    if root in PIN_RULES:
        return _pinned(case, root)
    if root == "zombie-growth":
        return _growing(case, present)
    found = present[root]
    title = _small(found.title)
    if FINDINGS[root].is_riddle:
        undecided = _undecided(case) if root == "reclaim-pressure" else ""
        return f"{title}: {found.summary}; {undecided or 'what caused it was not seen'}"
    return FINDINGS[root].spoken.format(title=title, summary=found.summary, not_zombies=_not_zombies(case))


def _small(title: str) -> str:
    return title[0].lower() + title[1:]


def _loop(case: Case, root: str) -> str:
    guilty = leaking(case, root)
    first = (guilty or suspects_of(case, LOOP_KINDS[root]))[0]
    how = _how(first)
    if not guilty:
        return f"`{first.name}` {how} and {_little(case, first)}: a crash loop, not a leak; {_not_zombies(case)}"
    if isinstance(case.remains, Gap):
        several = rivals(case, root)
        return _one_of(case, several) if several else f"`{first.name}` {how}{_unseen(case, first)}"
    text = f"`{first.name}` {how} and has left {first.zombies or first.grown:,} dead memory cgroups{_span(case, first)}"
    if first.grown and first.zombies:
        text += f", {first.grown:,} of them while we looked"
    if len(guilty) > 1:
        second = guilty[1]
        text += f", and `{second.name}` {second.zombies or second.grown:,}"
    return text


def _little(case: Case, suspect: Suspect) -> str:
    if isinstance(case.remains, Gap):
        return "what it leaves could not be seen"
    return f"has left {suspect.zombies:,} zombies, too few to matter" if suspect.zombies else "leaves nothing behind"


def _one_of(case: Case, several: Sequence[Suspect]) -> str:
    """Nobody is blamed for being the louder."""
    assert isinstance(case.remains, Gap)
    population = case.last.scan.population
    stock = "the" if isinstance(population, Gap) else f"the {population.zombies:,}"
    units = [f"`{each.name}` (restarted {each.loop.restarts:,} times)" for each in several]
    return (
        f"one of {_and(units)} has most likely left {stock} dead memory cgroups that are in the kernel: each was restarted about "
        f"as often; which one could not be seen (the zombies themselves could not be seen: {case.remains.reason})"
    )


def _unseen(case: Case, suspect: Suspect) -> str:
    """Without a walk: what makes it the maker, and how sure that is."""
    assert isinstance(case.remains, Gap)
    population = case.last.scan.population
    stock = "" if isinstance(population, Gap) else f"; {population.zombies:,} dead memory cgroups are in the kernel"
    now = growing_of(case)
    if suspect.grown and now and now.source != BY_RHYTHM:
        return f" and left {suspect.grown:,} dead memory cgroups while we looked{stock}"
    if suspect.grown:
        then = f"their number rose by {suspect.grown:,} while we looked, about one for each restart"
    elif isinstance(case.flows, Gap):
        then = "whether the kernel releases its dead could not be watched"
    else:
        then = "the kernel was not seen to release any of its dead"
    return (
        f"{stock}, and most likely they are its own: it was restarted {suspect.loop.restarts:,} times, and {then} (the zombies "
        f"themselves could not be seen: {case.remains.reason})"
    )


def _growing(case: Case, present: Mapping[str, Finding]) -> str:
    """Who makes more of them now, and what there is already."""
    text = f"zombies are growing: {present['zombie-growth'].summary}"
    if "zombie-population" not in present:
        return text
    stock = present["zombie-population"].summary
    if isinstance(case.remains, Gap):
        return f"{text}; {stock}; what holds them could not be seen: {case.remains.reason}"
    pins = [rule for name, rule in PIN_RULES.items() if name in present]
    held = max(pins, key=lambda rule: case.remains.with_pins(rule.pins), default=None)  # type: ignore[union-attr]
    if held is None:
        return f"{text}; {stock}"
    return (
        f"{text}; {stock}; {_them(case.remains.with_pins(held.pins), case.remains.zombies)} are held by {held.held_by}"
    )


def _undecided(case: Case) -> str:
    """Reclaim that is expensive for one of two causes, which nothing here tells apart: both, and what would."""
    if harmful_walk(case, Walking.YES):
        return ""
    shortage = memory_shortage.judge(case)
    return shortage.summary if shortage.verdict is Verdict.UNKNOWN and DECIDES in shortage.summary else ""


def _is_told(case: Case, root: str) -> bool:
    """A loop that is named with what it left while we looked: growth needs no words of its own."""
    if root not in LOOP_KINDS:
        return False
    now = growing_of(case)
    least = 1 if now and now.source == BY_RHYTHM else case.thresholds.growth_least
    return any(each.grown >= least for each in leaking(case, root))


def _how(suspect: Suspect) -> str:
    loop = suspect.loop
    if loop.kind == "unit":
        return f"restarts every {spell(loop.every_seconds)}" if loop.every_seconds else "restarts over and over"
    if loop.kind == "pod":
        some = f"{suspect.instances:,} containers" if suspect.instances > 1 else ""
        details = "; ".join(filter(None, (some, loop.ended)))
        return f"is restarted over and over by kubelet{f' ({details})' if details else ''}"
    if loop.kind == "container":
        return "is restarted by its runtime over and over"
    return "starts one child after another inside itself, where no restart is counted,"


def _span(case: Case, suspect: Suspect) -> str:
    born = suspect.left.first_born_at if suspect.left else None
    return "" if born is None or isinstance(case.remains, Gap) else f" in {spell(max(case.remains.at - born, 0.0))}"


def _pinned(case: Case, root: str) -> str:
    assert not isinstance(case.remains, Gap)
    rule, remains = PIN_RULES[root], case.remains
    held, makers = remains.with_pins(rule.pins), makers_of(PIN_RULES[root], case.remains)
    whose = f", made by {maker_said(makers[0][0])}" if makers else ""
    still = "" if growing_of(case) or makers_that_grow(case) else "; nothing was seen to make more of them"
    return (
        f"zombies: {remains.zombies:,} dead memory cgroups are still in the kernel{whose}; {_them(held, remains.zombies)} are held "
        f"by {rule.held_by}{still}"
    )


def _them(part: int, whole: int) -> str:
    return "all of them" if part == whole > 1 else f"{part:,} of them"


def _not_zombies(case: Case) -> str:
    population = case.last.scan.population
    if isinstance(population, Gap):
        return "zombies could not be counted"
    if stock_severity(case, population) is Severity.OK:
        return (
            f"zombies are not the cause ({f'only {population.zombies:,}' if population.zombies else 'there are none'})"
        )
    return f"the {population.zombies:,} zombies beside it were not seen to cause it"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def spell(seconds: float) -> str:
    """A length of time as one says it: 10 s, 45 min, 8 days."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s" if seconds >= _ROUND_SECONDS else f"{seconds:.2g} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} hours" if seconds < 2 * _DAY else f"{seconds / _DAY:.0f} days"
