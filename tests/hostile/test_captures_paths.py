# SPDX-License-Identifier: Apache-2.0
"""What a stranger's capture names, and what strangers put where names of functions are looked for: nothing but regular files is
opened, and nobody names another's code."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.conftest import not_here
from tests.hostile.neighbour import Neighbour, zombiescope
from tests.hostile.opens import Opens
from tests.profiler.perf_files import USER_MARK, PerfFileBuilder

MADE_WHILE_RUNNING = b"//anon"
_CODE = 0x400000


def capture_of(folder: Path, pid: int, *mapped: bytes) -> Path:
    """One process with samples in each mapping."""
    builder = PerfFileBuilder().comm(0, pid, b"victim")
    for number, name in enumerate(mapped):
        builder.mmap2(0, pid, _CODE + (number << 20), 0x1000, 0, name)
    for tick in range(20 * len(mapped)):
        address = _CODE + (tick % len(mapped) << 20) + 0x100
        builder.sample(5_000_000_000 + tick * 10_000_000, 0, pid, [USER_MARK, address], mode=2)
    path = folder / "perf.data"
    path.write_bytes(builder.file())
    return path


def imported(folder: Path, path: Path) -> dict[str, Any]:
    words = ("profile", "import", str(path), "--captures", str(folder / "store"), "--json")
    done = zombiescope(*words)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def names_in(folder: Path) -> str:
    done = zombiescope("profile", "flame", "latest", "--captures", str(folder / "store"), "--json")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process of root's, for its number."""
    process = subprocess.Popen(["sleep", "600"])
    map_path = Path(f"/tmp/perf-{process.pid}.map")
    map_path.unlink(missing_ok=True)
    yield process.pid
    map_path.unlink(missing_ok=True)
    process.kill()
    process.wait()


@pytest.mark.attack("have root wait for ever at a pipe in place of a code map")
def test_a_pipe_for_a_code_map_holds_nobody_up(neighbour: Neighbour, tmp_path: Path, sleeper: int) -> None:
    assert neighbour.do(lambda: os.mkfifo(f"/tmp/perf-{sleeper}.map")) == 0
    document = imported(tmp_path, capture_of(tmp_path, sleeper, MADE_WHILE_RUNNING))
    assert "not a regular file" in json.dumps(document["gaps"])


@pytest.mark.attack("name the functions of root's process by a code map of the neighbour's")
def test_a_strangers_code_map_names_nothing(neighbour: Neighbour, tmp_path: Path, sleeper: int) -> None:
    false = f"400000 1000 innocent_{secrets.token_hex(4)}\n"
    assert neighbour.do(lambda: Path(f"/tmp/perf-{sleeper}.map").write_text(false)) == 0
    document = imported(tmp_path, capture_of(tmp_path, sleeper, MADE_WHILE_RUNNING))
    assert "innocent" not in names_in(tmp_path)
    assert f"belongs to user {neighbour.uid}" in json.dumps(document["gaps"])
    theirs = neighbour.start(signal.pause)  # their own code they may name, also to root
    code_map = Path(f"/tmp/perf-{theirs}.map")
    try:
        assert neighbour.do(lambda: code_map.write_text("400000 1000 their_own\n")) == 0
        imported(tmp_path, capture_of(tmp_path, theirs, MADE_WHILE_RUNNING))
    finally:
        code_map.unlink()
    assert "their_own" in names_in(tmp_path)


@pytest.mark.attack("have a file of root's taken for a code map, by a link")
def test_a_code_map_is_not_read_through_a_link(neighbour: Neighbour, tmp_path: Path, sleeper: int) -> None:
    secret = tmp_path / "secret"
    secret.write_text("400000 1000 secret_of_root\n")
    secret.chmod(0o600)
    assert neighbour.do(lambda: Path(f"/tmp/perf-{sleeper}.map").symlink_to(secret)) == 0
    imported(tmp_path, capture_of(tmp_path, sleeper, MADE_WHILE_RUNNING))
    assert "secret_of_root" not in names_in(tmp_path)


@pytest.mark.attack("have root wake a device, wait at a pipe or read a kernel file empty, by its name in a capture")
def test_only_regular_files_of_a_capture_are_opened(neighbour: Neighbour, tmp_path: Path) -> None:
    pipe, device = neighbour.folder / "library.so", tmp_path / "device"
    assert neighbour.do(lambda: os.mkfifo(pipe)) == 0
    os.mknod(device, 0o020600, os.makedev(1, 3))  # null: whatever is opened here is told by inotify
    kernel_file = Path("/proc/sys/fs/epoll/max_user_watches")  # nobody else reads it
    named = (pipe, device, kernel_file)
    with Opens(pipe) as at_pipe, Opens(device) as at_device, Opens(kernel_file) as at_kernel:
        document = imported(tmp_path, capture_of(tmp_path, 1 << 30, *map(bytes, named)))
        assert [each.happened for each in (at_pipe, at_device, at_kernel)] == [False] * 3
    gaps = json.dumps(document["gaps"])
    assert "file of the kernel" in gaps and "not a regular file" in gaps


@pytest.mark.attack("have a device among the stored captures opened")
def test_only_regular_files_are_listed(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    device = store / "evil.zscap"
    os.mknod(device, 0o020600, os.makedev(1, 3))
    with Opens(device) as opens:
        zombiescope("profile", "list", "--captures", str(store))
        assert not opens.happened


@pytest.mark.attack("lose what was imported, by recording into the same folder with a small ring")
def test_recording_removes_no_imported_capture(tmp_path: Path) -> None:
    imported(tmp_path, capture_of(tmp_path, 1 << 30, b"/bin/victim"))
    store = tmp_path / "store"
    (kept,) = store.glob("*.zscap")
    os.utime(kept, (1, 1))
    words = ("profile", "record", "--seconds", "2", "--segment", "1", "--with", "own", "--keep-days", "0.001")
    done = zombiescope(*words, "--captures", str(store))
    if done.returncode == 3:
        not_here(f"the processors cannot be sampled here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert kept.exists() and len(list(store.glob("*.zscap"))) > 1


@pytest.mark.attack("have root overwrite a file of its own, by a link in place of a half-written capture")
def test_a_link_in_the_folder_of_captures_is_not_written_through(neighbour: Neighbour, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("root's own\n")
    shared = tmp_path / "store"
    shared.mkdir()
    shared.chmod(0o1777)
    assert neighbour.do(lambda: (shared / "perf.data.zscap.partial").symlink_to(precious)) == 0
    imported(tmp_path, capture_of(tmp_path, 1 << 30, b"/bin/victim"))
    assert precious.read_text() == "root's own\n"


@pytest.mark.attack("blind root's profiler: a code map or program so large that the whole capture is refused")
def test_large_files_of_a_stranger_cost_their_own_names_only(neighbour: Neighbour, tmp_path: Path) -> None:
    """Holes, which cost them nothing. The neighbour's own process, so that its map is believed."""
    program, theirs = neighbour.folder / "program", neighbour.start(signal.pause)
    code_map = Path(f"/tmp/perf-{theirs}.map")

    def plant() -> None:
        for path in (program, code_map):
            with path.open("wb") as file:
                file.write(b"\x7fELF")
                file.truncate(300 << 20)

    assert neighbour.do(plant) == 0
    try:
        known = Path("/bin/sh").resolve()
        document = imported(tmp_path, capture_of(tmp_path, theirs, MADE_WHILE_RUNNING, bytes(program), bytes(known)))
    finally:
        code_map.unlink()
    assert "take too much memory" in json.dumps(document["gaps"])
