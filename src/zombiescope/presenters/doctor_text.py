# SPDX-License-Identifier: Apache-2.0
"""The doctor's answer on one screen: verdict, chain in words, the facts that decide, what to do, what is unknown, what to type
next. `explain` adds every check with its evidence."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from zombiescope.analysis.maker import maker_said
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.catalogue import FINDINGS
from zombiescope.diagnosis.chain import maker_of
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Evidence, Finding, Verdict
from zombiescope.diagnosis.reclaim_work import DECIDES
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown_text, zombies_said
from zombiescope.presenters.doctor_report import Report, amount, frees, last_gaps, told_correlation, told_first
from zombiescope.presenters.document import one_per_field, rfc3339
from zombiescope.presenters.figures import fact_label
from zombiescope.presenters.layout import Block, Column, Command, Fitting, Prose, again, listed, unknown_block
from zombiescope.presenters.scan_text import STYLES, handed_on_lines
from zombiescope.remedies.plan import AskHuman, Step

_MOST_FACTS = 3
_MOST_STEPS = 5
_MOST_CHAINS = 3
_EXACT = ("stop-workload", "stop-container")
"""Recipes for steps by hand whose first command is all there is to it."""
_DECIDES = ("zombie-population", "visible-leak", "zombie-growth")
_REFUSED = ("permitted", "permission denied", "needs root", "as root", "eperm", "eacces")
_WHAT_HOLDS = "what holds the zombies is not known: "
_COUNTED = {Severity.CRITICAL: "critical", Severity.WARNING: "warning"}


class Shown(NamedTuple):
    """How the answer was asked for."""

    explain: bool = False
    is_root: bool = True
    root: str | None = None
    """The recording or folder that was looked at."""
    page: str | None = None
    """Where the page was written."""

    def again(self, command: str) -> str:
        return again(command, self.root)


_PLAIN = Shown()


def render_report_text(report: Report, asked: Shown = _PLAIN) -> list[RenderableType]:
    case, diagnosis = report.case, report.diagnosis
    parts: list[RenderableType] = [Prose(diagnosis.verdict, STYLES[diagnosis.worst]), _counted(diagnosis)]
    blocks = [
        Block("chain", _chains(case, diagnosis)),
        Block("facts", [] if asked.explain else _facts(diagnosis)),
        Block("do", _to_do(report)),
        Block("no use", _no_use(diagnosis, explain=asked.explain)),
        Block("follows", map(told_correlation, report.correlations)),
        Block("page", [] if asked.page is None else [shown_text(asked.page)]),
    ]
    for block in blocks:
        parts += [Text(), block] if block.lines else []
    parts += handed_on_lines(case.last.snapshot.handed_on)
    if asked.explain:
        parts += _explained(diagnosis)
    seen = one_per_field(last_gaps(case)) if asked.explain else []
    gaps = [*report.gaps, *(gap for gap in seen if not gap.fact.startswith("growth"))]
    parts += unknown_block(gaps, _unknown(diagnosis, asked))
    return [*parts, Text(), *_next(report, asked)]


def _counted(diagnosis: Diagnosis) -> Prose:
    """How many checks came out how."""
    found = Counter(
        "unknown" if each.verdict is Verdict.UNKNOWN else _COUNTED.get(each.severity, "fine")
        for each in diagnosis.findings
    )
    told = ", ".join(f"{found[word]} {word}" for word in ("critical", "warning", "fine", "unknown") if found[word])
    told = told if found["warning"] == 1 else told.replace(" warning", " warnings")
    return Prose(f"severity {diagnosis.worst} · {len(diagnosis.findings)} checks: {told}", "dim")


def _link(case: Case, name: str) -> str:
    """A link of the chain, with who is behind it and how many there are."""
    population, declared = case.last.scan.population, FINDINGS[name]
    stock = "zombies" if isinstance(population, Gap) else zombies_said(population.zombies)
    return declared.link.format(who=maker_said(maker_of(case, name)) or declared.somebody, stock=stock)


def _chains(case: Case, diagnosis: Diagnosis) -> list[str]:
    """From the cause to what hurts."""
    told = [" -> ".join(_link(case, name) for name in reversed(chain)) for chain in diagnosis.chains]
    more = [f"and {len(told) - _MOST_CHAINS} more (--explain)"] if len(told) > _MOST_CHAINS else []
    return told[:_MOST_CHAINS] + more


def _facts(diagnosis: Diagnosis) -> list[str]:
    """The few findings that decide: the cause, the stock, and what hurts."""
    if not diagnosis.chains:
        return []
    chain = diagnosis.chains[0]
    wanted = [chain[-1], *(name for name in chain if name in _DECIDES), chain[0], *chain[1:-1]]
    names = list(dict.fromkeys(wanted))[:_MOST_FACTS]
    ordered = [name for name in reversed(chain) if name in names]
    found = [diagnosis.finding(name) for name in ordered]
    return [
        f"{each.title}: {each.summary}" if FINDINGS[each.id].needs_title else each.summary
        for each in found
        if each.summary not in diagnosis.verdict
    ]


def _to_do(report: Report) -> list[str]:
    first = told_first(report.diagnosis, report.plan)
    steps = () if isinstance(report.plan, Gap) else report.plan.steps
    told = [f"{step.n}. {step.title}{_frees(step)}{_typed(step)}" for step in steps[:_MOST_STEPS]]
    if len(steps) > _MOST_STEPS:
        told.append(f"and {len(steps) - _MOST_STEPS} more steps")
    is_told = any(
        step.finding == report.diagnosis.origin and (not step.is_for_people or step.recipe in _EXACT) for step in steps
    )
    return told if is_told or not first else [first, *told]


def _frees(step: Step) -> str:
    if step.is_for_people:
        return f" (you do this by hand{f'; frees {frees(step)}' if frees(step) else ''})"
    return f" (frees {frees(step)})" if frees(step) else ""


def _typed(step: Step) -> str:
    """The one line of a step by hand that does it, where it is known to the letter."""
    if not isinstance(step.change, AskHuman) or step.recipe not in _EXACT:
        return ""
    lines = [line for line in step.change.commands if "ownerReferences" not in line]
    return f": {lines[0].partition('   #')[0]}" if lines else ""


def _no_use(diagnosis: Diagnosis, *, explain: bool) -> list[str]:
    """What people try, and what does not help here."""
    if explain:
        return [f"{each.what}: {each.why}" for each in diagnosis.useless]
    return [", ".join(each.what for each in diagnosis.useless)] if diagnosis.useless else []


def _unknown(diagnosis: Diagnosis, asked: Shown) -> list[str]:
    """What could not be ruled out, and why: a line for each reason; one for all that only root may see."""
    unknown = [finding for finding in diagnosis.findings if finding.verdict is Verdict.UNKNOWN]
    if DECIDES in diagnosis.verdict:  # said once is enough
        unknown = [each._replace(summary=each.summary.removesuffix(f"; {DECIDES}")) for each in unknown]
    if asked.explain:
        return _by_reason(unknown)
    refused = [each for each in unknown if not asked.is_root and any(word in each.summary.lower() for word in _REFUSED)]
    rest = _by_reason(finding for finding in unknown if finding not in refused)
    if not refused:
        return rest
    things = listed([FINDINGS[each.id].thing for each in refused])
    return [f"{len(refused)} of {len(diagnosis.findings)} checks need root: cannot rule out {things}", *rest]


def _by_reason(findings: Iterable[Finding]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for finding in findings:
        reasons.setdefault(finding.summary, []).append(FINDINGS[finding.id].thing)
    return [
        f"{reason[0].lower()}{reason[1:]}"
        if reason.startswith(_WHAT_HOLDS)
        else f"cannot rule out {listed(things)}: {reason}"
        for reason, things in reasons.items()
    ]


def _explained(diagnosis: Diagnosis) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for finding in diagnosis.present:
        line = Text(f"{finding.title} ", style="bold").append(
            f"({finding.severity}, {finding.id})", style=STYLES[finding.severity]
        )
        parts += [Text(), Prose(line.append(f": {finding.summary}", style=""))]
        parts += [_evidence_table(finding.evidence)] if finding.evidence else []
    fine = [
        f"{FINDINGS[each.id].thing}: {each.summary}" for each in diagnosis.findings if each.verdict is Verdict.ABSENT
    ]
    return [*parts, Text(), Block("fine", fine)] if fine else parts


def _evidence_table(evidence: tuple[Evidence, ...]) -> Fitting:
    columns = (
        Column("fact", is_number=False, least_width=14),
        Column("value", least_width=10),
        Column("source", is_number=False, least_width=10),
        Column("at", is_number=False),
    )
    rows = [(fact_label(item.fact), amount(item), item.source, f"{rfc3339(item.at)[11:19]}Z") for item in evidence]
    return Fitting(columns, rows, indent=4, is_headed=False)


def _next(report: Report, asked: Shown) -> list[RenderableType]:
    diagnosis = report.diagnosis
    refused = not asked.is_root and any(each.verdict is Verdict.UNKNOWN for each in diagnosis.findings)
    if refused:
        return [Command("to see everything", "sudo zombiescope doctor")]
    evidence = Command("to see the evidence of every check", asked.again("doctor --explain"))
    if diagnosis.chains and (isinstance(report.plan, Gap) or report.plan.steps):
        plan = Command("to see each step in full", asked.again("plan"))
        return [plan] if asked.explain else [evidence, plan]
    if not asked.explain:
        return [evidence]
    if asked.root is not None:
        return [Command("to look at the zombies one by one", asked.again("autopsy"))]
    return [Command("to keep watching", "zombiescope agent")]
