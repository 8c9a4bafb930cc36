# SPDX-License-Identifier: Apache-2.0
"""`lab clean` and what strangers leave where the lab might look: nobody else's process, file or folder is touched.

Each command sees places of the test's own instead of /tmp, /var/tmp, /dev/shm, /var/lib and /run (a mount namespace), so that
neither the host's runs nor those of other tests are in the way.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.neighbour import PATIENCE, Neighbour, needed_below, zombiescope
from tests.hostile.opens import Opens

SHARED = ("tmp", "var/tmp", "dev/shm")
OWN = ("var/lib", "run")
_BIND = """
mount --rbind "$1" /mnt; here=/mnt; shift
while [ "$1" != -- ]; do mkdir -p "$here$1"; mount --bind "$1" "$here$1"; shift; done; shift
for place in var/tmp dev/shm var/lib run tmp; do mount --rbind "$here/$place" "/$place"; done
exec "$@"
"""
"""Where the command itself lies in such a place, it stays to be seen there."""


class Machine:
    """Places as a host has them: three that everybody may write to, two that only root may."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = f"attack-{secrets.token_hex(4)}"
        for name in (*SHARED, *OWN):
            (folder / name).mkdir(parents=True)
            (folder / name).chmod(0o1777 if name in SHARED else 0o755)

    def clean(self, seconds: float = PATIENCE) -> tuple[int, dict[str, Any]]:
        prefix = (
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            _BIND,
            "sh",
            str(self.folder),
            *needed_below(*(f"/{place}" for place in (*SHARED, *OWN))),
            "--",
        )
        done = zombiescope("lab", "clean", "--name", self.run, "--json", prefix=prefix, seconds=seconds)
        assert done.stdout, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        (run,) = document["runs"]
        return done.returncode, run


@pytest.fixture
def machine(neighbour: Neighbour, tmp_path: Path) -> Machine:
    for parent in (tmp_path, *tmp_path.parents):
        assert parent == Path("/") or parent.stat().st_mode & 0o001  # the neighbour gets there
    return Machine(tmp_path / "machine")


class Victim:
    """A process of root's that has nothing to do with any lab."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "600"])
        self.pid = self.process.pid
        self.start = int(Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[19])

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def named(self, *, start: int | None = None) -> str:
        """The line of a journal that has it ended."""
        entry = {"intent": "process", "role": "staff", "pid": self.pid, "start": start or self.start}
        return json.dumps(entry) + "\n"


@pytest.fixture
def victim() -> Iterator[Victim]:
    found = Victim()
    yield found
    found.process.kill()
    found.process.wait()


def plant(folder: Path, journal: str) -> None:
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text(journal)
    (folder / "lock").touch()


@pytest.mark.parametrize("place", SHARED)
@pytest.mark.attack("have root end a process that the neighbour's own journal names")
def test_a_strangers_journal_ends_nobody(machine: Machine, neighbour: Neighbour, victim: Victim, place: str) -> None:
    theirs = machine.folder / place / "zombiescope-lab" / machine.run
    assert neighbour.do(lambda: plant(theirs, victim.named())) == 0
    code, run = machine.clean()
    assert victim.lives
    assert run["removed"] == {"processes": 0, "cgroups": 0, "files": 0, "segments": 0}
    assert code == 5 and "belongs to user" in run["left"][0]["why"]
    assert (theirs / "journal.jsonl").exists()


@pytest.mark.attack("have root believe a journal that lies behind the neighbour's link to a folder of root's")
def test_a_linked_root_is_not_entered(machine: Machine, neighbour: Neighbour, victim: Victim) -> None:
    kept = machine.folder / "var/lib/kept"
    plant(kept / machine.run, victim.named())
    (kept / machine.run).chmod(0o700)
    assert neighbour.do(lambda: (machine.folder / "tmp/zombiescope-lab").symlink_to("/var/lib/kept")) == 0
    machine.clean()
    assert victim.lives
    assert (kept / machine.run / "journal.jsonl").exists()


@pytest.mark.attack("have root remove a folder of root's that the run's folder is a link to")
def test_a_linked_run_folder_is_not_entered(machine: Machine, victim: Victim) -> None:
    """As a root that everybody could write to for a while would have it."""
    precious = machine.folder / "var/lib/precious"
    plant(precious, victim.named())
    precious.chmod(0o700)
    for place in (*SHARED, "var/lib/zombiescope"):
        root = machine.folder / place / ("lab" if place.startswith("var/lib") else "zombiescope-lab")
        root.mkdir(mode=0o700, parents=True)
        (root / machine.run).symlink_to("/var/lib/precious")
    code, run = machine.clean()
    assert victim.lives
    assert code == 5 and {each["why"] for each in run["left"]} == {"it is not a folder"}
    assert (precious / "journal.jsonl").read_text() == victim.named()


@pytest.mark.attack("have root open a file of its own for writing, by a link in place of the lock")
def test_the_lock_is_not_opened_through_a_link(machine: Machine, neighbour: Neighbour) -> None:
    secret = machine.folder / "var/lib/secret"
    secret.write_text("root's own\n")
    theirs = machine.folder / "tmp/zombiescope-lab" / machine.run

    def lay() -> None:
        theirs.mkdir(parents=True)
        (theirs / "lock").symlink_to("/var/lib/secret")

    assert neighbour.do(lay) == 0
    with Opens(secret) as opens:
        machine.clean()
        assert not opens.happened
    assert secret.read_text() == "root's own\n"


@pytest.mark.attack("have root wait for ever at a pipe in place of the journal")
def test_a_pipe_for_a_journal_holds_nobody_up(machine: Machine, neighbour: Neighbour) -> None:
    theirs = machine.folder / "tmp/zombiescope-lab" / machine.run

    def lay() -> None:
        theirs.mkdir(parents=True)
        os.mkfifo(theirs / "journal.jsonl")

    assert neighbour.do(lay) == 0
    machine.clean()
    ours = machine.folder / "var/lib/zombiescope/lab" / machine.run
    ours.mkdir(mode=0o700, parents=True)
    os.mkfifo(ours / "journal.jsonl", 0o600)
    machine.clean()
    assert not ours.exists()


@pytest.mark.attack("have root end whoever got the number of a process that ended long ago")
def test_a_number_given_again_is_not_the_process_that_was_meant(machine: Machine, victim: Victim) -> None:
    """In a journal of root's own; the second time by number and start time, which another boot can give again too."""
    ours = machine.folder / "var/lib/zombiescope/lab" / machine.run
    for journal in (victim.named(start=victim.start - 1), victim.named()):
        plant(ours, journal)
        for path, mode in ((ours, 0o700), (ours / "journal.jsonl", 0o600), (ours / "lock", 0o600)):
            path.chmod(mode)
        code, run = machine.clean()
        assert victim.lives
        assert (code, run["removed"]["processes"], run["left"]) == (0, 0, [])
        assert not ours.exists()


@pytest.mark.attack("keep root from using the lab by taking its folder in /dev/shm first")
def test_a_taken_folder_is_left_alone(machine: Machine, neighbour: Neighbour) -> None:
    theirs = machine.folder / "dev/shm/zombiescope-lab"
    assert neighbour.do(theirs.mkdir) == 0
    code, run = machine.clean()
    assert (code, run["left"]) == (0, [])
    assert theirs.stat().st_uid == neighbour.uid
