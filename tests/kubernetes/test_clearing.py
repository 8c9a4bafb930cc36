# SPDX-License-Identifier: Apache-2.0
"""Nothing of the cluster outlives the process that asked for it, even one that is killed. Before any other test has a cluster."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.kubernetes.any_cluster import TOP
from tests.kubernetes.keeper import PREFIX, own_cgroups
from tests.kubernetes.node import KEYS, OWN, SYSCTLS

_MOST_SECONDS = 120.0


def eventually(holds: Callable[[], bool]) -> bool:
    ends = time.monotonic() + _MOST_SECONDS
    while not holds():
        if time.monotonic() > ends:
            return False
        time.sleep(0.1)
    return True


def sysctls() -> dict[str, str]:
    names = (*SYSCTLS, *KEYS, "net/ipv4/ip_forward")
    return {name: Path("/proc/sys", name).read_text() for name in names}


def folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))


def test_a_kill_leaves_nothing() -> None:
    before, there = sysctls(), {place for place in (*OWN, "/run/containerd") if Path(place).exists()}
    asking = subprocess.Popen(
        [sys.executable, "-m", "tests.kubernetes.cluster"], cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    try:
        assert eventually(lambda: bool(own_cgroups()) or asking.poll() is not None)
        assert asking.poll() is None, "it ended before kubelet began"
    finally:
        asking.kill()
        asking.wait()
    assert eventually(lambda: not own_cgroups() and not folders())
    assert sysctls() == before
    assert {place for place in (*OWN, "/run/containerd") if Path(place).exists()} == there
