# SPDX-License-Identifier: Apache-2.0
"""A finding: what is judged, the verdict, and the evidence with its source and time. And its declaration: all that is said of it
whatever the verdict, in one place, next to its judge in `rules/`."""

from enum import StrEnum
from typing import NamedTuple

from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.remedies import Remedy


class Verdict(StrEnum):
    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Role(StrEnum):
    SYMPTOM = "symptom"
    MECHANISM = "mechanism"
    ORIGIN = "origin"


class Evidence(NamedTuple):
    fact: str
    value: float | str | None
    unit: str
    source: str
    at: float
    """Seconds since the epoch."""


class Finding(NamedTuple):
    id: str
    verdict: Verdict
    severity: Severity
    role: Role
    title: str
    summary: str
    evidence: tuple[Evidence, ...]
    explained_by: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()


class Declaration(NamedTuple):
    id: str
    title: str
    role: Role
    thing: str
    """As a thing that was, or could not be, ruled out."""
    link: str
    """As a link of the chain, from the cause to what hurts; {who} made it, {stock} is how many there are."""
    what: str
    """What it means, why it matters, what to do and what to type next: its page."""
    matters: str
    do: str
    next: str
    proven_by: str
    """A scenario of `tests/scenarios` in which it is there."""
    judged_by: tuple[str, ...] = ()
    """Thresholds."""
    explained_by: tuple[str, ...] = ()
    """What it may come from, in the order in which it is believed."""
    remedies: tuple[Remedy, ...] = ()
    """What helps; first what usually does."""
    spoken: str = "{title}: {summary}; {not_zombies}"
    """Where it is the root: the verdict in a sentence."""
    follows: str = ""
    """Where it follows from the root: what the sentence says of it."""
    somebody: str = "something"
    """Who made it, where nobody knows."""
    pins: frozenset[str] = frozenset()
    """Of a finding about what holds zombies: the kinds."""
    held_by: str = ""
    """The same in a sentence."""
    loops: frozenset[str] = frozenset()
    """Of a finding about who is restarted over and over: the kinds of loops."""
    is_riddle: bool = False
    """Where nothing explains it, it names no origin and is told last."""
    takes_cpu: bool = False
    """Somebody was seen to take CPU time: told before a stock, no worse, that nobody adds to and nobody was seen to pay for."""
    needs_title: bool = False
    """Its summary says how often, and not what."""

    def unknown(self, why: str, evidence: tuple[Evidence, ...] = ()) -> Finding:
        return Finding(self.id, Verdict.UNKNOWN, Severity.UNKNOWN, self.role, self.title, why, evidence)

    def absent(self, summary: str, evidence: tuple[Evidence, ...] = ()) -> Finding:
        return Finding(self.id, Verdict.ABSENT, Severity.OK, self.role, self.title, summary, evidence)

    def present(
        self,
        severity: Severity,
        summary: str,
        evidence: tuple[Evidence, ...],
        remedies: tuple[Remedy, ...] | None = None,
    ) -> Finding:
        """`remedies`: in the order for this case, where it is another than usual."""
        found = Finding(self.id, Verdict.PRESENT, severity, self.role, self.title, summary, evidence)
        return found._replace(remedies=self.remedies if remedies is None else remedies)

    def judged(self, severity: Severity, summary: str, evidence: tuple[Evidence, ...]) -> Finding:
        """Present where it is worse than OK."""
        return self.absent(summary, evidence) if severity is Severity.OK else self.present(severity, summary, evidence)
