# SPDX-License-Identifier: Apache-2.0
"""A second witness: the kernel's own events of births, deaths and releases of the lab's cgroups, by id.

A private tracefs instance with a filter on the lab's paths. It shares no code with the lab or with any reader of ours.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.kernel.command import IN_MACHINE

from zombiescope.kernel.assemble import settle_batches
from zombiescope.lab.hierarchy import MemoryHierarchy

_EVENT = re.compile(r"cgroup_(mkdir|rmdir|release): root=\d+ id=(\d+) level=\d+ path=(\S+)")
_PATIENCE_SECONDS = 300.0 if IN_MACHINE else 120.0
"""Only a test that fails waits so long."""
_libc = ctypes.CDLL(None, use_errno=True)


class Witness:
    def __init__(self, hierarchy: MemoryHierarchy) -> None:
        self._hierarchy = hierarchy
        self._mount = tempfile.mkdtemp(prefix="zombiescope-tracefs-")
        if _libc.mount(b"tracefs", self._mount.encode(), b"tracefs", 0, None) != 0:
            os.rmdir(self._mount)
            raise OSError(ctypes.get_errno(), "cannot mount tracefs")
        self._instance = Path(self._mount, "instances", f"zombiescope-test-{os.getpid()}")
        self._instance.mkdir()
        self._write("buffer_size_kb", "8192")
        for name in ("mkdir", "rmdir", "release"):
            self._write(f"events/cgroup/cgroup_{name}/filter", 'path ~ "/zombiescope-lab/*"')
            self._write(f"events/cgroup/cgroup_{name}/enable", "1")

    def close(self) -> None:
        for name in ("mkdir", "rmdir", "release"):
            self._write(f"events/cgroup/cgroup_{name}/enable", "0")
        self._instance.rmdir()
        _libc.umount2(self._mount.encode(), 0)
        os.rmdir(self._mount)

    def forget(self) -> None:
        self._write("trace", "\n")

    def ids(self, what: str, below: str) -> set[int]:
        """Ids of the cgroups under a path that were made (`mkdir`), removed (`rmdir`) or released (`release`)."""
        text = (self._instance / "trace").read_text(errors="replace")
        return {
            int(number)
            for event, number, path in _EVENT.findall(text)
            if event == what and path.startswith(below + "/")
        }

    def wait_for_ordinary_deaths(self) -> None:
        """Until cgroups that died after all others, and held nothing, are released."""
        for index in range(3):
            path = f"/zombiescope-lab/canary-{os.getpid()}-{index}"
            number = self._hierarchy.make(path)
            self._hierarchy.remove(path)
            self.wait_until(lambda number=number: number in self.ids("release", "/zombiescope-lab"))  # type: ignore[misc]

    def wait_for_release(self, ids: frozenset[int] | set[int], below: str) -> None:
        self.wait_until(lambda: ids <= self.ids("release", below))

    def wait_until(self, holds: Callable[[], bool]) -> None:
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < give_up, "the kernel did not get there in time"
            settle_batches()  # a page on its way to its list holds its cgroup
            time.sleep(0.02)

    def _write(self, name: str, value: str) -> None:
        descriptor = os.open(self._instance / name, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)
