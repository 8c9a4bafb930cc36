# SPDX-License-Identifier: Apache-2.0
"""A real agent in trouble: a folder it may not write, a full file system, a clock that jumps, a damaged store. It goes on
observing, says so in its log, in /healthz and in a metric, and loses nothing that was written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tests.server.running import fetch, running_agent, wait_for

from zombiescope.errors import ObservationError
from zombiescope.facts.history import Sample
from zombiescope.history.reader import Remembered, remember
from zombiescope.history.store import DATABASE, LOG

QUICK = "[agent]\ninterval_seconds = 1\n"
SHIFTED_CLOCK = """
import sys, time
real, place = time.time, sys.argv.pop(1)
def shifted():
    with open(place) as file:
        return real() + float(file.read() or 0)
time.time = shifted
from zombiescope.cli.main import run
run()
"""


def run(*command: str) -> None:
    subprocess.run(command, check=True)


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    run("mount", *options, str(place))
    try:
        yield place
    finally:
        run("umount", "-l", str(place))


def metric(address: str, name: str) -> str:
    lines = fetch(address + "/metrics")[1].decode().splitlines()
    return next((line.rpartition(" ")[2] for line in lines if line.startswith(f"zombiescope_{name} ")), "")


def succeeds(address: str, probe: str) -> bool:
    return metric(address, f'probe_success{{probe="{probe}"}}') == "1.0"


def health(address: str) -> str:
    return fetch(address + "/healthz")[1].decode()


def samples(state: Path) -> list[Sample]:
    return remembered(state).samples


def remembered(state: Path) -> Remembered:
    try:
        return remember(os.fsencode(state))
    except (OSError, ObservationError):
        return Remembered([], [], ())


def says(address: str, words: str) -> bool:
    return words in health(address)


def has_more_than(state: Path, count: int) -> bool:
    return len(samples(state)) > count


def test_a_folder_that_may_not_be_written_and_then_may(tmp_path: Path) -> None:
    state, log = tmp_path / "state", tmp_path / "agent.err"
    with mounted(state, "-t", "tmpfs", "-o", "ro,mode=0700", "tmpfs"), running_agent(tmp_path, QUICK) as (address, _):
        assert wait_for(lambda: "history: cannot keep a history" in health(address))
        assert "read-only file system" in health(address)
        assert not succeeds(address, "history")
        assert succeeds(address, "census"), "it goes on observing"
        assert metric(address, "memcg_counted")
        assert log.read_text().count("history: cannot keep") == 1, "said once, not every second"
        run("mount", "-o", "remount,rw", str(state))
        assert wait_for(lambda: succeeds(address, "history"))
        assert wait_for(lambda: len(samples(state)) >= 2), "what waited is written"
        assert [each.what for each in remembered(state).happenings] == ["agent-began"]
        assert "history" not in health(address)
        assert "it works again" in log.read_text()


def test_a_file_system_that_is_full_and_then_is_not(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=192k", "tmpfs") as place:
        state = place / "state"
        with running_agent(tmp_path, QUICK, state=state) as (address, _):
            assert wait_for(lambda: len(samples(state)) >= 2)
            with suppress(OSError), open(place / "filler", "wb", buffering=0) as filler:
                while filler.write(b"x" * 512):
                    pass
            assert wait_for(lambda: "no space left" in health(address)), health(address)
            before = [sample.number for sample in samples(state)]
            assert not succeeds(address, "history")
            assert succeeds(address, "census")
            (place / "filler").unlink()
            assert wait_for(lambda: succeeds(address, "history"))
        numbers = [sample.number for sample in samples(state)]
        assert numbers[: len(before)] == before
        happenings = [each.number for each in remembered(state).happenings]
        assert sorted([*numbers, *happenings]) == list(range(1, len(numbers) + len(happenings) + 1)), "none is missing"


def test_a_clock_that_jumps_back_by_an_hour_and_forward_again(tmp_path: Path) -> None:
    shift, state = tmp_path / "shift", tmp_path / "state"
    shift.write_text("0")
    program = [sys.executable, "-c", SHIFTED_CLOCK, str(shift)]
    with running_agent(tmp_path, QUICK, program=program) as (address, _):
        assert wait_for(lambda: len(samples(state)) >= 3)
        before = samples(state)
        for seconds, way in ((-3600, "back by 3,6"), (0, "forward by 3,6")):
            beside = shift.with_suffix(".new")
            beside.write_text(str(seconds))
            beside.rename(shift)
            assert wait_for(partial(says, address, way)), health(address)
            assert wait_for(partial(has_more_than, state, len(samples(state)) + 2))
        assert not succeeds(address, "clock")
        assert succeeds(address, "history")
    found = remembered(state)
    numbers = sorted([*(each.number for each in found.samples), *(each.number for each in found.happenings)])
    assert numbers == list(range(1, len(numbers) + 1)), "none is missing and none is there twice"
    assert found.samples[: len(before)] == before
    assert min(sample.at for sample in found.samples) < before[0].at - 3000
    assert [each.what for each in found.happenings].count("clock-jumped") == 2


def test_a_damaged_store_is_put_aside_and_what_is_whole_is_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with running_agent(tmp_path, QUICK):
        assert wait_for(lambda: len(samples(state)) >= 3)
    whole = samples(state)
    lines = (state / LOG).read_bytes().splitlines(keepends=True)
    damaged = b"".join([lines[0], lines[1].replace(b"zombies", b"zombieS"), *lines[2:]])
    (state / LOG).write_bytes(damaged)
    (state / DATABASE).write_bytes(b"nothing that anybody wrote " * 400)
    with running_agent(tmp_path, QUICK) as (address, _):
        assert wait_for(lambda: not succeeds(address, "store"))
        assert "damaged" in health(address)
        assert "kept as" in (tmp_path / "agent.err").read_text()
        assert succeeds(address, "history")
        assert wait_for(lambda: len(samples(state)) > len(whole) + 1)
    assert (state / f"{LOG}.damaged-1").read_bytes() == damaged
    assert (state / f"{DATABASE}.damaged-1").read_bytes().startswith(b"nothing that anybody wrote")
    kept = {sample.number for sample in samples(state)}
    assert {sample.number for sample in whole} - kept == {2}, "only the line that was damaged"
    assert [each.what for each in remembered(state).happenings].count("store-damaged") == 2


def test_every_file_of_the_folder_emptied_cut_and_taken_away_beneath_a_running_agent(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with running_agent(tmp_path, QUICK) as (address, process):
        assert wait_for(lambda: has_more_than(state, 2))
        for beside in ("-shm", "-wal", "-journal"):
            (state / f"{DATABASE}{beside}").write_bytes(b"")  # of an earlier build, or of somebody else
        before = samples(state)
        for path in state.iterdir():
            os.truncate(path, path.stat().st_size - 5 if path.name == LOG else 0)
        assert wait_for(partial(says, address, "bytes of this hour are gone")), health(address)
        after = samples(state)
        assert len(before) - 1 <= len([sample for sample in after if sample.number <= before[-1].number]) <= len(before)
        for path in state.iterdir():
            path.unlink()
        assert wait_for(partial(has_more_than, state, len(after)))
        assert succeeds(address, "history")
        assert process.poll() is None
    found = remembered(state)
    assert {sample.number for sample in after} <= {sample.number for sample in found.samples}, "written anew"
    assert [each.what for each in found.happenings].count("store-damaged") >= 2
    with running_agent(tmp_path, QUICK):
        assert wait_for(lambda: has_more_than(state, len(found.samples)))
