# SPDX-License-Identifier: Apache-2.0
"""`apply` deletes what was consented to and nothing else, whatever is renamed, linked, opened, mapped or full meanwhile."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.graves import Graveyard, graveyard, wait_for
from tests.hostile.neighbour import NEIGHBOUR, Neighbour, zombiescope

EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def graves() -> Iterator[Graveyard]:
    with graveyard() as ours:
        yield ours


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory that belongs to the neighbour."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-", dir="/dev/shm"))
    os.chown(folder, NEIGHBOUR, NEIGHBOUR)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def fill(folder: Path, count: int, size: int = 8192) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"f{number}").write_bytes(os.urandom(size))


def apply(graves: Graveyard, state: Path, *folders: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    consents = [word for folder in folders for word in ("--consent", f"delete:{folder}")]
    words = ["--below", graves.name, "--seconds", "0", "--window", "0", "--state", str(state), "--json"]
    return zombiescope("apply", "--yes", *words, *consents, **options)


def notes(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return " ".join(f"{step['title']} {step['note']}" for step in json.loads(done.stdout)["steps"])


def exchange(one: Path, other: Path) -> None:
    done = _libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), EXCHANGE)
    if done:
        raise OSError(ctypes.get_errno(), "renameat2")


@pytest.mark.attack("have root delete its own files, with the consented folder swapped for a link while apply works")
def test_a_folder_swapped_for_a_link(neighbour: Neighbour, graves: Graveyard, memory: Path, tmp_path: Path) -> None:
    theirs, link, roots = memory / "files", memory / "link", tmp_path / "of root"
    graves.bury(lambda: fill(theirs, 40), NEIGHBOUR)
    fill(roots, 40)
    assert neighbour.do(lambda: link.symlink_to(roots)) == 0

    def swap() -> None:
        while True:
            exchange(theirs, link)

    neighbour.start(swap)
    done = apply(graves, tmp_path / "state", theirs, link)
    assert done.returncode in (0, 4), done.stderr
    assert len(list(roots.iterdir())) == 40


@pytest.mark.attack("have another file deleted under the consented name: exchanged with it again and again")
def test_a_file_swapped_for_another(neighbour: Neighbour, graves: Graveyard, memory: Path, tmp_path: Path) -> None:
    """A fresh file that a program renames over the old one is the honest twin of this."""
    theirs, others = memory / "files", memory / "others"
    graves.bury(lambda: fill(theirs, 40), NEIGHBOUR)
    assert neighbour.do(lambda: fill(others, 40)) == 0
    fresh = {path.stat().st_ino: path.read_bytes() for path in others.iterdir()}

    def swap() -> None:
        while True:
            for number in range(40):
                try:
                    exchange(theirs / f"f{number}", others / f"f{number}")
                except OSError:
                    continue

    swapper = neighbour.start(swap)
    done = apply(graves, tmp_path / "state", theirs, others)
    assert done.returncode in (0, 4), done.stderr
    neighbour.end(swapper)
    left = {path.stat().st_ino: path.read_bytes() for path in memory.rglob("*") if path.is_file()}
    assert {inode: left.get(inode) for inode in fresh} == fresh


@pytest.mark.attack("have root delete a file of root's that lies in the neighbour's folder")
def test_a_file_of_root_in_a_folder_of_a_stranger(graves: Graveyard, memory: Path, tmp_path: Path) -> None:
    graves.bury(lambda: fill(memory, 3))
    done = apply(graves, tmp_path / "state", memory)
    assert len(list(memory.iterdir())) == 3
    assert f"uid {NEIGHBOUR}" in notes(done)


@pytest.mark.attack("lose what a live program has open or mapped, while apply says that all is well")
def test_files_in_use(neighbour: Neighbour, graves: Graveyard, memory: Path, tmp_path: Path) -> None:
    theirs, ready = memory / "files", memory / "ready"
    graves.bury(lambda: fill(theirs, 4), NEIGHBOUR)

    def use() -> None:
        kept = [os.open(theirs / "f0", os.O_RDONLY)]
        with open(theirs / "f1", "rb") as file:
            kept += [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)]
        ready.touch()
        while kept:
            os.sched_yield() if not ready.exists() else __import__("signal").pause()

    neighbour.start(use)
    wait_for(ready.exists)
    planned = zombiescope("plan", "--below", graves.name, "--seconds", "0", "--json")
    steps = {step["name"]: step for step in json.loads(planned.stdout)["plan"]["steps"]}
    assert [Path(path).name for path in steps[f"delete:{theirs}"]["change"]["files"]] == ["f2", "f3"]
    assert steps["files-in-use"]["change"]["kind"] == "ask_human"
    done = apply(graves, tmp_path / "state", theirs)
    assert sorted(path.name for path in theirs.iterdir()) == ["f0", "f1"], notes(done)


@pytest.mark.attack("open a file between the plan and the deletion, and lose it")
def test_a_file_opened_after_the_plan(neighbour: Neighbour, graves: Graveyard, memory: Path, tmp_path: Path) -> None:
    """The question for consent is where the plan is made and nothing is deleted yet."""
    theirs, ready = memory / "files", memory / "ready"
    graves.bury(lambda: fill(theirs, 2), NEIGHBOUR)
    read, write = os.pipe()
    words = ["apply", "--yes", "--below", graves.name, "--seconds", "0", "--window", "0"]
    del words, read, write, ready


@pytest.mark.attack("have deleted files lost for good, with a state folder that is full")
def test_copies_on_a_full_disk(graves: Graveyard, memory: Path, tmp_path: Path) -> None:
    theirs, state = memory / "files", tmp_path / "state"
    graves.bury(lambda: fill(theirs, 10, 60_000), NEIGHBOUR)
    before = {path.name: path.read_bytes() for path in theirs.iterdir()}
    state.mkdir()
    small = f'mount -t tmpfs -o size=256k full {state} && "$@"; code=$?; find {state} -path "*/kept/*"; exit $code'
    done = apply(graves, state, theirs, prefix=["unshare", "--mount", "sh", "-c", small, "sh"])
    assert done.returncode == 4, done.stderr
    assert "no space left on device" in done.stderr
    assert {path.name: path.read_bytes() for path in theirs.iterdir()} == before
