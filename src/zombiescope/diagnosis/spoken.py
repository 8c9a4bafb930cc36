# SPDX-License-Identifier: Apache-2.0
"""The verdict in one sentence that a tired person understands: who does it, what it left, what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.chain import LOOP_KINDS, PIN_RULES, is_riddle, leaking
from zombiescope.diagnosis.finding import Finding
from zombiescope.diagnosis.loops import Suspect, suspects_of
from zombiescope.diagnosis.pins import makers_of
from zombiescope.diagnosis.stock import stock_severity
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap

_DAY, _HOUR, _MINUTE = 86400.0, 3600.0, 60.0
_FOLLOWS = {
    "costly-sweep": "reading all statistics has become slow",
    "costly-reclaim-walk": "each reclaim walks over them",
    "saturated-core": "a core is held in the kernel",
    "starved-softirq": "network work waits",
    "nic-reset": "the network card was reset",
    "reclaim-pressure": "tasks wait for memory",
}


def say(case: Case, chain: Sequence[str], present: Mapping[str, Finding], others: Sequence[str]) -> str:
    """`chain`: from what hurts to its root; `others`: the roots of what else is wrong."""
    root = chain[-1]
    text = _of_root(case, root, present)
    follows = [_FOLLOWS[each] for each in reversed(chain[:-1]) if each in _FOLLOWS]
    if follows:
        text += f"; {_and(follows)}"
    also = [present[other].title[0].lower() + present[other].title[1:] for other in others]
    return f"{text}. Besides: {_and(also)}" if also else text


def maker_of(case: Case, root: str) -> str:
    """Who is to be named for a root: the unit that loops or nobody needs, or whose zombies are held; else nobody."""
    if root in LOOP_KINDS:
        return (leaking(case, root) or suspects_of(case, LOOP_KINDS[root]))[0].maker
    if root in PIN_RULES and not isinstance(case.remains, Gap):
        return next((maker for maker, _ in makers_of(PIN_RULES[root], case.remains)), "")
    if root == "unneeded-agent" and not isinstance(case.services, Gap):
        return next((f"unit:{unit.name}" for unit in case.services.unneeded), "")
    return ""


def _of_root(case: Case, root: str, present: Mapping[str, Finding]) -> str:
    if root in LOOP_KINDS:
        return _loop(case, root)
    if root in PIN_RULES:
        return _pinned(case, root)
    if root == "unneeded-agent":
        return f"no harm is done yet, but an agent starts here that has nothing to serve: {present[root].summary}"
    if root in ("zombie-population", "zombie-growth"):
        return f"zombies: {present[root].summary}; what holds them could not be seen"
    if root == "visible-leak":
        return f"directories never removed: {present[root].summary}; {_not_zombies(case)}"
    text = f"{present[root].title[0].lower()}{present[root].title[1:]}: {present[root].summary}"
    if is_riddle(present[root]):
        return f"{text}; what caused it was not seen"
    return f"{text}; {_not_zombies(case)}"


def _loop(case: Case, root: str) -> str:
    guilty = leaking(case, root)
    suspects = guilty or suspects_of(case, LOOP_KINDS[root])
    first = suspects[0]
    how = _how(first)
    if not guilty:
        return f"`{first.loop.name}` {how} and leaves nothing behind: a crash loop, not a leak; {_not_zombies(case)}"
    text = f"`{first.loop.name}` {how} and has left {first.zombies:,} dead memory cgroups{_span(case, first)}"
    if len(guilty) > 1:
        second = guilty[1]
        text += f", and `{second.loop.name}` {second.zombies:,}"
    return text


def _how(suspect: Suspect) -> str:
    loop = suspect.loop
    if loop.kind == "unit":
        every = f" every {spell(loop.every_seconds)}" if loop.every_seconds else " over and over"
        return f"restarts{every}"
    if loop.kind == "container":
        return "is restarted by its runtime over and over"
    return "starts one child after another inside itself, where no restart is counted,"


def _span(case: Case, suspect: Suspect) -> str:
    born = suspect.left.first_born_at if suspect.left else None
    if born is None or isinstance(case.remains, Gap):
        return ""
    return f" in {spell(max(case.remains.at - born, 0.0))}"


def _pinned(case: Case, root: str) -> str:
    assert not isinstance(case.remains, Gap)
    rule, remains = PIN_RULES[root], case.remains
    held, makers = remains.with_pins(rule.kinds), makers_of(PIN_RULES[root], case.remains)
    whose = f", made by {makers[0][0]}" if makers else ""
    return (
        f"zombies: {remains.zombies:,} dead memory cgroups are still in the kernel{whose}; {held:,} of them are held by "
        f"{rule.words}; nothing that still loops was seen to make them"
    )


def _not_zombies(case: Case) -> str:
    population = case.last.scan.population
    if isinstance(population, Gap):
        return "zombies could not be counted"
    if stock_severity(case, population) is Severity.OK:
        return f"zombies are not the cause ({population.zombies:,})"
    return f"the {population.zombies:,} zombies beside it were not seen to cause it"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def spell(seconds: float) -> str:
    """A length of time as one says it: 10 s, 45 min, 8 days."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.3g} s"
    for name, size in (("min", _MINUTE), ("hours", _HOUR), ("days", _DAY)):
        if seconds < 2 * {"min": _HOUR, "hours": _DAY, "days": float("inf")}[name]:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds / _DAY:.0f} days"
