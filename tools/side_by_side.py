# SPDX-License-Identifier: Apache-2.0
"""Makes some targets behind, each in a line of its own, others in front, and others after all of them, one by one:
`python -m tools.side_by_side BEHIND... -- FRONT... [-- AFTER...]`. Its last words are what each took (tools/tier_times.py).

`A+B` behind is one line: B after A. What is made in front writes as ever. What is made behind writes to build/behind/TARGET; of it
only lines of progress (`vm: `) appear at once, and all of it, in one piece, when its turn comes: after the last target in front.
It fails when anything failed. What fails in front ends what is behind; so does Ctrl-C; should this process be killed, the kernel
ends them all.
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

from tools.tier_times import INSTALLS, MACHINES, Tier, forget_retries, retries, rows

LOGS = Path("build/behind")
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_SECONDS = {signal.SIGINT: 60.0, signal.SIGTERM: 10.0, signal.SIGKILL: 10.0}
"""How long a line may take to clean up after each signal, before the next one."""
_PROGRESS = re.compile(rb"\.*((?:vm|calm): .*)")
"""A line of progress, also behind the dots of pytest."""
_LOOK_SECONDS = 0.2
_PATIENT = 10
"""In front one waits for the emulators (5): a machine that gets too little of a CPU is slow to no end, tests of files are not."""


_asked: list[str] = []
"""The signals that asked us to end. They are only noted, and heard where we wait: one that broke off the start of a process would
leave it without anybody who ends it."""


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
    """One target, or several one after the other (`A+B`), the log, and how far its progress was told."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.log = LOGS / target
        self.seconds = 0.0
        self._told = 0
        self._began = time.monotonic()
        with self.log.open("wb") as output:
            self.process = make(target.split("+"), output.fileno())

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
        if _asked:
            raise AskedToEndError(_asked[0])
        waiting = [line for line in waiting if not line.is_through()]
        time.sleep(_LOOK_SECONDS)
    return process.returncode


def side_by_side(behind: Sequence[str], front: Sequence[str], tiers: list[Tier]) -> int:
    """What each took is added to `tiers`, whatever comes of it."""
    LOGS.mkdir(parents=True, exist_ok=True)
    processes: list[subprocess.Popen[bytes]] = []
    lines: list[Behind] = []
    began = time.monotonic()
    parts: list[Tier] = []
    try:
        for target in behind:
            lines.append(Behind(target))
            processes.append(lines[-1].process)
        for target in front:
            at = time.monotonic()
            processes.append(make([target], patience=_PATIENT))
            status = wait_for(processes[-1], lines)
            parts.append(Tier(target, time.monotonic() - at, is_part=True))
            if status:
                say(f"== {target} failed, status {status}: what runs behind is ended ({', '.join(behind)})")
                return 1
            say(f"== {target}: {parts[-1].seconds:.0f} s")
        is_well = True
        for line in lines:
            wait_for(line.process, lines)
            line.is_through()
            is_well = line.show() and is_well
        return 0 if is_well else 1
    finally:
        end(processes)
        parts += [Tier(line.target, line.seconds, is_part=True) for line in lines if line.seconds]
        if parts:
            tiers += [Tier(MACHINES, time.monotonic() - began), *parts]


def one_by_one(targets: Sequence[str], tiers: list[Tier]) -> int:
    """All of them, also after one that failed: each is a tier of its own."""
    failed = []
    for target in targets:
        began, process = time.monotonic(), make([target])
        try:
            status = wait_for(process, ())
        finally:
            if process.poll() is None:
                end([process])
        tiers.append(Tier(target, time.monotonic() - began))
        say(f"== {target}: {tiers[-1].seconds:.0f} s, status {status}")
        failed += [target] if status else []
    return 1 if failed else 0


def last_words(tiers: Sequence[Tier]) -> None:
    if tiers:
        say("\n".join(["", *rows(tiers), *retries()]))


def interrupt(number: int, _frame: FrameType | None) -> None:
    _asked.append(signal.Signals(number).name)


def main(arguments: Sequence[str]) -> int:
    if "--" not in arguments:
        say(__doc__ or "")
        return 2
    for number in STOPPING:
        signal.signal(number, interrupt)
    behind, front, after = groups(arguments)
    tiers = [Tier(INSTALLS, time.time() - float(began))] if (began := os.environ.get("ZOMBIESCOPE_BEGAN")) else []
    forget_retries()
    try:
        status = side_by_side(behind, front, tiers) if behind or front else 0
        return status or one_by_one(after, tiers)
    except AskedToEndError as cause:
        say(f"== ended by {cause}; nothing of it runs any more")
        return 130
    finally:
        last_words(tiers)


def groups(arguments: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    found: list[list[str]] = [[]]
    for word in arguments:
        if word == "--":
            found.append([])
        else:
            found[-1].append(word)
    behind, front, *after = found
    return behind, front, [target for each in after for target in each]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
