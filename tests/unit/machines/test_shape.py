# SPDX-License-Identifier: Apache-2.0
"""Every report over every scenario and machine, at 40, 80 and 120 columns: no broken word, nothing past the edge, the answer first,
what to type next last. Some of them word for word."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

import pytest
from rich.console import RenderableType
from tests.machines.built import BUILT, BuiltMachine
from tests.scenarios.asked import case_of, diagnosis_of
from tests.scenarios.labels import read_labels
from tests.unit.cli.test_history import leak, two_makers
from tests.unit.machines.answers import recordings
from tests.unit.machines.shape import ONE_SCREEN, WIDTHS, check_shape, drawn, parts_of
from tests.unit.trees import INCIDENT, TARGETS, plant

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import glance
from zombiescope.diagnosis.gate import judge_counts, judge_gate
from zombiescope.errors import ObservationError
from zombiescope.pipeline.record import Asked, record
from zombiescope.presenters.doctor_report import Report
from zombiescope.presenters.doctor_text import Shown, render_report_text
from zombiescope.presenters.gate_json import render_check_text
from zombiescope.presenters.layout import Prose
from zombiescope.presenters.scan_text import render_scan_text

Golden = Callable[[str, str], None]
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "scan": (("scan",), r"healthy: |zombies: |directories |both |cannot tell: |[0-9,]+ dead "),
    "scan --explain": (("scan", "--explain"), r"\w"),
    "doctor": (("doctor", "--seconds", "3"), r"\w|`"),
    "doctor --explain": (("doctor", "--seconds", "3", "--explain"), r"\w|`"),
    "autopsy": (("autopsy",), r"no zombies|[0-9,?]+ zombies? "),
    "autopsy --by file": (("autopsy", "--by", "file", "--limit", "3"), r"no zombies|[0-9,?]+ zombies? "),
    "plan": (("plan", "--seconds", "1"), r"nothing |[0-9]+ steps?"),
    "apply": (("apply", "--seconds", "1"), r"dry run, nothing was changed: (nothing |[0-9]+ steps?)"),
    "check": (("check",), r"(OK|WARNING|CRITICAL|UNKNOWN): "),
    "cores": (("cores", "--seconds", "3"), r"no saturated core|core [0-9]+ was|whether a core|the cores could not"),
}
"""How each is asked, and how its first line begins."""
KEPT = ("6.1-v2", "7.2-v2-swap", "loop-leaks", "tmpfs", "visible-leak")
"""Recorded machines whose every report is kept word for word."""
Answers = Mapping[str, Sequence[RenderableType]]


def answers(root: str, wanted: Iterable[str] = COMMANDS) -> Answers:
    found = {}
    for name, (words, begins) in ((name, COMMANDS[name]) for name in wanted):
        try:
            found[name] = parts_of(*words, "--root", root)
        except ObservationError as error:  # a container that shows no cgroup: said in the shape of every error
            assert error.hint, (root, name)
            continue
        check_shape(found[name], (root, name))
        assert re.match(begins, drawn(found[name][:1], 300)), (root, name)
    return found


@pytest.mark.parametrize("name", recordings())
def test_every_report_over_a_recorded_machine(name: str, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    place = recordings()[name]
    monkeypatch.chdir(place.parent)
    found = answers(place.name)
    assert drawn(found["doctor"], 80).count("\n") <= ONE_SCREEN
    if name in KEPT:
        golden(f"shape/{name}.txt", on_screens(found))


@pytest.mark.parametrize("machine", BUILT, ids=lambda machine: machine.name)
def test_every_report_over_a_built_machine(
    machine: BuiltMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert record(machine.host(machine.build()), "machine.tar.gz", 1, asked=Asked(keeps_names=True)).replays
    found = answers("machine.tar.gz", ("scan", "doctor", "autopsy", "plan", "check"))
    assert drawn(found["doctor"], 80).count("\n") <= ONE_SCREEN


def on_screens(found: Answers) -> str:
    shown = (f"=== {name}, {width} columns\n{drawn(parts, width)}" for name, parts in found.items() for width in WIDTHS)
    return "\n".join(shown)


def reports_of(seen: Case, name: str) -> Answers:
    """Of a scenario that is made of facts: what needs no machine."""
    found = diagnosis_of(name)
    assert found is not None
    gate = judge_gate(judge_counts(seen), (), date(2026, 1, 1))
    return {
        "scan": render_scan_text(seen.last, glance(seen)),
        "doctor": render_report_text(Report(seen, found)),
        "doctor --explain": render_report_text(Report(seen, found), Shown(explain=True)),
        "doctor, not root": render_report_text(Report(seen, found), Shown(is_root=False)),
        "check": render_check_text(gate, "this host"),
    }


@pytest.mark.parametrize("name", read_labels())
def test_every_report_of_a_scenario(name: str) -> None:
    seen, found = case_of(name), diagnosis_of(name)
    assert seen is not None
    assert found is not None
    told = reports_of(seen, name)
    for command, parts in told.items():
        check_shape(parts, (name, command))
    assert drawn(told["doctor"][:1], 5_000).rstrip("\n") == found.verdict
    assert drawn(told["doctor"], 80).count("\n") <= ONE_SCREEN


def test_the_doctor_of_every_scenario_word_for_word(golden: Golden) -> None:
    told = []
    for name in sorted(read_labels()):
        seen = case_of(name)
        assert seen is not None
        told.append(f"=== {name}\n{drawn(reports_of(seen, name)['doctor'], 80)}")
    golden("shape/doctor-80.txt", "\n".join(told))


@pytest.mark.parametrize("tree", [INCIDENT, TARGETS], ids=["incident", "bare"])
def test_the_audit_of_a_folder(
    tree: dict[str, str | bytes], tmp_path: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant(tmp_path / "image", tree)
    os.utime(root, (1_700_000_000, 1_700_000_000))
    monkeypatch.chdir(tmp_path)
    found = {
        " ".join(words): parts_of(*words, "--root", "image") for words in (("audit",), ("audit", "--all"), ("check",))
    }
    for name, parts in found.items():
        check_shape(parts, name)
        assert str(root) in str(parts[0])
    if tree is INCIDENT:  # the first line names the folder, which is another one each time
        named = {name: [Prose(str(parts[0]).replace(str(root), "/mnt")), *parts[1:]] for name, parts in found.items()}
        golden("shape/audit.txt", on_screens(named))


def test_the_history_of_a_leak(tmp_path: Path, golden: Golden) -> None:
    leak(tmp_path / "leak", 1.7e9, boots=3)
    (tmp_path / "two").mkdir()
    two_makers(tmp_path / "two")
    found = {}
    for name in ("leak", "two"):
        for more in ((), ("--at", "2023-11-15T00:13")):
            words = ("history", "--last", "all", *more)
            parts = found[" ".join([name, *words])] = parts_of(*words, "--state", str(tmp_path / name))
            check_shape(parts, (name, words))
            assert re.match(r"[0-9,]+ zombies|too little is remembered", drawn(parts[:1], 300))
    golden("shape/history.txt", on_screens(found))
