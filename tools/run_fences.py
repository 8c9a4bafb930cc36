# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of documents, literally, in a clean clone, as root in a mount namespace of their own.

/etc, /usr/local, /var/lib, /run and /root are covered by layers in memory, the state folder by one on disk: what a command installs
or writes there is gone with the namespace. Cgroups and /dev/shm are the machine's; the documents name their runs of the lab, and
whatever happens these are removed.
Usage: run_fences.py [DOCUMENT...]
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import BinaryIO, NamedTuple

from tools.fences import ROOT, Fence, documents, fences_of

INSTALLS = "README.md"
"""The document that installs: run first, and what it put into /usr/local is there for the others."""
_OWN_COVERED = ("/etc", "/var/lib", "/run", "/root")
_COVERED = ("/usr/local", *_OWN_COVERED)
"""Where something is installed, too."""
_STATE = "/var/lib/zombiescope"
_AT_ONCE = 16
_END_SECONDS = 30
_RUN = re.compile(r"zombiescope lab (?:zombies|leak|churn)\b.*?--name (\w+)")
_KEPT_VARIABLES = (
    "PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_CONFIG_FILE PIP_CERT http_proxy https_proxy no_proxy"
)


class Outcome(NamedTuple):
    fence: Fence
    seconds: float
    exit_code: int | None
    """None: it was not run, or did not end in time."""
    said: str
    trouble: str
    """Empty: it did what the document says."""


class Started(NamedTuple):
    process: subprocess.Popen[bytes]
    output: BinaryIO

    def said(self) -> str:
        self.output.seek(0)
        return self.output.read().decode(errors="backslashreplace")

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self) -> None:
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.process.wait()

    def until(self, text: str, seconds: float) -> bool:
        """It has printed this, in time."""
        limit = time.monotonic() + seconds
        while text not in self.said():
            if self.process.poll() is not None or time.monotonic() > limit:
                return False
            time.sleep(0.05)
        return True

    def wait(self, seconds: float) -> tuple[int | None, str]:
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = self.process.wait(seconds)
        if code is None:
            self.end()
        return code, self.said()


class Room:
    """A mount namespace, and with `is_alone` a network of its own: loopback, every port free. A child that sleeps keeps it."""

    def __init__(
        self, folder: Path, covered: Sequence[str], inside: Room | None = None, *, is_alone: bool = False
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        script = [f"mkdir -p {folder}/layers {folder}/state", f"mount -t tmpfs none {folder}/layers"]
        for place in covered:
            layer = f"{folder}/layers/{place.strip('/').replace('/', '-')}"
            script += [f"mkdir -p {layer}/upper {layer}/work"]
            script += [f"mount -t overlay none -o lowerdir={place},upperdir={layer}/upper,workdir={layer}/work {place}"]
        script += [f"mkdir -p {_STATE}", f"mount --bind {folder}/state {_STATE}"]
        if inside is None:
            keep = f'Defaults env_keep += "{_KEPT_VARIABLES}"'
            script += [
                f"mkdir -p /etc/sudoers.d && echo '{keep}' > /etc/sudoers.d/fences && chmod 440 /etc/sudoers.d/fences"
            ]
        if is_alone:
            script += ["ip link set lo up"]
        self._kinds = ["mnt", *(["net"] if is_alone else [])]
        command = ["unshare", "--mount", *(["--net"] if is_alone else []), "--propagation", "private"]
        command += ["sh", "-ec", "; ".join([*script, "echo ready", "exec sleep infinity"])]
        self._keeper = subprocess.Popen(
            [*(inside.way_in() if inside else []), *command], stdout=subprocess.PIPE, text=True
        )
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != "ready\n":
            raise OSError("cannot make a mount namespace with layers over /etc and /usr/local")

    def way_in(self) -> list[str]:
        """The command that enters it; a folder to begin in may follow."""
        flags = {"mnt": "--mount", "net": "--net"}
        return ["nsenter", *(f"{flags[kind]}=/proc/{self._keeper.pid}/ns/{kind}" for kind in self._kinds)]

    def close(self) -> None:
        self._keeper.terminate()
        self._keeper.wait()


class Session:
    """One document: its fences one after the other in one folder, its daemons until the end."""

    def __init__(self, room: Room, folder: Path) -> None:
        self._way_in = [*room.way_in(), f"--wd={folder}"]
        self._daemons: list[Started] = []
        self._prepared: list[Started] = []
        self._environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **{name: os.environ[name] for name in _KEPT_VARIABLES.split() if name in os.environ},
        }

    def run(self, fence: Fence) -> Outcome:
        if fence.never or fence.tier:
            return Outcome(fence, 0.0, None, "", "")
        began = time.monotonic()
        if fence.before:
            preparing = self._start(fence.before)
            self._prepared.append(preparing)
            prepared = preparing.wait(60)
            if prepared[0] != 0:
                return Outcome(
                    fence, time.monotonic() - began, *prepared, "what must be there before could not be made"
                )
        code, said, trouble = self._judge(fence, self._start(fence.script))
        if "Traceback (most recent call last)" in said or "this is a bug" in said:
            trouble = trouble or "a traceback"
        return Outcome(fence, time.monotonic() - began, code, said, trouble)

    def _judge(self, fence: Fence, started: Started) -> tuple[int | None, str, str]:
        if fence.ready:
            self._daemons.append(started)
            is_ready = started.until(fence.ready, fence.limit_seconds)
            return None, started.said(), "" if is_ready else f"did not print {fence.ready!r}"
        if fence.stop_seconds is not None:
            with suppress(subprocess.TimeoutExpired):
                started.process.wait(fence.stop_seconds)
            started.signal(signal.SIGINT)
            code, said = started.wait(_END_SECONDS)
            ended = code in (0, 5, 130, -signal.SIGINT, *fence.exits)
            return code, said, "" if ended else f"interrupted, it ended with {code}"
        code, said = started.wait(fence.limit_seconds)
        if code is None:
            return code, said, f"not done after {fence.limit_seconds:g} s"
        return code, said, "" if code in fence.exits else f"ended with {code}"

    def _start(self, script: str) -> Started:
        output = tempfile.TemporaryFile()  # noqa: SIM115 (it is read until the command is forgotten)
        process = subprocess.Popen(
            [*self._way_in, "bash", "-eu", "-c", script],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return Started(process, output)

    def close(self, fences: Sequence[Fence]) -> str:
        """Ends the daemons and removes what the lab made; what one that did not end in order said."""
        trouble = ""
        for daemon in reversed(self._daemons):
            daemon.signal(signal.SIGTERM)
            code, said = daemon.wait(_END_SECONDS)
            if code not in (0, 143, -signal.SIGTERM):
                trouble += f"a daemon ended with {code}: {said[-500:]}"
        for preparing in self._prepared:
            preparing.signal(signal.SIGTERM)  # what it left in the background
        for fence in fences:
            for name in sorted(set(_RUN.findall(f"{fence.before}\n{fence.script}"))):
                self._start(f"zombiescope lab clean --name {name}").wait(_END_SECONDS)
        return trouble


def clone(folder: Path) -> Path:
    """The repository as somebody gets it: committed files, and those about to be committed; nothing built, no environment."""
    target = folder / "zombiescope"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(target)], check=True)
    changed = subprocess.run(
        ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    for name in filter(None, changed.decode().split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
        else:
            (target / name).unlink(missing_ok=True)
    return target


class Run:
    """All documents of one run: one clone, one installation."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._checkout = clone(folder)
        self._base = Room(folder / "base", _COVERED)
        self._installed = Event()

    def document(self, name: str) -> list[Outcome]:
        fences = list(fences_of(name))
        installs = any("make install" in fence.script for fence in fences)
        if name == INSTALLS:
            return self._all(Session(self._base, self._checkout), fences)
        if not installs:
            self._installed.wait()
        folder = self._folder / name.replace("/", "-")
        room = Room(folder, _COVERED if installs else _OWN_COVERED, self._base, is_alone=not installs)
        try:
            (folder / "work").mkdir()
            return self._all(Session(room, self._checkout if installs else folder / "work"), fences)
        finally:
            room.close()

    def _all(self, session: Session, fences: Sequence[Fence]) -> list[Outcome]:
        outcomes = []
        try:
            for fence in fences:
                outcomes.append(session.run(fence))
                if fence.document == INSTALLS:
                    self._installed.set()  # after its first fence, which installs; should it fail, the others say so, too
        finally:
            trouble = session.close(fences)
        if trouble and outcomes:
            outcomes[-1] = outcomes[-1]._replace(trouble=outcomes[-1].trouble or trouble)
        return outcomes

    def close(self) -> None:
        self._base.close()


def run(names: Sequence[str]) -> list[Outcome]:
    """Of each fence, in the order of the documents, which run beside each other once the first has installed."""
    with tempfile.TemporaryDirectory(prefix="zombiescope-fences-", dir="/var/tmp") as scratch:
        whole = Run(Path(scratch))
        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                jobs = [pool.submit(whole.document, name) for name in dict.fromkeys([INSTALLS, *names])]
                return [outcome for job in jobs for outcome in job.result()]
        finally:
            whole.close()


def main() -> None:
    outcomes = run(sys.argv[1:] or documents())
    for outcome in outcomes:
        fence = outcome.fence
        state = (
            f"never: {fence.never}"
            if fence.never
            else f"tier {fence.tier}"
            if fence.tier
            else outcome.trouble or "as told"
        )
        print(f"{outcome.seconds:6.1f} s  {fence.name:32} {fence.script.splitlines()[0][:60]:60} {state}")
        if outcome.trouble:
            print(outcome.said[-3000:])
    sys.exit(any(outcome.trouble for outcome in outcomes))


if __name__ == "__main__":
    main()
