# SPDX-License-Identifier: Apache-2.0
"""Dead memory cgroups below one of our own, held by files in memory that the test or a neighbour wrote."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.hostile.neighbour import PATIENCE

MEMORY = Path("/sys/fs/cgroup/memory")
HIERARCHY = MEMORY if (MEMORY / "cgroup.procs").exists() else Path("/sys/fs/cgroup")
_MOST_SECONDS = float(PATIENCE)


class Graveyard:
    """`name` is the live parent, for `--below`."""

    def __init__(self) -> None:
        self.name = f"/hostile-{os.getpid()}-{secrets.token_hex(3)}"
        self.top = HIERARCHY / self.name.lstrip("/")
        self.top.mkdir()
        if not MEMORY.exists():
            (self.top / "cgroup.subtree_control").write_text("+memory")

    def bury(self, work: Callable[[], object], uid: int = 0) -> None:
        """Does it inside a cgroup of its own, as a user, and lets the cgroup die."""
        grave = self.top / secrets.token_hex(3)
        grave.mkdir()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                (grave / "cgroup.procs").write_text(str(os.getpid()))
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                work()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        remove(grave)


def remove(group: Path) -> None:
    """A process that has just ended keeps its cgroup busy for a moment."""
    end = time.monotonic() + _MOST_SECONDS
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def graveyard() -> Iterator[Graveyard]:
    ours = Graveyard()
    try:
        yield ours
    finally:
        for group in ours.top.iterdir():
            if group.is_dir():
                with suppress(OSError):
                    remove(group)
        remove(ours.top)


def wait_for(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + _MOST_SECONDS
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
