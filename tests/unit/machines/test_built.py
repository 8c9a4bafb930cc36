# SPDX-License-Identifier: Apache-2.0
"""Every reading command over every machine, recorded and replayed: the truth, and the very words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.build import ScriptedHost
from tests.machines.built import BUILT, BuiltMachine

from zombiescope.cli.main import main
from zombiescope.pipeline.record import Recorded, record

GOLDEN = Path(__file__).resolve().parents[2] / "golden/machines"
COMMANDS = (
    ("scan",), ("scan", "--explain"), ("scan", "--json"), ("doctor", "--seconds", "1"), ("doctor", "--seconds", "1", "--json"),
    ("autopsy",), ("autopsy", "--json"),
)  # fmt: skip


def _record(machine: BuiltMachine) -> Recorded:
    return record(ScriptedHost(machine.build()), f"{machine.name}.tar.gz", 1)


@pytest.mark.parametrize("machine", BUILT, ids=lambda machine: machine.name)
def test_every_reading_command(
    machine: BuiltMachine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    assert _record(machine).replays
    story = [f"{machine.name}: {machine.why}", ""]
    for command in COMMANDS:
        arguments = [*command, "--root", f"{machine.name}.tar.gz"]
        code = main(arguments)
        out, err = capsys.readouterr()
        story += [f"$ zombiescope {' '.join(arguments)}", (out + err).rstrip(), f"exit {code}", ""]
        if command == ("scan", "--json"):
            assert json.loads(out)["memcg"]["zombies"] == machine.zombies
    _compare("\n".join(story), GOLDEN / f"{machine.name}.txt", update=request.config.getoption("--update-golden"))


def _compare(text: str, golden: Path, *, update: bool) -> None:
    if update:
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), (
        f"{golden.name} differs: --update-golden, then read the difference"
    )


def test_every_golden_file_has_its_machine() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {machine.name for machine in BUILT}


def test_every_machine_says_why_it_is_here() -> None:
    assert len({machine.name for machine in BUILT}) == len(BUILT)
    assert all(len(machine.why) > 20 for machine in BUILT)
