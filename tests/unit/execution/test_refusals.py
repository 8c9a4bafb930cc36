# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong: a clear error, and nothing half done."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.execution.machine import ETC, FileMachine, build, picture, seen, step, workshop

from zombiescope.errors import ActionFailedError, ActionUndoneError, UsageError, ZombiescopeError
from zombiescope.execution.executor import Executor, Surroundings
from zombiescope.execution.journal import ActionFolder, Journal, read_entries
from zombiescope.execution.surprise import Attention, SurpriseError
from zombiescope.execution.way_back import WayBack
from zombiescope.host.children import Ran
from zombiescope.host.removal import Found
from zombiescope.pipeline.act import _break_circuit
from zombiescope.remedies import plan
from zombiescope.remedies.plan import Expected, NamedFile, Plan, ReclaimWay, Undo

MASK = step(1, plan.PlaceLink(ETC + b"/a.service", b"/dev/null"), Undo.EXACT)
LIMIT = step(2, plan.PlaceFile(ETC + b"/a.service.d/50-x.conf", b"[Unit]\n"), Undo.EXACT)
STOP = step(3, plan.StopUnit("a.service"), Undo.RESTART)
DELETE = step(4, plan.DeleteFiles((NamedFile(b"/dev/shm/5", None),)), Undo.NONE)
VANISHED = step(5, plan.StopUnit("vanished.service"), Undo.RESTART)


def fails(root: Path, state: Path, machine: type[FileMachine], *steps: plan.Step) -> ZombiescopeError:
    """What `apply` ends with."""
    hands, executor = workshop(root, state)
    hands.writer = machine(os.fsencode(root))
    with pytest.raises(SurpriseError) as surprise:
        for each in steps:
            executor.run(each)
    with pytest.raises((ActionUndoneError, ActionFailedError)) as error:
        WayBack(hands, Attention(), has_systemd=True).take_all_back(surprise.value)
    return error.value


class ReadOnlyEtc(FileMachine):
    def place_file(self, path: bytes, what: Found) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


class FullDisk(FileMachine):
    def place_file(self, path: bytes, what: Found) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


class NoSystemd(FileMachine):
    def systemctl(self, *words: str, seconds: float = 150.0) -> Ran:
        if words[0] == "show":
            return Ran(1, b"", "System has not been booted with systemd as init system (PID 1). Can't operate.")
        raise OSError(errno.ENOENT, "systemctl is not installed")


@pytest.mark.parametrize(
    ("machine", "steps", "why"),
    [
        (ReadOnlyEtc, (MASK, LIMIT), "read-only file system"),
        (FullDisk, (MASK, LIMIT), "no space left on device"),
        (NoSystemd, (STOP,), "System has not been booted with systemd"),
        (FileMachine, (MASK, LIMIT, STOP, VANISHED), "the unit has vanished"),
    ],
)
def test_it_stops_and_puts_everything_back(
    tmp_path: Path, machine: type[FileMachine], steps: tuple[plan.Step, ...], why: str
) -> None:
    root = build(tmp_path / "root")
    before = picture(root)
    error = fails(root, tmp_path / "state", machine, *steps)
    assert error.exit_code == 4
    assert why in error.why
    assert picture(root) == before


def test_what_is_lost_is_said_and_has_another_exit_code(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    error = fails(root, tmp_path / "state", FileMachine, MASK, seen(root, DELETE), VANISHED)
    assert error.exit_code == 5
    assert "delete 1 file" in error.why
    assert "zombiescope undo one --yes" in error.hint
    assert not (root / "etc/systemd/system/a.service").is_symlink(), "what can come back came back"


def test_a_journal_that_cannot_be_written_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = build(tmp_path / "root")
    before = picture(root)
    hands, executor = workshop(root, tmp_path / "state")
    whole = hands.journal.add

    def full(entry: str, **facts: Any) -> None:
        if entry == "write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(entry, **facts)

    monkeypatch.setattr(hands.journal, "add", full)
    with pytest.raises(SurpriseError, match="no space left"):
        executor.run(MASK)
    assert picture(root) == before


def test_two_at_once_are_one_too_many(tmp_path: Path) -> None:
    folder = ActionFolder(str(tmp_path))
    with folder.locked(), pytest.raises(ActionUndoneError, match=f"process {os.getpid()} holds"), folder.locked():
        pass
    with folder.locked():
        pass


def test_a_link_that_became_a_file_is_not_removed(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    wants = root / "etc/systemd/system/multi-user.target.wants/b.service"
    wants.unlink()
    wants.write_text("a unit of its own")
    change = plan.RemoveLinks((ETC + b"/multi-user.target.wants/b.service",))
    error = fails(root, tmp_path / "state", FileMachine, step(1, change, Undo.EXACT))
    assert "it is a file" in error.why
    assert wants.read_text() == "a unit of its own"


def test_another_file_of_the_same_name_is_left_alone(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    _, executor = workshop(root, tmp_path / "state")
    change = plan.DeleteFiles((NamedFile(b"/dev/shm/5", 1), NamedFile(b"/dev/shm/gone", 2)))
    assert "2 of 2 left alone: 2 gone or another" in executor.run(step(1, change, Undo.NONE)).note
    assert (root / "dev/shm/5").exists()


def test_the_circuit_breaker_stops_what_was_done_three_times(tmp_path: Path) -> None:
    folder = ActionFolder(str(tmp_path))
    proposed = Plan("x", (), (MASK,), 0, 0)
    for number in range(3):
        _break_circuit(folder, proposed, 1000.0, again=False)
        journal = Journal(folder.folder(f"action{number}"), lambda: 999.0)
        journal.add("step-end", n=1, name=MASK.name, status="done")
    with pytest.raises(ActionUndoneError, match="3 times within a day"):
        _break_circuit(folder, proposed, 1000.0, again=False)
    _break_circuit(folder, proposed, 1000.0, again=True)
    _break_circuit(folder, proposed, 200_000.0, again=False)


def test_a_journal_of_another_version_and_one_cut_short(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "one"), lambda: 1.0)
    journal.add("begin")
    with open(tmp_path / "one/journal.jsonl", "ab") as file:
        file.write(b'{"v": 1, "entry": "wri')
    Journal(str(tmp_path / "one"), lambda: 1.0).add("end")
    assert [entry["entry"] for entry in read_entries(str(tmp_path / "one"))] == ["begin", "end"]
    with open(tmp_path / "one/journal.jsonl", "ab") as file:
        file.write(b'{"v": 2, "entry": "begin"}\n')
    with pytest.raises(UsageError, match="version 2"):
        read_entries(str(tmp_path / "one"))


@pytest.mark.parametrize(
    ("stocks", "pressures", "rounds", "says"),
    [
        ([9, 6, 3, 3, 3, 3], [0.0] * 9, 5, "5 rounds"),  # three that gain nothing end it
        ([9, 0], [0.0] * 9, 1, "1 round"),
        ([9, 6], [0.0, 90.0], 1, "stopped after 1 rounds: memory pressure"),
        ([0], [], 0, "0 rounds"),
    ],
)
def test_reclaim_goes_on_while_it_gains_and_pressure_allows(
    tmp_path: Path, stocks: list[int], pressures: list[float], rounds: int, says: str
) -> None:
    root = build(tmp_path / "root")
    hands, _ = workshop(root, tmp_path / "state")
    left, pressed = iter(stocks), iter(pressures)
    around = Surroundings(lambda: next(left), lambda: next(pressed), lambda _: None, None)
    change = plan.Reclaim(b"/a", ReclaimWay.MEMORY_RECLAIM, (b"/sys/fs/cgroup/a/memory.reclaim",), 1)
    note = Executor(hands, around, has_systemd=False).run(step(1, change, Undo.NONE)).note
    assert note.startswith(says)
    assert sum(entry["entry"] == "write" for entry in hands.journal.entries()) == rounds
    asked = (root / "sys/fs/cgroup/a/memory.reclaim").read_text()
    assert asked == (f"{16 << 20} swappiness=0" if rounds else "")


def test_what_is_freed_is_counted_to_its_end_although_the_kernel_pauses(tmp_path: Path) -> None:
    """Seen beside a busy core: 2,932 of 5,000 told, because two looks a tenth of a second apart saw the same number."""
    hands, _ = workshop(build(tmp_path / "root"), tmp_path / "state")
    stocks = [5000, 3000, 2068, *[2068] * 15, 900, *[900] * 15, 0]
    left = iter(stocks)
    around = Surroundings(lambda: next(left), lambda: 0.0, lambda _: None, None)
    asked = step(1, plan.SetFile(b"/sys/fs/cgroup/a/memory.high", b"1"), Undo.EXACT)._replace(
        expected=Expected(5000, None, 0)
    )
    assert Executor(hands, around, has_systemd=False).run(asked).zombies_freed == 5000
    less = iter([10, 4, *[4] * 30])
    around = Surroundings(lambda: next(less), lambda: 0.0, lambda _: None, None)
    assert Executor(hands, around, has_systemd=False).run(asked).zombies_freed == 6, (
        "what stays is not waited for to no end"
    )
    assert len(list(less)) == 10


def test_pages_in_the_swap_cache_are_asked_for_with_swap_and_more_often(tmp_path: Path) -> None:
    """Their swap entries keep the zombies meanwhile, so no round seems to gain."""
    root = build(tmp_path / "root")
    hands, _ = workshop(root, tmp_path / "state")
    around = Surroundings(lambda: 9, lambda: 0.0, lambda _: None, None)
    files = (b"/sys/fs/cgroup/a/memory.reclaim",)
    change = plan.Reclaim(b"/a", ReclaimWay.MEMORY_RECLAIM, files, 1, takes_swapped=True)
    assert Executor(hands, around, has_systemd=False).run(step(1, change, Undo.NONE)).note == "6 rounds"
    assert (root / "sys/fs/cgroup/a/memory.reclaim").read_text() == str(16 << 20)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"v":1,"entry":"write","seq":[],"do":"x"}',
        b'{"v":1,"entry":"step-end","at":"x"}',
        b'{"entry":{}}',
    ],
)
def test_a_line_that_says_nothing_whole_is_left_out(tmp_path: Path, line: bytes) -> None:
    folder = ActionFolder(str(tmp_path))
    place = Path(folder.folder("1"))
    place.mkdir(parents=True)
    (place / "journal.jsonl").write_bytes(line + b'\n{"v":1,"entry":"begin","at":1}\n')
    assert [entry["entry"] for entry in read_entries(str(place))] == ["begin"]
    assert list(folder.steps_done_since(0.0)) == []
