# SPDX-License-Identifier: Apache-2.0
"""`undo` takes back what is still ours: not what the kernel rounded, nor what was put back, nor what another boot held."""

from __future__ import annotations

import mmap
import os
import signal
from base64 import b64encode
from pathlib import Path

import pytest
from tests.unit.execution.machine import ETC, FileMachine, build, step, workshop

from zombiescope.errors import ActionUndoneError
from zombiescope.execution.journal import Write, read_entries
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import Attention
from zombiescope.execution.undo import is_in_the_middle, undo_all
from zombiescope.execution.way_back import WayBack, ended_in_the_middle, refuse_in_the_middle
from zombiescope.host.children import Ran
from zombiescope.remedies import plan
from zombiescope.remedies.plan import ReclaimWay, Undo
from zombiescope.remedies.receipts import Taken

KNOB = step(1, plan.SetFile(b"/sys/knob", b"5000"), Undo.EXACT)
MASK = step(2, plan.PlaceLink(ETC + b"/a.service", b"/dev/null"), Undo.EXACT)
STOP = step(3, plan.StopUnit("a.service"), Undo.RESTART)
SWAP = step(4, plan.SwapIn((b"/swap",)), Undo.EXACT)
HIGH = step(5, plan.Reclaim(b"/a", ReclaimWay.MEMORY_HIGH, (b"/sys/fs/cgroup/a/memory.high",), 1), Undo.NONE)


class Rounding(FileMachine):
    """As the kernel does: whole pages."""

    def set_file(self, path: bytes, value: bytes) -> None:
        super().set_file(path, b"%d" % (int(value) // 4096 * 4096) if value.isdigit() else value)


def done(root: Path, state: Path, *steps: plan.Step, machine: type[FileMachine] = FileMachine) -> Hands:
    hands, executor = workshop(root, state)
    hands.writer = machine(os.fsencode(root))
    hands.journal.add("begin", boot_id="this one")
    for each in steps:
        executor.run(each)
    return hands


def outcomes(taken: list[Taken]) -> list[tuple[str, str]]:
    return [(each.what.split()[0], each.outcome) for each in taken]


def test_a_value_that_the_kernel_rounded_is_still_ours(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = done(root, tmp_path / "state", KNOB, machine=Rounding)
    assert (root / "sys/knob").read_text() == "4096"
    assert outcomes(undo_all(hands, has_systemd=True)) == [("set", "restored")]
    assert (root / "sys/knob").read_text() == "before"


def test_what_we_put_back_ourselves_is_nobodys_but_the_administrators(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = done(root, tmp_path / "state", SWAP, HIGH)
    (root / "sys/fs/cgroup/a/memory.high").write_text("0")
    (root / "proc/swaps").write_text("Filename Type Size Used Priority\n")
    assert {outcome for _, outcome in outcomes(undo_all(hands, has_systemd=True))} == {"nothing-to-do"}
    assert (root / "sys/fs/cgroup/a/memory.high").read_text() == "0"
    assert "/swap" not in (root / "proc/swaps").read_text()


def test_another_boot_has_its_files_back_and_nothing_else(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = done(root, tmp_path / "state", KNOB, MASK, STOP)
    taken = undo_all(hands, has_systemd=True, boot_id="a later one")
    assert outcomes(taken) == [("set", "nothing-to-do"), ("place", "restored"), ("stop", "nothing-to-do")]
    assert all("started again since" in each.why for each in taken if each.outcome == "nothing-to-do")
    assert ((root / "sys/knob").read_text(), (root / "units/a.service").read_text()) == ("5000", "inactive")


def test_what_a_kill_left_beside_a_file_goes(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = done(root, tmp_path / "state", step(1, plan.PlaceFile(b"/etc/existing.conf", b"ours\n"), Undo.EXACT))
    beside = root / "etc/existing.conf.zombiescope-new"
    beside.write_text("half a fi")
    assert outcomes(undo_all(hands, has_systemd=True)) == [("place", "restored")]
    assert not beside.exists()


class DeafSystemd(FileMachine):
    def systemctl(self, *words: str, seconds: float = 150.0) -> Ran:
        if words[0] == "daemon-reload":
            return Ran(1, b"", "Connection timed out")
        return super().systemctl(*words, seconds=seconds)


def test_a_reload_that_fails_keeps_nothing_from_being_put_back(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = done(root, tmp_path / "state", KNOB, MASK, STOP)
    hands.writer = DeafSystemd(os.fsencode(root))
    taken = undo_all(hands, has_systemd=True)
    assert [each.what for each in taken if each.outcome == "not-restored"] == ["daemon-reload"]
    assert ((root / "sys/knob").read_text(), (root / "units/a.service").read_text()) == ("before", "active")


def test_an_action_without_an_end_is_said_until_it_is_undone(tmp_path: Path) -> None:
    root, state = build(tmp_path / "root"), tmp_path / "state"
    hands = done(root, state, KNOB)
    assert ended_in_the_middle(str(state), "this one") == ["one"]
    assert ended_in_the_middle(str(state), "a later one") == [], "what the kernel held is gone"
    with pytest.raises(ActionUndoneError, match="ended in the middle") as error:
        refuse_in_the_middle(str(state), "this one")
    assert f"zombiescope undo one --yes --state {state}" in error.value.hint
    undo_all(hands, has_systemd=True)
    assert ended_in_the_middle(str(state), "this one") == []


def test_an_action_that_ended_is_not_in_the_middle_until_its_undo_is(tmp_path: Path) -> None:
    hands = done(build(tmp_path / "root"), tmp_path / "state", MASK, HIGH)
    hands.journal.add("end", outcome="done")
    assert not is_in_the_middle(read_entries(hands.journal.folder), None)
    hands.journal.add("undo")
    assert is_in_the_middle(read_entries(hands.journal.folder), None)


def test_a_bug_puts_everything_back_and_stays_a_bug(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = done(root, tmp_path / "state", KNOB)
    with pytest.raises(ZeroDivisionError) as bug:
        WayBack(hands, Attention(), has_systemd=True).take_all_back(ZeroDivisionError("a bug"))
    assert "had changed was put back" in bug.value.__notes__[0]
    assert (root / "sys/knob").read_text() == "before"


class LateAttention(Attention):
    """A signal comes after an error and before the way back begins."""

    def restoring(self) -> None:
        if not self._was_raised:
            self._is_waiting = True
            os.kill(os.getpid(), signal.SIGTERM)
        super().restoring()


def test_a_signal_just_before_the_way_back_does_not_keep_it_from_beginning(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = done(root, tmp_path / "state", KNOB)

    def fail() -> None:
        raise OSError(5, "Input/output error")

    with LateAttention() as attention, pytest.raises(ActionUndoneError, match="SIGTERM"):
        WayBack(hands, attention, has_systemd=True).guard(fail)
    assert (root / "sys/knob").read_text() == "before"


@pytest.mark.parametrize(("pages", "outcome"), [(2, "restored"), (1, "not-restored")])
def test_a_rounded_value_is_ours_also_after_a_kill(tmp_path: Path, pages: int, outcome: str) -> None:
    root = build(tmp_path / "root")
    hands, _ = workshop(root, tmp_path / "state")
    ours = b64encode(b"%d" % (2 * mmap.PAGESIZE + 1)).decode()
    hands.journal.intend(1, Write.SET_FILE, path="/sys/knob", before=b64encode(b"before").decode(), value=ours)
    (root / "sys/knob").write_text(str(pages * mmap.PAGESIZE))
    assert [each.outcome for each in undo_all(hands, has_systemd=True)] == [outcome]


def test_a_terminal_that_fails_is_a_surprise(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands = done(root, tmp_path / "state", KNOB)
    with pytest.raises(ActionUndoneError, match="stopped in the middle"):
        WayBack(hands, Attention(), has_systemd=True).take_all_back(OSError(5, "Input/output error"))
    assert (root / "sys/knob").read_text() == "before"
