# SPDX-License-Identifier: Apache-2.0
"""The reaper on real zombies: what only page cache keeps goes, what is somebody's stays and is named, and a live cache is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.lab_driver import LabDriver
from tests.kernel.witness import Witness
from tests.kernel.zombie_maker import wait_until
from tests.product import PRODUCT

from zombiescope.analysis.reaping import Reaping
from zombiescope.execution.reap import resident_count
from zombiescope.facts.reaping import ReapBudget
from zombiescope.host.live import LiveHost
from zombiescope.pipeline.reap import Reaper, Scope

COUNT = 60
UNPRESSED = ("--memory-pressure", "100", "--io-pressure", "100", "--refaults", "1000000", "--core-share", "1")
"""Others may press the machine: the limits are for another test."""


def command(state: Path, subtree: str, *more: str) -> list[str]:
    return [
        *PRODUCT,
        "reap",
        "--parent",
        subtree,
        "--leave",
        "0",
        "--state",
        str(state),
        *more,
    ]


def reap(state: Path, subtree: str, *more: str) -> dict[str, Any]:
    done = subprocess.run(
        [*command(state, subtree, "--json"), *UNPRESSED, *more], check=True, capture_output=True, text=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.kernel
def test_page_cache_goes_after_a_dry_run_that_changed_nothing(lab: LabDriver, witness: Witness, tmp_path: Path) -> None:
    witness.forget()
    truth = lab.zombies("page-cache", COUNT)
    ids = {made["id"] for made in truth["made"]}
    would = reap(tmp_path, truth["subtree"])
    there = len(ids - witness.ids("release", truth["subtree"]))
    assert would["state"] == "would_evict"
    assert abs(would["evictable"] - there) <= 2, "the kernel may take a page at any time"
    assert not (tmp_path / "reap.jsonl").exists()
    answer = reap(tmp_path, truth["subtree"], "--yes")
    assert answer["state"] == "evicted"
    assert answer["freed"]["zombies"] >= there - 2
    witness.wait_for_ordinary_deaths()
    assert witness.ids("release", truth["subtree"]) == ids
    logged = json.loads((tmp_path / "reap.jsonl").read_text())
    assert sum(order["zombies"] for order in logged["orders"]) == len(answer["orders"])


@pytest.mark.kernel
def test_shared_memory_is_named_and_left(lab: LabDriver, witness: Witness, tmp_path: Path) -> None:
    witness.forget()
    truth = lab.zombies("tmpfs", COUNT)
    answer = reap(tmp_path, truth["subtree"], "--yes")
    assert answer["state"] == "nothing_evictable"
    assert [(left["reason"], left["zombies"]) for left in answer["left"]] == [("tmpfs", COUNT)]
    assert answer["freed"] == {"zombies": 0, "pages": 0}
    assert not witness.ids("release", truth["subtree"])


@pytest.mark.kernel
def test_while_it_rests_it_still_says_what_it_cannot_free(lab: LabDriver) -> None:
    truth = lab.zombies("tmpfs", COUNT)
    # Others may press the machine: the limits are for another test.
    budget = ReapBudget(leave=0, memory_pressure=100.0, io_pressure=100.0, refaults_per_second=1e9)
    reaper = Reaper(LiveHost(), budget, Scope(None, os.fsencode(truth["subtree"])), None)
    first, second = reaper.run_pass(), reaper.run_pass()
    assert first.state is Reaping.NOTHING_EVICTABLE
    assert second.state in {Reaping.RESTING, Reaping.NOTHING_EVICTABLE}, "others may have made more zombies meanwhile"
    assert dict(first.choice.left) == dict(second.choice.left) == {"tmpfs": COUNT}


@pytest.mark.kernel
def test_a_file_that_the_living_use_is_left(lab: LabDriver, tmp_path: Path) -> None:
    """One of its pages keeps a zombie, a thousand are a live reader's."""
    truth = lab.zombies("page-cache", 1)
    path = Path(truth["made"][0]["file"])
    with path.open("ab") as file:
        file.truncate(1000 * PAGESIZE)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        file.read()
        before = resident_count(file.fileno(), 1000 * PAGESIZE)
        answer = reap(tmp_path, truth["subtree"], "--yes")
        assert resident_count(file.fileno(), 1000 * PAGESIZE) >= before - 2
    assert before > 900
    assert answer["refused"] == [
        {"target": str(path), "why": "most of its cached pages are not the dead ones': somebody alive uses it"}
    ]


def freed(textfile: Path) -> float:
    """By the watching reaper's own account, written after every pass."""
    lines = textfile.read_text().splitlines() if textfile.exists() else []
    return float(next((line.split()[1] for line in lines if line.startswith("zombiescope_reap_freed_total ")), 0))


@pytest.mark.kernel
def test_watching_keeps_a_leak_down_and_ends_on_a_signal(lab: LabDriver, witness: Witness, tmp_path: Path) -> None:
    name = lab.new_name()
    options = ("--maker", "leaky", "--per-minute", "1200", "--pin", "page-cache", "--seconds", "6", "--name", name)
    subtree, told = f"/zombiescope-lab/{name}", tmp_path / "reap.prom"
    witness.forget()
    leak = lab.start("leak", *options)
    # A reaper that finds nothing to evict rests until the stock has grown.
    assert wait_until(lambda: len(witness.ids("rmdir", subtree)) >= 10)
    watch = subprocess.Popen(
        command(tmp_path, subtree, "--watch", "--yes", "--interval", "0.5", "--textfile", str(told), *UNPRESSED, "--json"),
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert leak.wait(timeout=300) == 0
        # Who went is told by the walk after the one that asked.
        assert wait_until(lambda: freed(told) >= 100), told.read_text()
    finally:
        watch.send_signal(signal.SIGTERM)
        out, _ = watch.communicate(timeout=300)
    answer = json.loads(out)
    assert watch.returncode == 0
    assert answer["freed"]["zombies"] >= 100, "120 were made, the last pass may have missed a few"
    assert answer["cost"]["passes"] >= 2


@pytest.mark.kernel
def test_killed_at_any_moment_it_leaves_nothing_and_the_next_goes_on(lab: LabDriver, tmp_path: Path) -> None:
    truth = lab.zombies("page-cache", COUNT)
    for number in range(5):
        process = subprocess.Popen(command(tmp_path, truth["subtree"], "--yes"), stdout=subprocess.DEVNULL)
        time.sleep(0.05 + 0.1 * number)
        process.kill()
        process.wait()
    answer = reap(tmp_path, truth["subtree"], "--yes")
    assert answer["state"] in {"evicted", "nothing_evictable"}
    assert sum(left["zombies"] for left in answer["left"]) == 0
