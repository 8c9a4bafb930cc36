# SPDX-License-Identifier: Apache-2.0
"""Nothing of the lab outlives `lab clean`, whatever ended the command; and nothing of others is touched."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.kernel.command import IN_MACHINE
from tests.kernel.lab_driver import LabDriver, lab_processes, leftovers, segment_ids
from tests.kernel.witness import Witness

from zombiescope.lab import runs
from zombiescope.lab.runs import KINDS

KILLS = 8 if IN_MACHINE else 50
SEED = int(os.environ.get("ZOMBIESCOPE_SEED", "20260"))


def _orders(name: str) -> list[tuple[str, ...]]:
    """Every lab command, each kind of zombie, at a size that takes a while."""
    made: list[tuple[str, ...]] = [
        ("zombies", "--pin", kind, "--count", "300", "--name", name) for kind in KINDS if kind != "swap"
    ]
    made.append(("zombies", "--pin", "socket", "--count", "20", "--hold", "--name", name))
    made.append(("churn", "--rate", "2000", "--seconds", "5", "--name", name))
    made.append(("leak", "--maker", "crashy", "--per-minute", "6000", "--name", name))
    made.append(
        ("leak", "--maker", "c", "--per-minute", "6000", "--style", "ecs", "--pin", "page-cache", "--name", name)
    )
    return made


def seconds_of_a_command(lab: LabDriver) -> float:
    """What one takes on this machine, now: the moments of the kills go with it."""
    name, began = lab.new_name(), time.monotonic()
    lab.run_forked("zombies", "--pin", "tmpfs", "--count", "300", "--name", name)
    took = time.monotonic() - began
    runs.clean(name)
    return took


@pytest.mark.kernel
def test_killed_at_any_moment_then_cleaned(lab: LabDriver, witness: Witness) -> None:
    """The moment is random from before the command's first step to after its last; the seed is in the message."""
    chance = random.Random(SEED)
    before = segment_ids()
    caught, longest = 0, seconds_of_a_command(lab)
    for turn in range(KILLS):
        name = lab.new_name()
        orders = _orders(name)
        order = orders[turn % len(orders)]
        witness.forget()
        lab.kill_after(chance.uniform(0, longest), *order)
        if turn % 3 == 0:
            lab.kill_after(chance.uniform(0, longest / 8), "clean", "--name", name)
        story = f"seed {SEED}, turn {turn}: {order}"
        was_at_work = bool(leftovers(lab.hierarchy, name))
        caught += was_at_work
        longest *= 1 if was_at_work else 1.2  # others have become busy: it had not begun
        (cleaned,), _ = runs.clean(name)
        assert cleaned.left == [], story
        assert leftovers(lab.hierarchy, name) == [], story
        assert segment_ids() <= before, story
        subtree = f"/zombiescope-lab/{name}"
        witness.wait_for_release(witness.ids("mkdir", subtree), subtree)
    assert caught > KILLS / 4, "many kills must find the command at work, or nothing is shown"


@pytest.mark.kernel
def test_clean_is_idempotent(lab: LabDriver) -> None:
    truth = lab.zombies("memfd", 3)
    assert lab.clean(truth["run"])["removed"] == {"processes": 1, "cgroups": 1, "files": 3, "segments": 0}
    assert lab.clean(truth["run"])["removed"] == {"processes": 0, "cgroups": 0, "files": 0, "segments": 0}


@pytest.mark.kernel
@pytest.mark.parametrize("kind", ["memfd", "tmpfs", "sysv-shm", "unreaped"])
def test_a_lost_journal_hides_nothing(lab: LabDriver, witness: Witness, kind: str) -> None:
    witness.forget()
    truth = lab.zombies(kind, 5)
    shutil.rmtree(f"/var/lib/zombiescope/lab/{truth['run']}")
    lab.clean(truth["run"])
    witness.wait_for_release({made["id"] for made in truth["made"]}, truth["subtree"])
    assert leftovers(lab.hierarchy, truth["run"]) == []


@pytest.mark.kernel
def test_a_journal_cut_short_is_read_as_far_as_it_goes(lab: LabDriver) -> None:
    truth = lab.zombies("shared-anon", 5)
    journal = Path(f"/var/lib/zombiescope/lab/{truth['run']}/journal.jsonl")
    journal.write_bytes(journal.read_bytes()[:-20] + b"\xff\x00garbage")
    lab.clean(truth["run"])
    assert leftovers(lab.hierarchy, truth["run"]) == []


@pytest.mark.kernel
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_hold_ends_with_a_signal_and_cleans(lab: LabDriver, number: signal.Signals) -> None:
    name = lab.new_name()
    process = lab.start("zombies", "--pin", "memfd", "--count", "5", "--hold", "--name", name, "--json")
    assert process.stdout is not None
    lines = []
    while (line := process.stdout.readline()) != "}\n":
        assert line
        lines.append(line)
    truth = json.loads("".join([*lines, "}"]))
    assert truth["counts"]["made"] == 5
    _refuses_to_clean(lab, name)
    process.send_signal(number)
    assert process.wait(timeout=120) == 0
    assert leftovers(lab.hierarchy, name) == []


def _refuses_to_clean(lab: LabDriver, name: str) -> None:
    """While a command works on a run, `lab clean` says so and leaves it alone."""
    document = json.loads(lab.run("clean", "--name", name, "--json"))
    assert document["runs"][0]["in_use"] is True
    assert len(lab_processes(name)) == 2


@pytest.mark.kernel
def test_hold_ends_with_enter(lab: LabDriver) -> None:
    name = lab.new_name()
    process = lab.start("zombies", "--pin", "tmpfs", "--count", "5", "--hold", "--name", name, stdin=subprocess.PIPE)
    out, _ = process.communicate("\n", timeout=120)
    assert process.returncode == 0
    assert "to remove them: press Enter" in out
    assert leftovers(lab.hierarchy, name) == []


@pytest.mark.kernel
def test_interrupted_while_making_it_cleans(lab: LabDriver) -> None:
    name = lab.new_name()
    process = lab.start("zombies", "--pin", "tmpfs", "--count", "60000" if IN_MACHINE else "200000", "--name", name)
    path = f"/zombiescope-lab/{name}"
    give_up = time.monotonic() + 120
    while not lab.hierarchy.children(path):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) == 130
    assert leftovers(lab.hierarchy, name) == []


@pytest.mark.kernel
def test_the_process_of_somebody_else_lives(lab: LabDriver) -> None:
    """The name alone makes no process ours, nor does a stale process id in a journal."""
    program = "open('/proc/self/comm','w').write('zombiescope-lab'); print(flush=True); input()"
    command = [sys.executable, "-c", program]
    stranger = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert stranger.stdout is not None
        stranger.stdout.readline()
        truth = lab.zombies("tmpfs", 1)
        with Path(f"/var/lib/zombiescope/lab/{truth['run']}/journal.jsonl").open("a") as journal:
            journal.write(json.dumps({"intent": "process", "role": "staff", "pid": stranger.pid, "start": 1}) + "\n")
        assert lab.clean(truth["run"])["removed"]["processes"] == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.communicate()


@pytest.mark.kernel
def test_the_segment_of_somebody_else_stays(lab: LabDriver) -> None:
    """A key in our range makes no segment ours."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = (ctypes.c_void_p,)
    foreign = libc.shmget(0x7A6CFFFF, ctypes.c_size_t(mmap.PAGESIZE), 0o1600)
    assert foreign >= 0
    address = libc.shmat(foreign, None, 0)
    ctypes.memmove(address, b"somebody's data", 15)
    libc.shmdt(address)
    try:
        lab.clean(lab.zombies("sysv-shm", 2)["run"])
        assert foreign in segment_ids()
    finally:
        libc.shmctl(foreign, 0, None)


@pytest.mark.kernel
def test_a_planted_link_is_not_followed(lab: LabDriver, tmp_path: Path) -> None:
    """/dev/shm is everybody's: a link in our place must not lead us to delete elsewhere."""
    name = lab.new_name()
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    root = Path("/dev/shm/zombiescope-lab")
    root.mkdir(mode=0o700, exist_ok=True)
    (root / name).symlink_to(tmp_path)
    try:
        document = json.loads(lab.start("clean", "--name", name, "--json").communicate(timeout=120)[0])
        assert [left["why"] for left in document["runs"][0]["left"]] == ["it is not a folder"]
        assert precious.read_text() == "keep me"
    finally:
        (root / name).unlink()


@pytest.mark.kernel
def test_a_name_in_use_is_refused(lab: LabDriver) -> None:
    truth = lab.zombies("visible", 1)
    message = lab.run("zombies", "--pin", "tmpfs", "--name", truth["run"], code=2)
    assert "a run of that name is there already" in message
    assert "lab clean --name" in message
