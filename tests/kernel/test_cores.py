# SPDX-License-Identifier: Apache-2.0
"""Cores held by real loads on the running kernel: right core, beginning, length and blame; a hog in user mode raises nothing; what
perf says of the same window agrees; without permission to sample, the rest works."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cores.holding import Step, Truth, hold, reclaim, zombies
from tests.kernel.zombie_maker import wait_until
from tests.nobody import as_nobody, document_of
from tests.product import PRODUCT

import zombiescope.cli.commands.cores
import zombiescope.presenters.cores  # noqa: F401 (nobody may not be able to read it later)
from zombiescope.cli.main import main
from zombiescope.facts.cores import CoresSeen, Stretch
from zombiescope.host.live import LiveHost
from zombiescope.lab.hierarchy import MemoryHierarchy
from zombiescope.watching.cores import CoresWatch

pytestmark = pytest.mark.kernel
COMMAND = [*PRODUCT, "cores", "--json"]
HELD_SECONDS = 2.0
WINDOW_SECONDS = 4
LOOKING_PRIORITY = 20
"""Above that of the loads."""
CORE = max(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def root(hierarchy: MemoryHierarchy) -> None:
    """As root, on a machine with memory cgroups."""


@pytest.fixture
def dead_parent(hierarchy: MemoryHierarchy) -> Iterator[Callable[[], Step]]:
    with zombies(2000) as maker:
        if not (maker.top / "memory.force_empty").exists():
            pytest.skip("force_empty is of cgroup v1")
        yield reclaim(maker)


class Agent(threading.Thread):
    """The agent's watch, at its pace."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: CoresSeen | None = None
        self.is_over = threading.Event()

    def run(self) -> None:
        watch = CoresWatch(LiveHost())
        while True:
            watch.look()
            if isinstance(seen := watch.seen(), CoresSeen):
                self.seen = seen
            if self.is_over.wait(1.0):
                return


@contextmanager
def first_in_line() -> Iterator[None]:
    """Who looks, and whom it starts, goes before the load and before all others: the load may hold the only core there is."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(LOOKING_PRIORITY))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def watched(
    load: str, start: Callable[[], Step] | None = None, seconds: float = HELD_SECONDS
) -> tuple[Truth, dict[str, Any], tuple[Stretch, ...]]:
    """The load's own truth, what the command says of it, what the agent saw."""
    agent = Agent()
    with first_in_line():
        agent.start()
        command = subprocess.Popen([*COMMAND, "--seconds", str(WINDOW_SECONDS)], stdout=subprocess.PIPE)
        assert wait_until(lambda: is_sampling(command.pid)), "the command never began to look"
        time.sleep(0.7)
        truth = hold(load, CORE, seconds, start)()
        out, _ = command.communicate(timeout=60)
        agent.is_over.set()
        agent.join()
    assert agent.seen is not None
    return truth, json.loads(out), agent.seen.stretches


def is_sampling(process: int) -> bool:
    """It samples from its first look on; a loaded host may start it late."""
    folder = f"/proc/{process}/fd"
    with suppress(OSError):
        return any("perf_event" in os.readlink(f"{folder}/{name}") for name in os.listdir(folder))
    return False


def of_core(answer: dict[str, Any], truth: Truth) -> list[dict[str, Any]]:
    """On the held core, in the time it was held."""
    return [
        stretch
        for stretch in answer["stretches"]
        if stretch["core"] == truth.core
        and _epoch(stretch["begin"]) < truth.begin + truth.seconds
        and _epoch(stretch["begin"]) + stretch["seconds"] > truth.begin
    ]


def _epoch(text: str) -> float:
    from datetime import datetime  # noqa: PLC0415

    return datetime.fromisoformat(text).timestamp()


def assert_seen(truth: Truth, answer: dict[str, Any], by_agent: tuple[Stretch, ...], cause: str) -> None:
    assert truth.is_saturating, "the load did not hold the core: another one did"
    (stretch,) = of_core(answer, truth)
    assert abs(_epoch(stretch["begin"]) - truth.begin) <= 0.2
    assert abs(stretch["seconds"] - truth.seconds) <= 0.2
    assert stretch["mode"] == "system"
    causes = {each["name"]: each["share"] for each in stretch["blame"]["causes"]}
    assert causes.get(cause, 0) > 0.7, causes
    assert stretch["blame"]["samples"] > 0.6 * 99 * truth.seconds
    mine = [each for each in by_agent if each.core == truth.core and each.begin + each.seconds > truth.begin]
    assert any(abs(each.begin - truth.begin) <= 1 and abs(each.seconds - truth.seconds) <= 1 for each in mine), (
        f"{truth}: the agent saw {mine}"
    )


def test_reclaim_over_zombies_that_frees_nothing(dead_parent: Callable[[], Step]) -> None:
    truth, answer, by_agent = watched("reclaim", dead_parent)
    assert_seen(truth, answer, by_agent, "reclaim")
    functions = {each["name"] for each in of_core(answer, truth)[0]["blame"]["functions"]}
    assert functions & {"mem_cgroup_iter", "shrink_node", "shrink_lruvec"}, functions


def test_a_load_that_tuning_never_saw(hierarchy: MemoryHierarchy) -> None:
    assert_seen(*watched("crypt"), "files")


def test_a_hog_in_user_mode_raises_nothing() -> None:
    truth, answer, by_agent = watched("user")
    assert truth.user_seconds > 0.8 * truth.seconds, "the hog did not have its core"
    assert of_core(answer, truth) == []
    end = truth.begin + truth.seconds
    assert not [each for each in by_agent if each.core == CORE and truth.begin <= each.begin <= end - 0.5]
    assert answer["window"]["seconds"] >= WINDOW_SECONDS
    assert answer["window"]["cores"] == len(answer["cores"])


def test_a_system_call_loop_and_what_perf_says_of_the_same_window(tmp_path: Path) -> None:
    assert shutil.which("perf"), "perf is among the packages of this tier"
    command = ["perf", "record", "-q", "-a", "-g", "-N", "-B", "-F", "99", "-e", "cpu-clock", "-k", "CLOCK_MONOTONIC"]
    data = tmp_path / "perf.data"
    with first_in_line():
        perf = subprocess.Popen([*command, "-o", str(data)], stderr=subprocess.PIPE)
    assert wait_until(lambda: is_sampling(perf.pid)), "perf never began to look"
    truth, answer, by_agent = watched("zeros")
    perf.send_signal(signal.SIGINT)
    _, said = perf.communicate(timeout=300)
    assert perf.returncode in (0, -signal.SIGINT), (perf.returncode, said)
    assert_seen(truth, answer, by_agent, "files")
    (stretch,) = of_core(answer, truth)
    theirs = _perf_functions(data, truth)
    ours = {each["name"]: each["share"] for each in stretch["blame"]["functions"]}
    assert sum(theirs.values()) > 0.6 * 99 * truth.seconds
    shares = {name: count / sum(theirs.values()) for name, count in theirs.items()}
    for name in [name for name, share in shares.items() if share > 0.1] + [name for name in ours if ours[name] > 0.1]:
        assert abs(ours.get(name, 0) - shares.get(name, 0)) < 0.15, (name, ours, shares)


def _perf_functions(data: Path, truth: Truth) -> Counter[str]:
    """The innermost kernel function of every sample on the held core while it was held."""
    fields = ["perf", "script", "-i", str(data), "-F", "cpu,time,ip,sym", "--ns"]
    done = subprocess.run(fields, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    offset = time.time() - time.monotonic()
    found: Counter[str] = Counter()
    for block in text.strip().split("\n\n"):
        head, *frames = block.splitlines()
        core, _, at = head.strip().partition("]")
        moment = float(at.strip().rstrip(":").split(":")[0]) + offset
        is_kernel = bool(frames) and frames[0].split()[0].startswith("ffff")
        if int(core.lstrip("[")) == truth.core and is_kernel and truth.begin <= moment <= truth.begin + truth.seconds:
            found[frames[0].split()[1].partition("+")[0]] += 1
    return found


def test_without_permission_to_sample_the_rest_works() -> None:
    with first_in_line():
        held = hold("zeros", CORE, 2.0)
        code, out, err = as_nobody(lambda: main(["cores", "--json", "--seconds", "1.5"]))
        truth = held()
    assert code == 0, err
    answer = document_of(out)
    (stretch,) = of_core(answer, truth)
    assert stretch["blame"] is None
    assert any(gap["fact"] == "stretches[].blame" and "perf_event_open" in gap["reason"] for gap in answer["gaps"]), (
        answer["gaps"]
    )
