# SPDX-License-Identifier: Apache-2.0
"""Reports, pictures, histories and logs: whatever lies under the name that root gave, no file of root's is written through it."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
from tests.hostile.graves import wait_for
from tests.hostile.neighbour import INSTALLED, PATIENCE, Neighbour, zombiescope
from tests.profiler.perf_files import small_capture

STACKS = "main;work 10\n"
SHARED = 0o1777
REFUSED = "uid 64999"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """As /tmp is, where the kernel is not set to distrust links."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(SHARED)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("of root")
    path.chmod(0o600)
    return path


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    (tmp_path / "stacks.txt").write_text(STACKS)
    done = zombiescope("profile", "import", str(tmp_path / "stacks.txt"), "--captures", str(tmp_path / "captures"))
    assert done.returncode == 0, done.stderr
    return tmp_path / "captures"


@pytest.mark.attack("have root write its report or picture over a file of root's, by a link under the name it was told")
def test_a_link_under_the_name_of_an_answer(neighbour: Neighbour, shared: Path, victim: Path, captures: Path) -> None:
    """In a shared folder, and in one of theirs."""
    profile = ("latest", "--captures", str(captures))
    commands = (
        ("doctor", "--root", str(shared), "--html"),
        ("profile", "flame", *profile, "--svg"),
        ("profile", "export", *profile, "--form", "collapsed", "--output"),
    )
    for folder in (shared, neighbour.folder):
        link = folder / "answer"
        assert neighbour.do(partial(os.symlink, victim, link)) == 0
        for command in commands if folder == shared else commands[-1:]:
            done = zombiescope(*command, str(link))
            assert victim.read_text() == "of root"
            assert done.returncode in (2, 3) and REFUSED in done.stderr, done.stdout + done.stderr


@pytest.mark.attack(
    "have root write its answer, recording or capture into a folder of root's, by a link on the way to it"
)
def test_a_link_on_the_way_to_an_answer(neighbour: Neighbour, victim: Path, captures: Path) -> None:
    roots = victim.parent / "roots"
    roots.mkdir(mode=0o700)
    assert neighbour.do(partial(os.symlink, roots, neighbour.folder / "out")) == 0
    assert neighbour.do(partial(os.symlink, victim.parent / "made by root", neighbour.folder / "new")) == 0
    report = ("profile", "export", "latest", "--captures", str(captures), "--form", "collapsed", "--output")
    store = ("profile", "import", str(victim.parent / "stacks.txt"), "--captures")
    for link in ("out", "new"):
        on_the_way = neighbour.folder / link
        for words in (
            (*report, str(on_the_way / "report.txt")),
            ("record", str(on_the_way / "r.tar.gz"), "--seconds", "0", "--force"),
            (*store, str(on_the_way)),
        ):
            done = zombiescope(*words)
            assert done.returncode in (2, 3, 4), done.stdout + done.stderr
            assert link == "new" or REFUSED in done.stderr, done.stdout + done.stderr
    assert list(roots.iterdir()) == []
    assert not (victim.parent / "made by root").exists()


@pytest.mark.attack("have root wait for ever at a pipe that lies where a table of symbols was")
def test_a_pipe_where_a_table_of_symbols_was(neighbour: Neighbour, captures: Path) -> None:
    pipe = neighbour.folder / "pipe"
    assert neighbour.do(lambda: os.mkfifo(pipe)) == 0
    stacks = str(captures.parent / "perf.data")
    Path(stacks).write_bytes(small_capture().file())
    stored = ("--captures", str(captures), "--name", "x")
    assert zombiescope("profile", "import", stacks, *stored, "--kallsyms", str(pipe)).returncode == 0


@pytest.mark.attack("have root wait for ever at a pipe under the name of its report")
def test_a_pipe_under_the_name_of_an_answer(neighbour: Neighbour, shared: Path, captures: Path) -> None:
    assert neighbour.do(lambda: os.mkfifo(shared / "answer")) == 0
    words = ("profile", "flame", "latest", "--captures", str(captures), "--svg", str(shared / "answer"))
    assert REFUSED in zombiescope(*words).stderr


@pytest.mark.attack("have root's agent write into a file of root's, by links in a state folder that they can write")
@pytest.mark.parametrize("place", ["theirs", "shared"])
def test_links_in_a_state_folder(neighbour: Neighbour, shared: Path, victim: Path, place: str) -> None:
    folder = shared if place == "shared" else neighbour.folder / "state"

    def plant() -> None:
        folder.mkdir(exist_ok=True)
        for name in ("lock", "history.log", "history.log.new", "reap.lock", "reap.jsonl"):
            (folder / name).symlink_to(victim if name != "lock" else victim.parent / "made by root")

    assert neighbour.do(plant) == 0
    agent = subprocess.Popen(
        [str(INSTALLED), "agent", "--state", str(folder), "--listen", "", "--textfile", str(victim.parent / "out")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        wait_for((victim.parent / "out").exists)
    finally:
        agent.send_signal(signal.SIGTERM)
        said = agent.communicate(timeout=PATIENCE)[0]
    assert victim.read_text() == "of root"
    assert not (victim.parent / "made by root").exists()
    assert "cannot keep a history" in said


@pytest.mark.attack("have root's reaper keep its log in a file of root's")
def test_links_for_the_log_of_the_reaper(neighbour: Neighbour, victim: Path) -> None:
    folder = neighbour.folder / "state"

    def plant() -> None:
        folder.mkdir()
        (folder / "reap.lock").symlink_to(victim.parent / "made by root")

    assert neighbour.do(plant) == 0
    done = zombiescope("reap", "--yes", "--leave", "1000000", "--state", str(folder))
    assert REFUSED in done.stderr, done.stdout + done.stderr
    assert not (victim.parent / "made by root").exists()


@pytest.mark.attack("have whoever reads their history wait for ever at a pipe")
@pytest.mark.parametrize("name", ["history.log", "history.db", "history.db-journal", "history.db-wal"])
def test_a_pipe_in_a_history(neighbour: Neighbour, name: str) -> None:
    def plant() -> None:
        (neighbour.folder / "history.db").touch()
        (neighbour.folder / name).unlink(missing_ok=True)
        os.mkfifo(neighbour.folder / name)

    assert neighbour.do(plant) == 0
    done = zombiescope("history", "--state", str(neighbour.folder))
    assert "not a regular file" in done.stdout + done.stderr
    assert "bug" not in done.stderr
