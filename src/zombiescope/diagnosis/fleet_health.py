# SPDX-License-Identifier: Apache-2.0
"""How each node of a fleet is, by the thresholds of every other command; what counts as sick when cohorts are compared; and the
sentence that says what the sick ones share.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from zombiescope.analysis.cohorts import Cause, Comparison, ExplainedCohort, Labels
from zombiescope.analysis.exact_test import MOST_Q
from zombiescope.analysis.scan import Population
from zombiescope.diagnosis.thresholds import SEVERITIES, Severity, Thresholds, graded, worst_of
from zombiescope.errors import UsageError
from zombiescope.facts.cgroups import CountSource
from zombiescope.facts.fleet import Fleet, FleetNode
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown_text

_LEAST_FOR_A_YARDSTICK = 8
SICK_BY = ("severity", "zombies", "growth", "resets", "saturation")


class JudgedNode(NamedTuple):
    node: FleetNode
    severity: Severity
    gaps: tuple[Gap, ...] = ()


def judge_nodes(fleet: Fleet, thresholds: Thresholds) -> list[JudgedNode]:
    """The sickest first."""
    usual = _usual_live(fleet)
    return sorted((_judge(node, thresholds, usual) for node in fleet.nodes), key=_sickest_first)


def _sickest_first(each: JudgedNode) -> tuple[int, float, float, str]:
    stock = each.node.zombies if each.node.zombies is not None else each.node.counted
    return -SEVERITIES.index(each.severity), -(stock or 0), -(each.node.growth_per_hour or 0.0), each.node.name


def _usual_live(fleet: Fleet) -> int | None:
    """Of nodes where only the kernel's count is known: what their healthier quarter has is taken for live."""
    counts = sorted(node.counted for node in fleet.nodes if node.zombies is None and node.counted is not None)
    return counts[len(counts) // 4] if len(counts) >= _LEAST_FOR_A_YARDSTICK else None


def _judge(node: FleetNode, thresholds: Thresholds, usual: int | None) -> JudgedNode:
    found = [*map(_severity, node.findings.values()), _growth(node.growth_per_hour, thresholds)]
    gaps: tuple[Gap, ...] = ()
    if node.zombies is not None:
        live = node.live if node.live is not None else 1
        population = Population(node.zombies + live, live, CountSource.PROC_CGROUPS)
        is_whole = node.live is not None
        found.append(thresholds.of_population(population) if is_whole else thresholds.of_zombies(node.zombies))
    elif node.counted is None:
        found.append(Severity.UNKNOWN)
    elif node.counted < thresholds.zombies_warning:
        found.append(Severity.OK)  # there are no more zombies than cgroups
    elif usual is None:
        found.append(Severity.UNKNOWN)
        gaps = (Gap("severity", f"{node.counted:,} cgroups are counted, and how many of them live is not known"),)
    else:
        found.append(thresholds.of_zombies(max(node.counted - usual, 0)))
        gaps = (
            Gap("severity", f"an estimate: {usual:,} of the {node.counted:,} counted are taken for live, as elsewhere"),
        )
    return JudgedNode(node, worst_of(found), gaps)


def _severity(text: str) -> Severity:
    return next((each for each in Severity if each == text), Severity.UNKNOWN)


def _growth(per_hour: float | None, thresholds: Thresholds) -> Severity:
    limits = thresholds.growth_warning_per_hour, thresholds.growth_critical_per_hour
    return Severity.OK if per_hour is None else graded(per_hour, *limits)


class Sickness(NamedTuple):
    """What is compared: which nodes count as sick, and which are left out because nobody can tell."""

    rule: str
    nodes: tuple[FleetNode, ...]
    is_sick: tuple[bool, ...]
    untold: int


def choose_sick(judged: Sequence[JudgedNode], by: str, thresholds: Thresholds) -> Sickness:
    """`by`: one of SICK_BY, or the id of a finding."""
    rules: dict[str, tuple[str, Callable[[JudgedNode], bool | None]]] = {
        "severity": (
            "severity warning or critical",
            lambda each: None if each.severity is Severity.UNKNOWN else each.severity is not Severity.OK,
        ),
        "zombies": (
            f"at least {thresholds.zombies_warning:,} zombies",
            lambda each: _at_least(each.node.zombies, thresholds.zombies_warning),
        ),
        "growth": (
            f"at least {thresholds.growth_warning_per_hour:g} more zombies per hour",
            lambda each: _at_least(each.node.growth_per_hour, thresholds.growth_warning_per_hour),
        ),
        "resets": ("a reset of a network card in the last day", lambda each: _at_least(each.node.resets, 0.5)),
        "saturation": (
            f"a core saturated for {thresholds.saturated_warning_seconds:g} s or more in the last hour",
            lambda each: _at_least(each.node.saturated_seconds, thresholds.saturated_warning_seconds),
        ),
    }
    if by not in rules and not any(by in each.node.findings for each in judged):
        why = f"it is none of {', '.join(SICK_BY)}, and no node has a finding of that name"
        raise UsageError(f"cannot compare by {by!r}", why, "--sick zombies")
    rule, test = rules.get(by, (f"the finding {by}", lambda each: by in each.node.findings))
    told = [(each.node, verdict) for each in judged if (verdict := test(each)) is not None]
    told.sort(key=lambda pair: pair[0].name)
    return Sickness(
        rule, tuple(node for node, _ in told), tuple(verdict for _, verdict in told), len(judged) - len(told)
    )


def _at_least(value: float | None, limit: float) -> bool | None:
    return None if value is None else value >= limit


def named(labels: Labels) -> str:
    return " and ".join(f"{shown_text(name)} {shown_text(value)}" for name, value in labels)


def say_verdict(compared: Comparison, since: str | None = None) -> str:
    """What sets the sick nodes apart, in a sentence; the confounder in the next."""
    if not compared.nodes:
        return "no node can be judged: nothing to compare"
    if not compared.sick:
        healthy = f"none of {compared.nodes:,} nodes is" if compared.nodes > 1 else "the only node is not"
        return f"{healthy} sick: nothing to compare"
    if compared.nodes == 1:
        return "the only node that can be judged is sick: nothing to compare it with"
    if compared.sick == compared.nodes:
        return f"all {compared.nodes:,} nodes are sick: nothing sets them apart"
    if not compared.causes and compared.best_p > MOST_Q:
        return _too_few(compared)
    if not compared.causes:
        verb = "is" if compared.sick == 1 else "are"
        return (
            f"{compared.sick:,} of {compared.nodes:,} nodes {verb} sick, and no label sets them apart "
            f"({compared.tested:,} cohorts compared, at most {MOST_Q:.0%} false calls allowed)"
        )
    first, *others = map(_share, compared.causes)
    said = [f"{first}{since or ''}", *(f"beside it, {each}" for each in others)]
    guilty = {name for cause in compared.causes for name, _ in cause.cohort.labels}
    hidden = next((each for each in compared.explained if not guilty & {name for name, _ in each.cohort.labels}), None)
    if hidden is not None:
        said.append(_explained(hidden))
    return "; ".join(said)


def _too_few(compared: Comparison) -> str:
    """So few that no cohort of theirs could be told from chance, whatever its nodes were like: that is not an all-clear."""
    verb = "is" if compared.sick == 1 else "are"
    head = f"{compared.sick:,} of {compared.nodes:,} nodes {verb} sick: too few nodes to tell what sets them apart"
    seen = [named(labels) for labels in compared.only_sick[:3]]
    if not seen:
        return f"{head}; no label is shared by all sick nodes and by them alone"
    return f"{head}; all sick nodes and no others have {' and '.join(seen)}, which may be chance"


def _share(cause: Cause) -> str:
    cohort = cause.cohort
    same = "".join(f" (the same nodes as {named(labels)})" for labels in cohort.same_as[:1])
    return f"{cohort.sick:,} of {cohort.nodes:,} nodes with {named(cohort.labels)}{same} are sick"


def _explained(each: ExplainedCohort) -> str:
    labels = named(each.cohort.labels)
    return f"{labels} is worse only because it has more of {named(each.by)}: among the others it makes no difference"
