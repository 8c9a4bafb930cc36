# SPDX-License-Identifier: Apache-2.0
"""Runs lab commands as a person does, and looks with plain means at what they leave."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from tests.kernel.command import IN_MACHINE, run_command
from tests.product import PRODUCT

from zombiescope.cli.main import main
from zombiescope.lab.hierarchy import MemoryHierarchy

ROOTS = (
    "/var/lib/zombiescope/lab", "/run/zombiescope/lab", "/tmp/zombiescope-lab", "/dev/shm/zombiescope-lab",
    "/var/tmp/zombiescope-lab",
)  # fmt: skip


_AT_A_TIME = 4
_T = TypeVar("_T")


class LabDriver:
    def __init__(self, hierarchy: MemoryHierarchy) -> None:
        self.hierarchy = hierarchy
        self._names: list[str] = []

    def new_name(self) -> str:
        self._names.append(f"test-{os.getpid()}-{secrets.token_hex(3)}")
        return self._names[-1]

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        command = [*PRODUCT, "lab", *arguments]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, **{**pipes, **options})

    def run_forked(self, *arguments: str) -> None:
        os.waitpid(_forked(arguments), 0)

    def kill_after(self, seconds: float, *arguments: str) -> None:
        """Runs a command in a fork, which is at work at once, and kills it; a command that ended before is fine."""
        child = _forked(arguments)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    def run(self, *arguments: str, code: int = 0) -> str:
        ended = run_command(["lab", *arguments])
        assert ended.status == code, f"{arguments}: exit {ended.status}\n{ended.out}\n{ended.err}"
        return ended.out if code == 0 else ended.err

    def zombies(self, kind: str, count: int, name: str | None = None) -> dict[str, Any]:
        out = self.run("zombies", "--pin", kind, "--count", str(count), "--name", name or self.new_name(), "--json")
        document = json.loads(out)
        assert isinstance(document, dict)
        return document

    def zombies_of(self, kinds: Sequence[str], count: int) -> dict[str, dict[str, Any]]:
        """Several kinds, each in a subtree of its own, by commands side by side: each waits until what it made has settled."""
        return dict(zip(kinds, each_of(lambda kind: self.zombies(kind, count), kinds), strict=True))

    def clean(self, name: str) -> dict[str, Any]:
        document = json.loads(self.run("clean", "--name", name, "--json"))
        assert document["runs"][0]["left"] == []
        found = document["runs"][0]
        assert isinstance(found, dict)
        return found

    def clean_all(self) -> None:
        left = [name for name in self._names if leftovers(self.hierarchy, name)]
        each_of(lambda name: self.run("clean", "--name", name), left)


def _forked(arguments: Sequence[str]) -> int:
    child = os.fork()
    if child == 0:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        sys.stdin = open(0)  # noqa: SIM115 (pytest's own cannot be read, and this process ends here)
        os._exit(main(["lab", *arguments]))
    return child


def each_of(work: Callable[[str], _T], words: Sequence[str]) -> list[_T]:
    """Side by side; inside a machine one by one, for there commands are forks of this process, which must have one thread."""
    if IN_MACHINE:
        return [work(word) for word in words]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(work, words))


def leftovers(hierarchy: MemoryHierarchy, name: str) -> list[str]:
    """Everything of a run that is still there."""
    found = [f"cgroup {name}"] if hierarchy.exists(f"/zombiescope-lab/{name}") else []
    found += [f"{root}/{name}" for root in ROOTS if os.path.lexists(f"{root}/{name}")]
    found += [f"process {pid}" for pid in lab_processes(name)]
    return found


def lab_processes(name: str) -> list[int]:
    """Processes that have any file of the run open."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            targets = [os.readlink(link) for link in (entry / "fd").iterdir()]
        except OSError:
            continue
        if any(f"/{name}/" in target for target in targets):
            found.append(int(entry.name))
    return found


def segment_ids() -> set[int]:
    """SysV segments in the lab's range of keys."""
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {int(row[1]) for row in rows if (int(row[0]) & 0xFFFFFFFF) >> 16 == 0x7A6C}


def held_bytes(hierarchy: MemoryHierarchy, path: str) -> dict[str, int]:
    """Bytes charged below a cgroup that has no process and no live child: what its dead descendants hold."""
    rows = [line.split() for line in Path(hierarchy.file(path, "memory.stat")).read_text().splitlines()]
    facts = {row[0]: int(row[1]) for row in rows}
    if hierarchy.is_unified:
        return {"file": facts["file"], "shmem": facts["shmem"], "anon": facts["anon"]}
    own = {name: facts[f"total_{name}"] - facts[name] for name in ("cache", "shmem", "rss")}
    return {"file": own["cache"], "shmem": own["shmem"], "anon": own["rss"]}
