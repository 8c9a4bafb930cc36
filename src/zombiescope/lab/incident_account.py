# SPDX-License-Identifier: Apache-2.0
"""An incident that was played, as a document: what was done, how long it took, what was printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Stage(NamedTuple):
    name: str
    seconds: float
    told: str
    figures: dict[str, Any]
    outputs: dict[str, str] = {}  # noqa: RUF012 (nobody writes to it)
    """What our own commands printed, by what was typed."""


class Setting(NamedTuple):
    command: str
    """As a person types it again."""
    kernel: str
    hierarchy: str
    cpus: int
    load: float
    """Of the last minute, when it began: times of a busy machine are no times."""
    who: str
    where: str = "this host, in the lab's own subtree"


def account_of(setting: Setting, stages: Sequence[Stage]) -> str:
    total = sum(stage.seconds for stage in stages)
    where = f"{setting.where}; Linux {setting.kernel}, memory on cgroup {setting.hierarchy}, {setting.cpus} CPUs"
    lines = [
        "# The incident, reproduced and healed",
        "",
        f"Written by `{setting.command}`: what the run did and what it printed, nothing added.",
        "",
        f"* where: {where}, load {setting.load:.1f} when it began",
        "* the cause: an unused agent crash-loops; each life leaves one file on a tmpfs, and its page keeps a dead memory cgroup",
        f"* who: {setting.who}",
        "* who suffers: a neighbour that reads a file on one core, under a limit on the parent that holds the dead",
        f"* how long: {total:.0f} s in all",
        "",
        "| stage | seconds | what was seen |",
        "|---|---|---|",
        *(f"| {stage.name} | {stage.seconds:.1f} | {_cell(stage.told)} |" for stage in stages),
    ]
    for stage in stages:
        for typed, output in stage.outputs.items():
            lines += ["", f"## `{typed}`", "", "```"]
            lines += [line.rstrip() for line in output.strip("\n").splitlines()] + ["```"]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
