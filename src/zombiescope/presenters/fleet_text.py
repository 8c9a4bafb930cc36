# SPDX-License-Identifier: Apache-2.0
"""A fleet for a person: the sentence first, then the sickest nodes or the cohorts, what is not known, and what to type next. And a
rollout for a person, as `fleet-plan/1`, as an Ansible playbook or as Kubernetes jobs: to review, and to run with the tools that
people trust. Names are quoted by JSON, which YAML reads: a node's name is a stranger's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from zombiescope.analysis.cohorts import Cohort, Comparison, Labels
from zombiescope.diagnosis.fleet_health import JudgedNode, named
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.fleet import FleetNode, SeriesSeen
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, shown_text
from zombiescope.presenters.doctor_report import told_remedy
from zombiescope.presenters.document import Json, rfc3339
from zombiescope.presenters.figures import UNKNOWN, count, duration
from zombiescope.presenters.layout import Column, Command, Fitting, Prose, unknown_block
from zombiescope.presenters.scan_text import STYLES
from zombiescope.remedies.rollout import CohortPlan, Wave

_SHOWN = 10
_COHORTS_SHOWN = 10
_LABELS_SHOWN = 4


def nodes_sentence(judged: Sequence[JudgedNode]) -> str:
    if not judged:
        return "no node was found: nothing to judge"
    found = Counter(each.severity for each in judged)
    sick = found[Severity.CRITICAL] + found[Severity.WARNING]
    untold = f"; {found[Severity.UNKNOWN]:,} could not be judged" if found[Severity.UNKNOWN] else ""
    if not sick:
        healthy = f"none of {len(judged):,} nodes is" if len(judged) > 1 else "its only node is not"
        return f"healthy: {healthy} sick{untold}"
    parts = [f"{found[level]:,} {level}" for level in (Severity.CRITICAL, Severity.WARNING) if found[level]]
    return (
        f"{sick:,} of {counted(len(judged), 'node')} {'is' if sick == 1 else 'are'} sick ({', '.join(parts)}){untold}"
    )


def render_nodes_text(
    judged: Sequence[JudgedNode], gaps: Sequence[Gap], source: str, now: float
) -> list[RenderableType]:
    worst = judged[0].severity if judged else Severity.UNKNOWN
    telling = _telling(judged)
    shown_ones = [each for each in judged[:_SHOWN] if each.severity is not Severity.OK] or judged[:3]
    rows = [_row(each, telling, now) for each in shown_ones]
    parts: list[RenderableType] = [Prose(nodes_sentence(judged), STYLES[worst])]
    if rows:
        columns = [
            Column("node", is_number=False, least_width=12),
            Column("severity", is_number=False),
            Column("zombies"),
            Column("per hour"),
            Column("next limit in"),
            Column("seen there", is_number=False, least_width=14),
            *([Column("labels", False, 20)] if telling else []),
        ]
        parts += [Text(), Fitting(columns, [row[: len(columns)] for row in rows])]
    hidden = sum(each.severity is not Severity.OK for each in judged) - len(rows)
    if hidden > 0:
        parts.append(Text(f"  and {hidden:,} more (--json and --csv list all)", style="dim"))
    parts += unknown_block(gaps)
    is_sick = worst in (Severity.WARNING, Severity.CRITICAL)
    why, words = ("to see what the sick ones share", "cohorts") if is_sick else ("to list every node", "nodes --csv")
    return [*parts, Text(), Command(why, f"zombiescope fleet {words} {source}")]


def _telling(judged: Sequence[JudgedNode]) -> set[str]:
    """Labels in which nodes differ."""
    values: dict[str, set[str]] = {}
    for each in judged:
        for name, value in each.node.labels.items():
            values.setdefault(name, set()).add(value)
    return {name for name, found in values.items() if len(found) > 1}


def _row(each: JudgedNode, telling: set[str], now: float) -> tuple[str, ...]:
    node = each.node
    labels = [
        f"{shown_text(name)}={shown_text(value)}" for name, value in sorted(node.labels.items()) if name in telling
    ]
    more = f" +{len(labels) - _LABELS_SHOWN}" if len(labels) > _LABELS_SHOWN else ""
    growth = UNKNOWN if node.growth_per_hour is None else f"{node.growth_per_hour:+,.0f}"
    remaining = "-" if node.reached_at is None else duration(max(node.reached_at - now, 0.0))
    stock = count(node.zombies) if node.zombies is not None or node.counted is None else f"<= {node.counted:,}"
    return (
        shown_text(node.name),
        str(each.severity),
        stock,
        growth,
        remaining,
        _seen(node),
        " ".join(labels[:_LABELS_SHOWN]) + more,
    )


def _seen(node: FleetNode) -> str:
    """Findings first, then what was counted; `-` where nothing was."""
    parts = [shown_text(name) for name in sorted(node.findings)]
    parts += [f"{node.restarts:,.0f} restarts"] if node.restarts else []
    parts += [f"{node.resets:,.0f} resets"] if node.resets else []
    parts += [f"{node.saturated_seconds:,.0f} s saturated"] if node.saturated_seconds else []
    return ", ".join(parts) or "-"


def render_cohorts_text(
    compared: Comparison, verdict: str, sick: str, since: Mapping[Labels, float], gaps: Sequence[Gap]
) -> list[RenderableType]:
    style = STYLES[Severity.CRITICAL if compared.causes else Severity.UNKNOWN if compared.sick else Severity.OK]
    lines = [line.strip() for line in verdict.split("; ")]
    parts: list[RenderableType] = [Prose(line + ".", style if not number else "") for number, line in enumerate(lines)]
    parts.append(Prose(f"sick means {sick}; {compared.tested:,} cohorts of {compared.nodes:,} nodes compared", "dim"))
    rows = _cohort_rows(compared, since)
    if rows:
        columns = [
            Column("cohort", is_number=False, least_width=16),
            Column("sick"),
            Column("odds"),
            Column("q"),
            Column("since", is_number=False),
            Column("explained by", is_number=False, least_width=14),
        ]
        parts += [Text(), Fitting(columns, rows)]
    parts += _small(compared)
    return [*parts, *unknown_block(gaps)]


def _cohort_rows(compared: Comparison, since: Mapping[Labels, float]) -> list[tuple[str, ...]]:
    rows = [_cohort(cause.cohort, since, "cause") for cause in compared.causes]
    singles = [each for each in compared.explained if len(each.cohort.labels) == 1]
    rows += [_cohort(each.cohort, since, named(each.by)) for each in singles]
    others = [one for one in compared.others if len(one.labels) == 1]
    rows += [_cohort(one, since, "may be chance" if one.q_value > 0.01 else "-") for one in others]
    return rows[:_COHORTS_SHOWN]


def _cohort(cohort: Cohort, since: Mapping[Labels, float], by: str) -> tuple[str, ...]:
    at = since.get(cohort.labels)
    moment = "-" if at is None else rfc3339(at)[:16].replace("T", " ")
    q = "< 0.0001" if cohort.q_value < 0.0001 else f"{cohort.q_value:.2g}"
    return (named(cohort.labels), f"{cohort.sick:,} of {cohort.nodes:,}", f"{cohort.odds.value:.1f}", q, moment, by)


def _small(compared: Comparison) -> list[RenderableType]:
    lines = []
    if compared.too_small:
        labels, nodes, sick = compared.too_small[0]
        example = f"{named(labels)}: {sick} of {nodes} sick"
        lines.append(f"too few nodes to compare: {counted(len(compared.too_small), 'value')} ({example})")
    lines += [f"not compared: {shown_text(name)}: {why}" for name, why in list(compared.left_out.items())[:3]]
    return [Prose(line, "dim") for line in lines]


def series_sentence(series: Sequence[SeriesSeen]) -> str:
    needed = [each for each in series if each.is_needed]
    have = [each for each in needed if each.nodes]
    most = max((each.nodes for each in series if not each.is_rule), default=0)
    if not most:
        return "not diagnosable: the server has none of the series that tell zombies"
    if len(have) == len(needed):
        nodes = max(each.nodes for each in needed)
        if nodes < most:
            return f"in part: our agent tells of {nodes:,} of the {most:,} nodes that the server knows"
        return f"diagnosable: the server has what is needed, of {nodes:,} {'nodes' if nodes != 1 else 'node'}"
    if any(each.nodes for each in series if each.name.startswith("node_cgroups")):
        return f"in part: node_exporter counts cgroups on {most:,} nodes, dead and live together; no agent of ours is scraped"
    missing = len(needed) - len(have)
    return f"in part: {missing} of {len(needed)} needed series are missing"


def render_series_text(series: Sequence[SeriesSeen], gaps: Sequence[Gap], source: str) -> list[RenderableType]:
    sentence = series_sentence(series)
    style = STYLES[Severity.OK if sentence.startswith("diagnosable") else Severity.WARNING]
    rows = [
        (
            each.name.partition("{")[0],
            "rule" if each.is_rule and each.nodes else str(each.nodes),
            duration(each.oldest_seconds) if each.nodes else "-",
            each.why,
        )
        for each in series
    ]
    columns = [Column("series", is_number=False, least_width=20), Column("nodes"), Column("oldest")]
    parts: list[RenderableType] = [
        Prose(sentence, style),
        Text(),
        Fitting([*columns, Column("tells", is_number=False, least_width=16)], rows),
    ]
    absent = [each for each in series if not each.nodes]
    if absent:
        parts += [Text(), Text("what would add the missing ones", style="bold")]
        parts += [Text(f"  {each.name.partition('{')[0]}: {each.enabled_by}") for each in absent]
    parts += unknown_block(gaps)
    return [*parts, Text(), Command("to see which nodes are sick", f"zombiescope fleet nodes {source}")]


_FINDINGS_SHOWN = 5
_LOOK = "zombiescope apply --window {window:g}"
_ACT = "zombiescope apply --yes --window {window:g}"


def plan_sentence(plans: Sequence[CohortPlan]) -> str:
    if not plans:
        return "nothing to heal: no node is sick"
    nodes, waves = sum(plan.nodes for plan in plans), sum(len(plan.waves) for plan in plans)
    return f"{counted(nodes, 'sick node')} in {counted(waves, 'wave')}, {_said(plans[0])} first"


def _said(plan: CohortPlan) -> str:
    return named(plan.labels) if plan.labels else "nodes that no cause explains"


def render_plan_text(plans: Sequence[CohortPlan], source: str) -> list[RenderableType]:
    parts: list[RenderableType] = [Prose(plan_sentence(plans), "bold")]
    for plan in plans:
        parts += [Text(), Text(f"{_said(plan)}: {counted(plan.nodes, 'sick node')}", style="bold")]
        findings = ", ".join(f"{shown_text(name)} on {nodes:,}" for name, nodes in plan.findings[:_FINDINGS_SHOWN])
        parts += [Prose(f"  found there: {findings}")] if findings else []
        parts.append(Prose(f"  remedy: {_remedy(plan)}"))
        parts += [Prose(f"  {wave.name}: {_wave(wave)}") for wave in plan.waves]
    if not plans:
        return [*parts, Text(), Command("to see every node", f"zombiescope fleet nodes {source}")]
    parts += [
        Text(),
        Prose("Each node decides by its own plan; a wave that does not hold ends the rollout. Nothing was done."),
    ]
    return [
        *parts,
        Text(),
        Command("to write the playbook", f"zombiescope fleet plan {source} --format ansible > rollout.yml"),
    ]


def _remedy(plan: CohortPlan) -> str:
    if not plan.remedies:
        return "not known from here: `zombiescope plan` on the first node names it"
    return ", then ".join(told_remedy(remedy) for remedy in plan.remedies[:2])


def _wave(wave: Wave) -> str:
    few = ", ".join(shown_text(name) for name in wave.nodes[:3])
    return f"{len(wave.nodes):,} nodes ({few}, ...)" if len(wave.nodes) > 3 else few


def render_plan(plans: Sequence[CohortPlan]) -> Json:
    return {
        "verdict": plan_sentence(plans),
        "cohorts": [
            {
                "labels": {shown_text(name): shown_text(value) for name, value in plan.labels},
                "findings": [{"id": shown_text(name), "nodes": nodes} for name, nodes in plan.findings],
                "remedies": list(plan.remedies),
                "waves": [
                    {"name": wave.name, "nodes": [shown_text(name) for name in wave.nodes]} for wave in plan.waves
                ],
            }
            for plan in plans
        ],
    }


def render_ansible(plans: Sequence[CohortPlan], window: float) -> str:
    """One play per wave, in order. A play that fails on any node ends the playbook."""
    lines = [
        "# Heals one wave of nodes after the other. Review it, then: ansible-playbook -i INVENTORY --check rollout.yml",
        "# In check mode every node only says what it would do. Steps that need consent are never taken.",
    ]
    for plan in plans:
        for wave in plan.waves:
            lines += [f"# {_said(plan)}: {wave.name}. Remedy: {_remedy(plan)}", *_play(plan, wave, window)]
    return "\n".join(lines)


def _play(plan: CohortPlan, wave: Wave, window: float) -> list[str]:
    return [
        f"- name: {json.dumps(f'{_said(plan)}: {wave.name}')}",
        f"  hosts: {json.dumps(list(wave.nodes))}",
        "  gather_facts: false",
        "  become: true",
        "  any_errors_fatal: true",
        "  max_fail_percentage: 0",
        "  tasks:",
        "    - name: what would be done",
        f"      ansible.builtin.command: {json.dumps(_LOOK.format(window=0))}",
        "      check_mode: false",
        "      changed_when: false",
        "    - name: do it, watch whether it holds, and put everything back where it fails",
        f"      ansible.builtin.command: {json.dumps(_ACT.format(window=window))}",
        "      when: not ansible_check_mode",
        "    - name: did it hold?",
        f"      ansible.builtin.command: {json.dumps(f'zombiescope verify --window {window:g}')}",
        "      when: not ansible_check_mode",
        "      changed_when: false",
    ]


def render_kubernetes(plans: Sequence[CohortPlan], image: str, window: float) -> str:
    """One suspended Job per node, in the order of the waves: a person starts wave after wave."""
    documents = []
    number = 0
    for plan in plans:
        for order, wave in enumerate(plan.waves):
            for name in wave.nodes:
                number += 1
                documents.append(_job(number, name, f"{order + 1}", image, window))
    head = '# Jobs are suspended. Start a wave: kubectl patch job -l zombiescope/wave=1 -p \'{"spec":{"suspend":false}}\'\n'
    return head + "\n---\n".join(json.dumps(each, indent=1) for each in documents)


def _job(number: int, node: str, wave: str, image: str, window: float) -> Json:
    command = ["zombiescope", "apply", "--yes", "--window", f"{window:g}"]
    container = {
        "name": "apply",
        "image": image,
        "command": ["nsenter", "--target", "1", "--mount", "--cgroup", "--", *command],
        "securityContext": {"privileged": True},
    }
    spec = {
        "nodeName": node,
        "hostPID": True,
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    labels = {"app.kubernetes.io/name": "zombiescope", "zombiescope/wave": wave}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"zombiescope-rollout-{number}", "labels": labels},
        "spec": {"suspend": True, "backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
