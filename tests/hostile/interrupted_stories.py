# SPDX-License-Identifier: Apache-2.0
"""A real `apply` of the installed command, held in the middle: a drop-in is placed and a unit is being stopped.

Only systemd is stood in for. Each has a mount namespace, folders and a unit of its own, so that many of them run side by side:
they mostly wait.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from tests.hostile.neighbour import INSTALLED, PATIENCE, needed_below
from tests.unit.trees import plant

SECONDS = PATIENCE
UNIT = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=1\n"
SYSTEMCTL = """#!/bin/sh
# One unit that is restarted between any two questions until it is stopped; `hold-VERB` makes a verb wait until it is gone.
cd "$(dirname "$0")" && state=$(cat state) && restarts=$(wc -c < restarts)
hold() { touch "at-$1"; while [ -e "hold-$1" ]; do sleep 0.05; done; }
case "$1" in
show) [ "$state" = activating ] && printf xxx >> restarts
  printf 'Id=story.service\\nLoadState=loaded\\nActiveState=%s\\nSubState=%s\\nNRestarts=%s\\n' \\
    "$state" "$([ "$state" = activating ] && echo auto-restart || echo dead)" "$restarts";;
stop) echo deactivating > state; hold stop; echo inactive > state;;
start) hold start; echo activating > state;;
esac
"""
CONSENTS = ("--consent", "limit:story.service", "--consent", "stop:story.service")
APPLY = (
    "apply",
    "--maker",
    "unit:story.service",
    "--below",
    "/",
    "--seconds",
    "0.5",
    "--before",
    "1",
    "--yes",
    *CONSENTS,
)


class Story:
    def __init__(self, folder: Path, *holds: str) -> None:
        self.folder, self.etc, self.systemd = folder, folder / "etc", folder / "bin"
        plant(self.systemd, {"systemctl": SYSTEMCTL, "state": "activating\n", "restarts": "xxx"})
        (self.systemd / "systemctl").chmod(0o755)
        for verb in holds:
            (self.systemd / f"hold-{verb}").touch()
        wants = {"system/multi-user.target.wants/story.service": "-> ../story.service"}
        plant(self.etc, {"system/story.service": UNIT, **wants})
        (folder / "lib/zombiescope").mkdir(parents=True)
        self.before = self.picture()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def unit_state(self) -> str:
        return (self.systemd / "state").read_text().strip()

    @property
    def journal(self) -> Path:
        (found,) = (self.folder / "lib/zombiescope/actions").glob("*/journal.jsonl")
        return found

    @property
    def action(self) -> str:
        return self.journal.parent.name

    @property
    def drop_ins(self) -> list[Path]:
        return list(self.etc.rglob("*.conf"))

    def picture(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for path in sorted(self.etc.rglob("*")):
            status = path.lstat()
            what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[str(path)] = (what, status.st_mode, status.st_uid, 0 if path.is_dir() else status.st_mtime_ns)
        return found

    def call(self, *words: str) -> list[str]:
        needed = list(enumerate(needed_below("/run", "/var/lib")))
        aside = "".join(f"mkdir -p /mnt/{n} && mount --bind {path} /mnt/{n} && " for n, path in needed)
        back = "".join(f" && mkdir -p {path} && mount --bind /mnt/{n} {path}" for n, path in needed)
        if needed:
            aside = f"mount -t tmpfs aside /mnt && {aside}"
        here = (
            f"{aside}mount -t tmpfs run /run && "
            f"mkdir -p /run/systemd/system /etc/systemd && mount --bind {self.etc} /etc/systemd && "
            f"mount --bind {self.folder / 'lib'} /var/lib{back} && export PATH={self.systemd}:$PATH"
        )
        return ["unshare", "--mount", "sh", "-c", f'{here} && exec "$@"', "sh", str(INSTALLED), *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.call(*words), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=SECONDS
        )

    def start(self, *words: str, before: Sequence[str] = (), **streams: Any) -> subprocess.Popen[bytes]:
        """Its output goes to files, unless it is said where."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": self._file("out"), "stderr": self._file("err"), **streams}
        process = subprocess.Popen([*before, *self.call(*words)], **streams)
        self._processes.append(process)
        return process

    def end(self) -> None:
        """Whatever came of it: nothing of it stays."""
        for verb in ("stop", "start"):
            (self.systemd / f"hold-{verb}").unlink(missing_ok=True)
        for process in self._processes:
            process.kill()
            process.wait()

    def _file(self, name: str) -> IO[bytes]:
        return open(self.folder / name, "wb")

    def said(self, name: str = "err") -> str:
        return (self.folder / name).read_text()

    def wait_for(self, verb: str) -> None:
        wait_until((self.systemd / f"at-{verb}").exists, f"systemctl {verb}")

    def let_go(self, verb: str) -> None:
        (self.systemd / f"hold-{verb}").unlink()


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.02)


def code_of(process: subprocess.Popen[bytes]) -> int:
    return process.wait(SECONDS)
