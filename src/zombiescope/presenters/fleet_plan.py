# SPDX-License-Identifier: Apache-2.0
"""A rollout for a person, as `fleet-plan/1`, as an Ansible playbook with its inventory, or as Kubernetes jobs: to review, and to
run with the tools that people trust. Names are quoted by JSON, which YAML reads: a node's name is a stranger's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from zombiescope.diagnosis.fleet_health import named
from zombiescope.facts.names import counted, shown_text
from zombiescope.presenters.doctor_report import told_remedy
from zombiescope.presenters.document import Json
from zombiescope.presenters.layout import Command, Prose
from zombiescope.remedies.rollout import CohortPlan, Wave

_SHOWN = 5
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
        findings = ", ".join(f"{shown_text(name)} on {nodes:,}" for name, nodes in plan.findings[:_SHOWN])
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
