# SPDX-License-Identifier: Apache-2.0
"""An unprivileged neighbour, and the installed command as root types it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.product import GIVEN, PRODUCT

INSTALLED = Path(PRODUCT[0]) if GIVEN else Path(sys.executable).parent / "zombiescope"
"""The command as it was installed, not functions of the package."""
NEIGHBOUR = 64_999
"""Nobody's user id on a Debian host, so that nothing but this tier belongs to it."""


PATIENCE = 300
"""Seconds that anything may take, on a slow and busy machine: whoever waits longer waits in vain."""
_NEEDED = (str(Path(__file__).resolve().parents[2]), sys.prefix, sys.base_prefix)


def needed_below(*places: str) -> list[str]:
    """What the installed command is made of, where it lies in a place that a test mounts something over."""
    found = {path for path in _NEEDED if any(path.startswith(place + "/") for place in places)}
    return sorted(path for path in found if not any(path.startswith(other + "/") for other in found))


def zombiescope(
    *words: str,
    seconds: float = PATIENCE,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    text_in: str = "",
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, str(INSTALLED), *words],
        input=text_in,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds,
        env={**os.environ, **(environment or {})},
    )


class Neighbour:
    """`folder` belongs to them; everything on the way to it can be passed by them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uid = NEIGHBOUR
        self._children: list[int] = []
        folder.mkdir()
        os.chown(folder, NEIGHBOUR, NEIGHBOUR)
        for parent in folder.parents:
            if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
        closed = folder.with_name(folder.name + " cannot enter")
        closed.mkdir(mode=0o700)
        assert self.do(lambda: os.listdir(closed)) == 1, "the neighbour is not without rights"
        closed.rmdir()

    def do(self, work: Callable[[], object]) -> int:
        """Does it as the neighbour and waits: 0, or 1 when it raised. Import what it needs before."""
        child = self.start(work)
        self._children.remove(child)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def start(self, work: Callable[[], object]) -> int:
        """Does it as the neighbour, beside whatever comes; ended with the test at the latest."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setgroups([])
                os.setresgid(self.uid, self.uid, self.uid)
                os.setresuid(self.uid, self.uid, self.uid)
                work()
                code = 0
            finally:
                os._exit(code)
        self._children.append(child)
        return child

    def end(self, child: int) -> None:
        """Kills one that was started, and waits for it."""
        self._children.remove(child)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    def end_all(self) -> None:
        for child in tuple(self._children):
            self.end(child)
