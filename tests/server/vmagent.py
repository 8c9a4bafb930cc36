# SPDX-License-Identifier: Apache-2.0
"""A vmagent that aggregates streams: this machine's where it is new enough, else that of Debian's trixie, unpacked beside it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests.vm.archive import PrivateApt, run

FLAG = "-remoteWrite.streamAggr.config"
_SUITE = "trixie"


def vmagent() -> Path:
    here = shutil.which("vmagent")
    if here and _aggregates(Path(here)):
        return Path(here)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zombiescope" / "vmagent"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / _SUITE / "usr/bin/vmagent"
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            apt = PrivateApt(folder / "apt", [_SUITE])
            apt.update()
            fresh = folder / "fresh"
            shutil.rmtree(fresh, ignore_errors=True)
            run(["dpkg", "-x", str(apt.download_one("victoria-metrics")), str(fresh)])
            shutil.rmtree(folder / "apt")
            fresh.rename(folder / _SUITE)
    assert _aggregates(program), f"{program} knows no {FLAG}"
    return program


def _aggregates(program: Path) -> bool:
    done = subprocess.run([str(program), "-help"], capture_output=True, text=True, check=False)
    return FLAG in done.stdout + done.stderr
