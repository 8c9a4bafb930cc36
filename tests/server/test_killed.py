# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the real agent at random moments, while cgroups are made and its pages are asked for: the history opens, at most the
sample being written is missing, nothing is there twice. A few times in CI; `ZOMBIESCOPE_KILLS=200` for all of them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

from tests.server.running import PATIENCE_SECONDS, PROGRAM, fetch, free_port, wait_for

from zombiescope.errors import ObservationError
from zombiescope.history.reader import Remembered, remember

KILLS = int(os.environ.get("ZOMBIESCOPE_KILLS", "4"))
LONGEST_SECONDS = 2.5


def remembered(state: Path) -> Remembered:
    try:
        return remember(os.fsencode(state))
    except ObservationError:
        return Remembered([], [], ())


def numbers(found: Remembered) -> list[int]:
    return sorted([*(each.number for each in found.samples), *(each.number for each in found.happenings)])


def begins(state: Path) -> int:
    return [each.what for each in remembered(state).happenings].count("agent-began")


def is_answered(port: int) -> bool:
    return fetch(f"http://127.0.0.1:{port}/metrics")[1] != b""


def test_killed_at_any_moment_the_agent_loses_at_most_what_it_was_writing(tmp_path: Path) -> None:
    chance, state, before, answered = random.Random(11), tmp_path / "state", list[int](), 0
    config = tmp_path / "agent.toml"
    config.write_text("[agent]\ninterval_seconds = 1\n", encoding="utf-8")
    busy = subprocess.Popen(
        [*PROGRAM, "lab", "churn", "--rate", "100", "--seconds", "3600", "--name", f"killed-{os.getpid()}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for kill in range(KILLS):
            port = free_port()
            arguments = ["--listen", f"127.0.0.1:{port}", "--state", str(state), "--config", str(config)]
            with open(tmp_path / "agent.err", "w", encoding="utf-8") as errors:
                agent = subprocess.Popen([*PROGRAM, "agent", *arguments], stderr=errors)
            if kill % 2 == 0:  # every other one while it begins, the rest while it works
                assert wait_for(partial(is_answered, port), step=0.1), (tmp_path / "agent.err").read_text()
                answered += 1
            time.sleep(chance.uniform(0, LONGEST_SECONDS))
            agent.send_signal(signal.SIGKILL)
            agent.wait()
            found = remembered(state)
            assert found.gaps == (), "it opens"
            there = numbers(found)
            assert there == list(range(1, len(there) + 1)), "none is missing and none is there twice"
            assert there[: len(before)] == before
            assert answered <= begins(state) <= kill + 1
            before = there
    finally:
        busy.send_signal(signal.SIGTERM)
        busy.wait(PATIENCE_SECONDS)
        subprocess.run([*PROGRAM, "lab", "clean", "--name", f"killed-{os.getpid()}"], check=False, capture_output=True)
    print(f"{KILLS} kills, {len(before):,} records there")
    assert not list(state.glob("*.damaged*"))
