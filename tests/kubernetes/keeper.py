# SPDX-License-Identifier: Apache-2.0
"""Keeps the node alive and clears up after it, whoever is killed: `python -m tests.kubernetes.keeper ORDER`.

It ends with its standard input: when the test process ends, however it ends, the pipe closes; the node's namespaces end, its
cgroups and its folder go. Where this process itself is killed the node ends all the same, and the next run clears up.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "zombiescope-kubernetes-"
_CGROUPS = ("kubepods", "kubepods.slice", "k8s.io")
_MOST_SECONDS = 30.0


def own_cgroups() -> list[Path]:
    """What a kubelet makes below the root of each hierarchy."""
    top = Path("/sys/fs/cgroup")
    tops = [top, *(place for place in top.iterdir() if place.is_dir() and not place.is_symlink())]
    return [place / name for place in tops for name in _CGROUPS if (place / name).is_dir()]


def remove_cgroups() -> list[Path]:
    """Those that are left: somebody is inside."""
    ends = time.monotonic() + _MOST_SECONDS
    while (left := own_cgroups()) and time.monotonic() < ends:
        for top in left:
            for place in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
                _remove(place)
            _remove(top)
        time.sleep(0.1)
    return left


def _remove(place: Path) -> None:
    with suppress(OSError):
        place.rmdir()


def locked(folder: Path) -> int | None:
    """A lock that lasts as long as this process; None where another one has it."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def clear_leftovers() -> None:
    """Of keepers that were killed: their folders are there, and nobody holds the lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        held = locked(folder)
        if held is not None:
            remove_cgroups()
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def main() -> None:
    order = json.loads(sys.argv[1])
    folder = Path(order["folder"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    assert locked(folder) is not None
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    words += [sys.executable, "-m", "tests.kubernetes.node", sys.argv[1]]
    node = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    assert node.stdin
    while node.poll() is None and not select.select([sys.stdin], [], [], 0.2)[0]:
        pass
    node.stdin.close()
    try:
        node.wait(_MOST_SECONDS)
    except subprocess.TimeoutExpired:
        node.kill()
        node.wait()
    left = remove_cgroups()
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(f"left behind: {left}" if left else 0)


if __name__ == "__main__":
    main()
