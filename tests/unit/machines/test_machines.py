# SPDX-License-Identifier: Apache-2.0
"""Every reading command over every machine, built or recorded, replayed: the truth, and the very words."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.machines.built import BUILT, BuiltMachine

from zombiescope.cli.main import main
from zombiescope.pipeline.record import Asked, record

TESTS = Path(__file__).resolve().parents[2]
GOLDEN = TESTS / "golden/machines"
RECORDED = sorted((TESTS / "machines/recorded").iterdir())
COMMANDS = (
    ("scan",), ("scan", "--explain"), ("scan", "--json"), ("doctor", "--seconds", "1"), ("doctor", "--seconds", "1", "--json"),
    ("autopsy",), ("autopsy", "--json"),
)  # fmt: skip
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("machine", BUILT, ids=lambda machine: machine.name)
def test_every_reading_command_over_a_built_machine(
    machine: BuiltMachine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    request: pytest.FixtureRequest,
) -> None:
    """Recorded, written to an archive and replayed from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    root = f"{machine.name}.tar.gz"
    assert record(machine.host(machine.build()), root, 1, asked=Asked(keeps_names=True)).replays
    text = "\n".join([f"{machine.name}: {machine.why}", "", *_story(root, machine.zombies, capsys)])
    _compare(text, machine.name, update=request.config.getoption("--update-golden"))


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_every_reading_command_over_a_recorded_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("COLUMNS", "100")
    note = tomllib.loads((folder / "MACHINE.toml").read_text(encoding="utf-8"))
    text = "\n".join([f"{folder.name}: {note['why']}", "", *_story(folder.name, note["zombies"], capsys)])
    _compare(text, folder.name, update=request.config.getoption("--update-golden"))


def _story(root: str, zombies: int | None, capsys: Capture) -> list[str]:
    story = []
    for command in COMMANDS:
        arguments = [*command, "--root", root]
        code = main(arguments)
        out, err = capsys.readouterr()
        story += [f"$ zombiescope {' '.join(arguments)}", (out + err).rstrip(), f"exit {code}", ""]
        if command == ("scan", "--json"):
            assert json.loads(out)["memcg"]["zombies"] == zombies
    return story


def _compare(text: str, name: str, *, update: bool) -> None:
    golden = GOLDEN / f"{name}.txt"
    if update:
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), (
        f"{golden.name} differs: --update-golden, then read the difference"
    )


@pytest.mark.parametrize(("name", "verdict"), [("incident-replay", "present"), ("incident", "absent")])
def test_statistics_that_walk_the_dead_are_told_by_their_time(
    name: str, verdict: str, tmp_path: Path, capsys: Capture
) -> None:
    """The same machine with and without the walk: by behaviour, whatever the release says."""
    machine = next(each for each in BUILT if each.name == name)
    root = str(tmp_path / "node.tar.gz")
    assert record(machine.host(machine.build()), root, 1, asked=Asked(keeps_names=True)).replays
    assert main(["doctor", "--seconds", "1", "--json", "--root", root]) == 0
    answer = json.loads(capsys.readouterr().out)
    found = next(each for each in answer["findings"] if each["id"] == "costly-sweep")
    assert found["verdict"] == verdict
    told = {item["fact"]: item["value"] for item in found["evidence"]}
    assert told.get("pays_for_zombies", "") == ("reading statistics" if verdict == "present" else "")


def test_every_golden_file_has_its_machine() -> None:
    names = {machine.name for machine in BUILT} | {folder.name for folder in RECORDED}
    assert {path.stem if path.suffix == ".txt" else path.name for path in GOLDEN.iterdir()} == names
    assert len(names) == len(BUILT) + len(RECORDED)


def test_every_machine_says_why_it_is_here() -> None:
    assert all(len(machine.why) > 20 for machine in BUILT)
    for folder in RECORDED:
        note = tomllib.loads((folder / "MACHINE.toml").read_text(encoding="utf-8"))
        assert set(note) == {"kernel", "distribution", "why", "how", "zombies"}
        assert {path.name for path in folder.iterdir()} == {"MACHINE.toml", "recording.jsonl"}
