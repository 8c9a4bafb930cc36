# SPDX-License-Identifier: Apache-2.0
"""Makes some targets behind, each in a line of its own, and others in front: `tools/side_by_side.py BEHIND... -- FRONT...`.

What is made in front writes as ever. What is made behind writes to build/behind/TARGET; of it only lines of progress (`vm: `)
appear at once, and all of it, in one piece, when its turn comes: after the last target in front. It fails when anything failed.
What fails in front ends what is behind; so does Ctrl-C; should this process be killed, the kernel ends them all.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

LOGS = Path("build/behind")
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_SECONDS = {signal.SIGINT: 60.0, signal.SIGTERM: 10.0, signal.SIGKILL: 10.0}
"""How long a line may take to clean up after each signal, before the next one."""
_PROGRESS = re.compile(rb"\.*((?:vm|calm): .*)")
"""A line of progress, also behind the dots of pytest."""
_LOOK_SECONDS = 0.2
_PATIENT = 10
"""In front one waits for the emulators (5): a machine that gets too little of a CPU is slow to no end, tests of files are not."""


class AskedToEndError(Exception):
    """Somebody asked us to end."""


def make(targets: Sequence[str], output: int | None = None, patience: int = 0) -> subprocess.Popen[bytes]:
    """In a process group of its own, so that one signal reaches all of it, and only through us."""
    program = os.environ.get("MAKE", "make")
    command = ["setpriv", "--pdeathsig", "TERM", "nice", "-n", str(patience), program, "--no-print-directory", *targets]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0)


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """With everything they started: asked at first, so that tests clean up, then told. A second Ctrl-C changes nothing."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    for number, seconds in PATIENCE_SECONDS.items():
        running = [process for process in processes if process.poll() is None]
        for process in running:
            os.killpg(process.pid, number)
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up and any(process.poll() is None for process in running):
            time.sleep(_LOOK_SECONDS)


class Behind:
    """One target, its log, and how far its progress was told."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.log = LOGS / target
        self.seconds = 0.0
        self._told = 0
        self._began = time.monotonic()
        with self.log.open("wb") as output:
            self.process = make([target], output.fileno())

    def is_through(self) -> bool:
        """Whether it ended; tells what progress there was."""
        is_over = self.process.poll() is not None
        self.seconds = self.seconds or (time.monotonic() - self._began if is_over else 0.0)
        with self.log.open("rb") as log:
            log.seek(self._told)
            while (line := log.readline()).endswith(b"\n"):
                self._told += len(line)
                if match := _PROGRESS.fullmatch(line.rstrip()):
                    say(match[1].decode(errors="replace"))
        return is_over

    def show(self) -> bool:
        """All it wrote, in one piece; whether it is well."""
        say(f"== {self.target}: {self.seconds:.0f} s beside the others, status {self.process.returncode}")
        sys.stdout.buffer.write(self.log.read_bytes())
        sys.stdout.flush()
        return self.process.returncode == 0


def say(text: str) -> None:
    print(text, flush=True)


def wait_for(process: subprocess.Popen[bytes], lines: Sequence[Behind]) -> int:
    """Until it ends, with the progress of the lines behind."""
    waiting = list(lines)
    while process.poll() is None:
        waiting = [line for line in waiting if not line.is_through()]
        time.sleep(_LOOK_SECONDS)
    return process.returncode


def side_by_side(behind: Sequence[str], front: Sequence[str]) -> int:
    LOGS.mkdir(parents=True, exist_ok=True)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        lines = []
        for target in behind:
            lines.append(Behind(target))
            processes.append(lines[-1].process)
        for target in front:
            began = time.monotonic()
            processes.append(make([target], patience=_PATIENT))
            if status := wait_for(processes[-1], lines):
                say(f"== {target} failed, status {status}: what runs behind is ended ({', '.join(behind)})")
                return 1
            say(f"== {target}: {time.monotonic() - began:.0f} s")
        is_well = True
        for line in lines:
            wait_for(line.process, lines)
            line.is_through()
            is_well = line.show() and is_well
        return 0 if is_well else 1
    finally:
        end(processes)


def interrupt(number: int, _frame: FrameType | None) -> None:
    raise AskedToEndError(signal.Signals(number).name)


def main(arguments: Sequence[str]) -> int:
    if "--" not in arguments:
        say(__doc__ or "")
        return 2
    for number in STOPPING:
        signal.signal(number, interrupt)
    split = arguments.index("--")
    try:
        return side_by_side(arguments[:split], arguments[split + 1 :])
    except AskedToEndError as cause:
        say(f"== ended by {cause}; nothing of it runs any more")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
