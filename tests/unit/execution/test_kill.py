# SPDX-License-Identifier: Apache-2.0
"""`kill -9` after every line of the journal and after every change of every primitive, then undo: as it was declared.

SIGINT, SIGTERM and SIGHUP at the same points, each followed by more of them: everything is put back before it ends.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from tests.unit.execution.machine import ETC, build, picture, seen, step, workshop

from zombiescope.errors import ActionFailedError, ActionUndoneError, ZombiescopeError
from zombiescope.execution.journal import Entry, read_entries
from zombiescope.execution.surprise import ENDING, Attention
from zombiescope.execution.undo import pending, undo_all
from zombiescope.execution.way_back import WayBack
from zombiescope.host.writes import Writer
from zombiescope.remedies import plan
from zombiescope.remedies.plan import NamedFile, ReclaimWay, Undo

GROUP = b"/sys/fs/cgroup/a/"
CHANGES: list[tuple[plan.Change, Undo]] = [
            (plan.StopUnit("a.service"), Undo.RESTART),
            (plan.PlaceLink(ETC + b"/a.service", b"/dev/null"), Undo.EXACT),
            (plan.RemoveLinks((ETC + b"/multi-user.target.wants/b.service",
                               ETC + b"/multi-user.target.wants/c\xff.service")), Undo.EXACT),
            (plan.PlaceFile(ETC + b"/a.service.d/50-x.conf", b"[Service]\nRestartSec=30\n"), Undo.EXACT),
            (plan.PlaceFile(b"/etc/existing.conf", b"ours\n"), Undo.EXACT),
            (plan.SetFile(b"/sys/knob", b"after"), Undo.EXACT),
            (plan.Flush(b"/a"), Undo.NONE),
            (plan.DropFiles((NamedFile(b"/var/log/5", None), NamedFile(b"/var/log/6", None))), Undo.NONE),
            (plan.RewriteFiles((NamedFile(b"/dev/shm/5", None), NamedFile(b"/dev/shm/6", None))), Undo.EXACT),
            (plan.DeleteFiles((NamedFile(b"/dev/shm/5", None), NamedFile(b"/dev/shm/6", None))), Undo.NONE),
            (plan.RemoveSegments((5, 6)), Undo.NONE),
            (plan.Reclaim(b"/a", ReclaimWay.MEMORY_RECLAIM, (GROUP + b"memory.reclaim",), 1), Undo.NONE),
            (plan.Reclaim(b"/a", ReclaimWay.MEMORY_HIGH, (GROUP + b"memory.high",), 1), Undo.NONE),
            (plan.Reclaim(b"/a", ReclaimWay.FORCE_EMPTY, (GROUP + b"memory.force_empty",), 1), Undo.NONE),
            (plan.SwapIn((b"/swap",)), Undo.EXACT),
            (plan.DropCaches(GROUP + b"trigger"), Undo.NONE),
]  # fmt: skip
STEPS = [step(n, change, undo) for n, (change, undo) in enumerate(CHANGES, 1)]
GONE = re.compile(r"dev/shm/|segments/")
WRITTEN = re.compile(r"cgroup\.procs|memory\.reclaim|memory\.force_empty|trigger")
"""Files that do something when they are written and have no value."""


def run_all(root: Path, state: Path, fault: Callable[[str], None]) -> None:
    _, executor = workshop(root, state, fault)
    for each in STEPS:
        executor.run(seen(root, each))


def undo_everything(root: Path, state: Path, fault: Callable[[str], None] = lambda _: None) -> None:
    hands, _ = workshop(root, state, fault)
    taken = undo_all(hands, has_systemd=True)
    assert [each for each in taken if each.outcome == "not-restored"] == []


def killed_at(number: int, work: Callable[[Callable[[str], None]], None]) -> bool:
    """Does the work in a child that kills itself at a point; False when it ended before."""
    child = os.fork()
    if child == 0:
        left = [number]

        def fault(_: str) -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        status = 3
        try:
            work(fault)
            status = 0
        finally:
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, -signal.SIGKILL), ended
    return ended != 0


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: hundreds of journals, each line of them synced."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    return build(tmp_path / "template")


def fresh(template: Path, place: Path, number: int) -> tuple[Path, Path]:
    root = place / str(number)
    shutil.copytree(template, root, symlinks=True)
    return root, place / f"state{number}"


def points_of(template: Path, place: Path) -> list[str]:
    met: list[str] = []
    root, state = fresh(template, place, -1)
    run_all(root, state, met.append)
    return met


def check(before: dict[str, tuple[object, ...]], root: Path, state: Path) -> None:
    after = picture(root)
    listed = {
        name.lstrip("/")
        for entry in entries_of(state)
        for name in [*entry.get("files", []), *(f"segments/{number}" for number in entry.get("segments", []))]
    }
    for name, was in before.items():
        if GONE.search(name) and name not in after:
            assert name in listed, f"{name} went and the journal does not say so"
        elif not WRITTEN.search(name):
            assert after[name] == was, name
    assert set(after) - set(before) == set()
    kept = {name: path for entry in entries_of(state) for name, path in entry.get("kept", {}).items()}
    for name, path in kept.items():
        assert Path(path).read_bytes() == before[name.lstrip("/")][1]
    assert pending(entries_of(state)) == []


def entries_of(state: Path) -> list[Entry]:
    return read_entries(str(state / "actions/one"))


def test_the_plan_has_every_primitive_and_meets_every_change_of_the_writer(template: Path, tmp_path: Path) -> None:
    assert {type(each.change) for each in STEPS} == set(get_args(plan.Change)) - {plan.AskHuman}
    met = {point.split()[0].partition(":")[2] for point in points_of(template, tmp_path) if point.startswith("after:")}
    looks = {"look", "read_value", "settle", "folder", "nameless"}
    undo_only = {"remove_folder", "put_back", "clear_beside", "restore_file"}
    methods = {name for name, _ in inspect.getmembers(Writer, inspect.isfunction) if not name.startswith("_")}
    named = {"swap": {"swapon", "swapoff"}}
    missing = {name for name in methods - looks - undo_only if not named.get(name, {name}) <= met}
    assert missing == set()


def test_a_whole_run_is_taken_back(template: Path, tmp_path: Path) -> None:
    root, state = fresh(template, tmp_path, 0)
    run_all(root, state, lambda _: None)
    changed = picture(root)
    assert changed["etc/existing.conf"][1] == b"ours\n"
    assert changed["units/a.service"][1] == b"inactive"
    assert changed["etc/systemd/system/a.service"][:2] == ("link", "/dev/null")
    undo_everything(root, state)
    check(picture(template), root, state)


def test_a_kill_at_any_point_is_taken_back(template: Path, tmp_path: Path) -> None:
    points = points_of(template, tmp_path)
    assert len(points) > 100
    before = picture(template)
    for number, _ in enumerate(points):
        root, state = fresh(template, tmp_path, number)
        assert killed_at(number, lambda fault, root=root, state=state: run_all(root, state, fault))  # type: ignore[misc]
        undo_everything(root, state)
        check(before, root, state)
        shutil.rmtree(root)


def interrupted_at(number: int, root: Path, state: Path, which: signal.Signals) -> ZombiescopeError | None:
    """What `apply` ends with when a signal comes at a point, and again at each that follows; None where it came too late."""
    left = [number]

    def fault(_: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), which)

    with Attention(fault) as attention:
        hands, executor = workshop(root, state, attention.point)
        try:
            WayBack(hands, attention, has_systemd=True).guard(
                lambda: [executor.run(seen(root, each)) for each in STEPS]
            )
        except (ActionUndoneError, ActionFailedError) as error:
            return error
        finally:
            hands.journal.close()
    return None


@pytest.mark.parametrize("which", ENDING, ids=lambda each: each.name)
def test_a_signal_at_any_point_is_taken_back_at_once(template: Path, tmp_path: Path, which: signal.Signals) -> None:
    before, handler = picture(template), signal.getsignal(which)
    points = points_of(template, tmp_path)
    for number, point in enumerate(points):
        root, state = fresh(template, tmp_path, number)
        error = interrupted_at(number, root, state, which)
        assert error is not None, point
        assert f"interrupted by {which.name}" in error.what
        assert f"zombiescope undo one --yes --state {state}" in error.hint
        check(before, root, state)
        lost = any(GONE.search(name) for name in set(before) - set(picture(root)))
        assert error.exit_code == 5 if lost else error.exit_code in (4, 5), point  # announced is taken for gone
        said = [(entry["signal"], entry["what"]) for entry in entries_of(state) if entry["entry"] == "surprise"]
        assert said == [(which.name, f"interrupted by {which.name}")]
        shutil.rmtree(root)
    assert signal.getsignal(which) is handler


@pytest.mark.parametrize("which", ENDING, ids=lambda each: each.name)
def test_no_signal_stops_an_undo(template: Path, tmp_path: Path, which: signal.Signals) -> None:
    root, state = fresh(template, tmp_path, 0)
    run_all(root, state, lambda _: None)
    heard = []

    def fault(point: str) -> None:
        heard.append(point)
        os.kill(os.getpid(), which)

    with Attention(fault) as attention:
        attention.restoring()
        undo_everything(root, state, attention.point)
    assert len(heard) > 30
    check(picture(template), root, state)


def test_a_kill_of_the_undo_at_any_point_is_mended_by_another(template: Path, tmp_path: Path) -> None:
    before, number = picture(template), 0
    while True:
        root, state = fresh(template, tmp_path, number)
        run_all(root, state, lambda _: None)
        was_killed = killed_at(number, lambda fault, root=root, state=state: undo_everything(root, state, fault))  # type: ignore[misc]
        undo_everything(root, state)
        check(before, root, state)
        shutil.rmtree(root)
        number += 1
        if not was_killed:
            break
    assert number > 30


def test_what_somebody_changed_since_is_left_alone_and_said(template: Path, tmp_path: Path) -> None:
    root, state = fresh(template, tmp_path, 0)
    run_all(root, state, lambda _: None)
    (root / "etc/existing.conf").write_text("somebody else's")
    hands, _ = workshop(root, state)
    taken = undo_all(hands, has_systemd=True)
    assert [(each.outcome, each.why) for each in taken if each.outcome == "not-restored"] == [
        ("not-restored", "/etc/existing.conf was changed since")
    ]
    assert (root / "etc/existing.conf").read_text() == "somebody else's"
