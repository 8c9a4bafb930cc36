# SPDX-License-Identifier: Apache-2.0
"""Deleted files come back from their copies, whole and dressed as they were; nothing is replaced; `undo` says what is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.nobody import as_nobody
from tests.unit.execution.machine import ETC, HIERARCHY, build, picture, seen, step, workshop

from zombiescope.cli.main import main
from zombiescope.execution.journal import Write
from zombiescope.execution.moves import Hands
from zombiescope.execution.undo import undo_all, undo_state
from zombiescope.execution.way_back import kept_copies, restore_all
from zombiescope.remedies import plan
from zombiescope.remedies.plan import NamedFile, Undo
from zombiescope.remedies.receipts import UndoState

DELETE = step(1, plan.DeleteFiles((NamedFile(b"/dev/shm/5", None), NamedFile(b"/dev/shm/6", None))), Undo.NONE)
MASK = step(2, plan.PlaceLink(ETC + b"/a.service", b"/dev/null"), Undo.EXACT)
DROP = step(3, plan.DropFiles((NamedFile(b"/var/log/5", None),)), Undo.NONE)
Capture = pytest.CaptureFixture[str]


def deleted(root: Path, state: Path, *steps: plan.Step) -> Hands:
    hands, executor = workshop(root, state)
    hands.journal.add("begin", boot_id=None, root=str(root))
    for each in steps or (DELETE,):
        executor.run(seen(root, each))
    hands.journal.add("end", outcome="done")
    return hands


def outcomes(taken: Sequence[object]) -> list[str]:
    return [each.outcome for each in taken]  # type: ignore[attr-defined]


def test_every_file_comes_back_as_it_was(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    os.chmod(root / "dev/shm/5", 0o640)
    os.utime(root / "dev/shm/5", ns=(10**18, 10**18))
    before = picture(root)
    hands = deleted(root, tmp_path / "state")
    assert not (root / "dev/shm/5").exists()
    assert outcomes(restore_all(hands, HIERARCHY)) == ["restored", "restored"]
    assert picture(root) == {**before, "sys/fs/cgroup/cgroup.procs": picture(root)["sys/fs/cgroup/cgroup.procs"]}
    assert (root / "sys/fs/cgroup/cgroup.procs").read_text() == "0", "its memory is charged to the root cgroup"
    assert (root / "dev/shm/5").stat().st_mtime_ns == 10**18
    assert restore_all(hands, HIERARCHY) == []


def test_a_name_that_was_taken_since_is_left_alone(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = deleted(root, tmp_path / "state")
    (root / "dev/shm/5").write_text("somebody's")
    (root / "dev/shm/6").write_text("in memory 6")
    assert outcomes(restore_all(hands, None)) == ["not-restored", "nothing-to-do"]
    assert (root / "dev/shm/5").read_text() == "somebody's"
    (root / "dev/shm/5").unlink()
    assert outcomes(restore_all(hands, None)) == ["restored"], "the copy is still there"


def test_a_copy_that_is_gone_or_elsewhere_is_no_copy(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = deleted(root, tmp_path / "state")
    first, second = kept_copies(hands.journal.entries(), hands.journal.folder)
    os.unlink(first.copy)
    os.unlink(second.copy)
    os.symlink("/etc/passwd", second.copy)
    assert outcomes(restore_all(hands, None)) == ["not-restored", "not-restored"]


def test_a_deletion_that_was_only_announced_has_lost_nothing(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands, _ = workshop(root, tmp_path / "state")
    hands.journal.intend(1, Write.DELETE_FILES, files=["/dev/shm/5"], kept={}, aside="/dev/shm/.zombiescope-0")
    assert outcomes(undo_all(hands, has_systemd=True)) == ["restored"]


def test_the_states_of_an_undo(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = deleted(root, tmp_path / "state", DELETE, MASK)
    assert undo_state(hands.journal.entries(), None) is UndoState.POSSIBLE
    undo_all(hands, has_systemd=True)
    assert undo_state(hands.journal.entries(), None) is UndoState.UNDONE
    cached = deleted(root, tmp_path / "other", DROP)
    assert undo_state(cached.journal.entries(), None) is UndoState.NOTHING
    cached.journal.add("undo")
    hands.journal.add("write", seq=99, do="stop_unit", unit="a.service")
    hands.journal.add("undo")
    assert undo_state(hands.journal.entries(), None) is UndoState.IN_THE_MIDDLE


def test_the_command_says_what_is_lost_and_exits_with_5_until_it_is_back(tmp_path: Path, capsys: Capture) -> None:
    root, state = build(tmp_path / "root"), tmp_path / "state"
    deleted(root, state, DELETE, MASK)
    words = ["undo", "--state", str(state)]
    restore = f"zombiescope undo one --restore --yes --state {state}"
    assert main(words) == 0
    dry = capsys.readouterr().out.splitlines()
    assert dry[0] == "dry run: nothing was changed; 1 change of one would be taken back; 1 change cannot be undone"
    assert dry[-1] == f"to do it: zombiescope undo one --yes --state {state}"
    assert f"  /dev/shm/5   copy: {state}/actions/one/kept/01-000000" in dry
    assert main([*words, "--yes"]) == 5
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "not everything was taken back: 1 of 2 changes of one; 1 cannot be undone"
    assert said[-1] == f"to put them back: {restore}"
    assert not (root / "etc/systemd/system/a.service").is_symlink()
    assert main([*words, "--restore", "--yes", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["outcome"] for each in found["changes"]] == ["restored", "restored"]
    assert found["kept"] == []
    assert (root / "dev/shm/5").read_text() == "in memory 5"
    assert main([*words, "--yes"]) == 0
    assert capsys.readouterr().out.startswith("nothing is left to take back of one\n")


def test_undo_and_restore_at_once_lose_nothing(tmp_path: Path, capsys: Capture) -> None:
    root, state = build(tmp_path / "root"), tmp_path / "state"
    before = picture(root)
    deleted(root, state, DELETE, MASK)
    assert main(["undo", "--state", str(state), "--restore", "--yes"]) == 0
    assert capsys.readouterr().out.startswith("taken back: 3 changes of one\n")
    assert picture(root) == before


def test_what_has_no_copy_stays_lost(tmp_path: Path, capsys: Capture) -> None:
    root, state = build(tmp_path / "root"), tmp_path / "state"
    (root / "dev/shm/6").write_bytes(bytes(plan.KEPT_BYTES + 1))
    deleted(root, state)
    assert main(["undo", "--state", str(state), "--restore", "--yes"]) == 5
    out = capsys.readouterr().out
    assert "cannot be undone delete 1 file   no copy was kept" in out
    assert (root / "dev/shm/5").exists()


def test_cached_memory_that_was_let_go_is_no_loss(tmp_path: Path, capsys: Capture) -> None:
    root, state = build(tmp_path / "root"), tmp_path / "state"
    deleted(root, state, DROP)
    assert main(["undo", "--state", str(state), "--yes"]) == 0
    assert "nothing to do    drop 1 file   only cached memory was let go" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code"), [(["undo"], 3), (["undo", "--yes"], 4), (["verify", "--window", "0"], 3), (["actions"], 3)]
)
def test_without_root_there_is_a_hint_and_no_bug(tmp_path: Path, capsys: Capture, words: list[str], code: int) -> None:
    state = tmp_path / "state"
    deleted(build(tmp_path / "root"), state)
    assert main(["actions", "--state", str(state)]) == 0  # loads what a user without root may not
    assert main(["verify", "--state", str(state)]) == 3
    capsys.readouterr()
    got, out, err = as_nobody(lambda: main([*words, "--state", str(state)]))
    assert (got, out) == (code, "")
    assert "permission denied" in err
    assert "sudo zombiescope" in err
    assert "bug" not in err


def test_actions_say_what_was_done_and_what_to_type(tmp_path: Path, capsys: Capture) -> None:
    root, state = build(tmp_path / "root"), tmp_path / "state"
    assert main(["actions", "--state", str(state)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"nothing was applied: no journal in {state}/actions"
    deleted(root, state, DELETE, MASK)
    assert main(["actions", "--state", str(state)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"1 action in {state}: 1 can be undone"
    assert said[2] == "one   2001-09-09 01:46 UTC   2 steps done   can be undone"
    assert f"    to put them back: zombiescope undo one --restore --yes --state {state}" in said
    assert said[-1] == f"to take one back: zombiescope undo one --yes --state {state}"
    main(["undo", "--state", str(state), "--restore", "--yes"])
    capsys.readouterr()
    assert main(["actions", "--state", str(state), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (action,) = found["actions"]
    assert (found["schema"], found["total"], action["id"], action["undo"]) == (
        "zombiescope.actions/1",
        1,
        "one",
        "undone",
    )
    assert [(step["name"], step["status"]) for step in action["steps"]] == [("step1", "done"), ("step2", "done")]
    assert action["kept"] == []
    assert {gap["fact"] for gap in found["gaps"]} >= {"actions[].zombies_freed"}


def test_a_journal_that_cannot_be_read_is_said(tmp_path: Path, capsys: Capture) -> None:
    state = tmp_path / "state"
    deleted(build(tmp_path / "root"), state).journal.add("later", v=2)
    assert main(["actions", "--state", str(state)]) == 0
    assert "its format is version 2" in capsys.readouterr().out
