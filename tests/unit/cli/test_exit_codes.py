# SPDX-License-Identifier: Apache-2.0
"""Exit codes as they are documented, for every command: 0 fine, 1 findings where asked, 2 usage, 3 could not observe, 4 failed and
undone, 5 failed and not undone, 70 a bug. `check` alone: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from tests.build import Cgroup, v2_machine, write_machine
from tests.unit.execution.machine import build
from tests.unit.execution.test_restoring import DELETE, MASK, deleted
from tests.unit.trees import TARGETS, WANTED, enabled, plant

from zombiescope.cli.main import COMMANDS, main
from zombiescope.diagnosis.outcome import Holding, Outcome
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.reclaim import vitals_of
from zombiescope.remedies.receipts import Verified

Capture = pytest.CaptureFixture[str]

# Every place below is a folder of the test's own: `{ok}`, `{some}`, `{sick}` machines, `{empty}` a folder with nothing in it,
# `{none}` no folder, `{state}` actions that can be undone, `{lost}` one that deleted files, `{new}` no action yet.
TABLE = """
0 scan --root {ok}
2 scan --root {none}
2 scan --no-such-flag
3 scan --root {empty}
0 autopsy --root {ok}
2 autopsy --older-than soon
3 autopsy --root {empty}
0 doctor --root {sick}
1 doctor --root {sick} --fail-on warning
2 doctor --root {none}
3 doctor --root {empty}
0 plan --root {image}
2 plan --root {none}
3 plan --root {empty}
2 cores --root {none}
3 cores --root {empty}
0 apply --root {ok}
2 apply --root {none}
4 apply --root {empty} --yes --state {new}
0 undo --state {state}
0 undo --state {state} --yes
2 undo --state {new}
2 undo no-such-action --state {state} --yes
5 undo --state {lost} --yes
0 actions --state {state}
0 actions --state {new}
2 actions --limit -1
2 verify --state {new}
3 verify --state {state} --window 0
0 audit --root {ok}
2 audit --root {none}
0 check --root {ok}
1 check --root {some}
2 check --root {sick}
3 check --root {empty}
3 check --no-such-flag
2 profile heatmap {none}
2 profile no-such-command
2 reap --no-such-flag
0 agent --show-config
2 agent --config {none}
2 serve --root {none}
2 serve --listen nowhere
2 top --no-such-flag
2 history --no-such-flag
3 history --state {empty}
2 fleet nodes
3 fleet nodes --from {none}
3 fleet nodes --from {empty}
2 fleet doctor --from {empty}
2 fleet serve
2 fleet serve --prometheus ftp://x
2 fleet serve --from {empty} --node-page javascript:alert(1)
2 fleet serve --from {empty} --listen nowhere
0 export rules
0 export fleet-rules --by zone
2 export fleet-rules --by zo-ne
0 export fleet-dashboard
0 export stream-aggregation
2 export stream-aggregation --interval soon
2 export no-such-thing
0 lab list
2 lab zombies --pin no-such-pin
2 lab clean --name ../no-name
2 record --no-such-flag
4 record {none}/node.tar.gz
2 self-check --no-such-flag
2 self-check --config {none}
0 licenses
2 licenses no-such-part
0 completion bash
2 completion no-such-shell
0 explain zombie-population
2 explain no-such-word-at-all
0 help apply
2 help no-such-command
""".strip().splitlines()


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], str]:
    for name, zombies in (("ok", 3), ("some", 1_500), ("sick", 10_000)):
        write_machine(tmp_path / name, v2_machine({b"/a": Cgroup(zombies=zombies)}))
        plant(tmp_path / name, {**TARGETS, **enabled("ssh.service", WANTED)})
    (tmp_path / "empty").mkdir()
    units = tmp_path / "image/usr/lib/systemd/system"
    units.mkdir(parents=True)
    (units / "a.service").write_text("[Service]\nExecStart=/bin/true\n")
    for name, steps in (("state", [MASK]), ("lost", [DELETE])):
        deleted(build(tmp_path / f"root of {name}"), tmp_path / name, *steps)
    places = {
        name: str(tmp_path / name) for name in ("ok", "some", "sick", "empty", "image", "none", "state", "lost", "new")
    }
    return lambda line: line.format(**places)


@pytest.mark.parametrize("row", TABLE)
def test_the_code_is_the_documented_one(row: str, place: Callable[[str], str], capsys: Capture) -> None:
    code, *words = place(row).split()
    assert main(words) == int(code)
    out, err = capsys.readouterr()
    assert "bug" not in err
    if int(code) > 1 and words[0] != "check":
        assert out or err


def test_every_command_has_rows() -> None:
    assert {row.split()[1] for row in TABLE} == set(COMMANDS)


@pytest.mark.seeds_a_bug
@pytest.mark.parametrize("command", COMMANDS)
def test_a_bug_is_70(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> None:
    plain = click.Command.invoke

    def broken(self: click.Command, context: click.Context) -> object:
        if not isinstance(self, click.Group):
            raise ZeroDivisionError("a bug")
        return plain(self, context)

    monkeypatch.setattr(click.Command, "invoke", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    inside = {"lab": ["list"], "profile": ["list"], "export": ["rules"], "fleet": ["nodes"], "completion": ["bash"]}
    inside["record"] = [os.fspath(tmp_path / "x")]
    assert main([command, *inside.get(command, [])]) == 70
    assert "this is a bug" in capsys.readouterr().err


@pytest.mark.parametrize(("verdict", "ours", "code"), [("held", 1, 0), ("not-held", 1, 1), ("inconclusive", None, 3)])
def test_verify_tells_by_its_code_whether_it_held(
    verdict: str, ours: int | None, code: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    after = vitals_of({"at": 1.0, "seconds": 60.0})._replace(ours=ours)
    seen = Verified("one", Outcome(Holding(verdict), "why"), after, after, 1.0, Identity(None, None, None, None))
    monkeypatch.setattr("zombiescope.cli.commands.verify.look", lambda *_: seen)
    assert main(["verify", "--window", "0"]) == code
    assert capsys.readouterr().out.startswith(verdict)
