# SPDX-License-Identifier: Apache-2.0
"""Story (b): a systemd service that crash-loops and leaves files behind leaks one zombie a run below its slice."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path

import pytest
from tests.vm.cells import Cell, Hierarchy, Init
from tests.vm.stories.groves import dying, memory_mount, quiet, settled, zombies_on_v1
from tests.vm.stories.pins import FILES, SHARED
from tests.vm.stories.product import document, zombies_below

UNITS = Path("/run/systemd/system")
RUNS = 8
SLICE = "/story.slice"
CRASH = f"""[Unit]
StartLimitIntervalSec=0
[Service]
Slice=story.slice
ExecStart=/bin/sh -c 'echo left >{SHARED}/story-crash-$$$$; echo left >{FILES}/story-crash-$$$$; exit 1'
Restart=always
RestartSec=100ms
"""
# Without a living unit in it systemd would remove the slice, and its zombies would be counted at the root.
ANCHOR = "[Service]\nSlice=story.slice\nExecStart=/bin/sleep infinity\n"

pytestmark = [
    pytest.mark.cells.with_args(lambda cell: cell.init is Init.SYSTEMD),
    pytest.mark.in_ci("6.1-v2", "6.1-v1"),
]


def systemctl(*arguments: str) -> str:
    return subprocess.run(["systemctl", *arguments], check=True, capture_output=True, text=True).stdout


def left_behind() -> int:
    return len(list(SHARED.glob("story-crash-*")))


@pytest.fixture
def zombies_before(cell: Cell) -> int:
    return quiet(zombies_on_v1) if cell.memory_is_v1 else 0


@pytest.fixture
def runs(zombies_before: int) -> Iterator[int]:
    """How often the service ran: it leaves one file a run."""
    (UNITS / "story-crash.service").write_text(CRASH)
    (UNITS / "story-anchor.service").write_text(ANCHOR)
    systemctl("daemon-reload")
    systemctl("start", "story-anchor.service")
    systemctl("start", "--no-block", "story-crash.service")
    deadline = time.monotonic() + 600
    while left_behind() < RUNS:
        assert time.monotonic() < deadline, f"{left_behind()} runs in ten minutes"
        time.sleep(0.2)
    systemctl("stop", "story-crash.service")
    yield left_behind()
    systemctl("stop", "story-anchor.service")
    for path in [*SHARED.glob("story-crash-*"), *FILES.glob("story-crash-*")]:
        path.unlink()


def check_makers(runs: int) -> None:
    """The exact walk names the unit as the maker of each, and what it left behind as the pins."""
    answer = document("autopsy", "--limit", "0")
    if answer["tier"] not in {"bpf", "kcore"}:
        return  # 5.10: the story of the census says what must be told then
    ours = [zombie for zombie in answer["zombies"] if zombie["maker"] == "unit:story-crash.service"]
    assert len(ours) == runs
    assert {zombie["path"] for zombie in ours} == {f"{SLICE}/story-crash.service"}
    left = {str(path) for path in SHARED.glob("story-crash-*")}
    assert {pin["path"] for zombie in ours for pin in zombie["pins"] if pin["kind"] == "tmpfs"} == left


@pytest.mark.cells.with_args(lambda cell: cell.hierarchy is Hierarchy.V2 and not cell.reparents)
def test_one_zombie_a_run_below_the_slice(cell: Cell, runs: int) -> None:
    assert settled(lambda: dying(memory_mount(cell) / "story.slice"), runs) == runs, "the kernel's own count"
    answer = document("scan")
    assert zombies_below(answer, SLICE) == runs
    counts = [parent["zombies"] for parent in answer["parents"]]  # what earlier stories started may have left more
    assert counts == sorted(counts, reverse=True), "the largest first"
    check_makers(runs)


@pytest.mark.cells.with_args(lambda cell: cell.memory_is_v1)
def test_one_zombie_a_run_on_v1(runs: int, zombies_before: int) -> None:
    # The anchor and the slice live; all that died since is the service's.
    # v1 counts for the whole machine only, where an older zombie may go meanwhile.
    grown = settled(lambda: zombies_on_v1() - zombies_before, runs)
    assert runs - 2 <= grown <= runs, "the kernel's own count"
    answer = document("scan")
    assert answer["memcg"]["zombies"] == zombies_on_v1()
    held = {parent["path"]: parent["bytes"] for parent in answer["parents"]}
    assert held[SLICE]["shmem"] == runs * PAGESIZE
    assert held[SLICE]["file"] >= runs * PAGESIZE
    check_makers(runs)


@pytest.mark.cells.with_args(lambda cell: cell.reparents)
def test_no_zombie_where_pages_are_reparented(cell: Cell, runs: int) -> None:
    assert runs >= RUNS
    subprocess.run(["sync"], check=True)  # a file dirty at death keeps its group until it is written

    def left() -> int:
        """The kernel lets go of written files of the dead when a group dies, and only then: one does."""
        passing = memory_mount(cell) / "story-passing"
        passing.mkdir()
        passing.rmdir()
        return dying(memory_mount(cell) / "story.slice")

    assert settled(left, 0, seconds=60) == 0, "the kernel's own count"
    assert zombies_below(document("scan"), SLICE) == 0
