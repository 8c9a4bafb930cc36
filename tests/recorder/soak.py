# SPDX-License-Identifier: Apache-2.0
"""A recorder over real load, on a small file system of its own: killed, without room, with its clock set, at last with a budget
that it cannot keep; kept running as a unit would keep it. What it says of itself is compared with every sample that it stored.

The wall clock is one for the whole machine: it is set for the recorder alone (`other_time.c`); the steady one stays.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.files.beside import read_notes
from zombiescope.profiler.files.store import entries
from zombiescope.profiler.stacks.about import Note
from zombiescope.profiler.stacks.capture import Capture

WORK = """
import hashlib, os, random, time
os.nice(19)
while True:
    end = time.monotonic() + random.uniform(0.1, 0.5)
    while time.monotonic() < end:
        hashlib.sha256(bytes(1 << 16)).digest(); os.listdir("/proc/self")
    time.sleep(random.uniform(0.1, 0.5))
"""
CORES = os.cpu_count() or 1
DISK_BYTES, RING_BYTES, FREE_BYTES = CORES * (12 << 20), CORES * 1_500_000, 2_000_000
RATE_HZ = 499
NO_BUDGET = 0.01
"""Percent of a core, at which no machine stores captures."""
_BUDGET_SECONDS = 75.0
"""That a recorder takes to see what it costs, and to store a capture after that."""
_JUMPS = (3600, -7200)
SAMPLER = os.environ.get("ZOMBIESCOPE_SOAK_WITH", "own")
"""`perf`: two of its segments lie in the ring at once."""


def build_library(folder: Path) -> Path | None:
    """None: there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("clang") or shutil.which("gcc")
    if compiler is None:
        return None
    library, source = folder / "other_time.so", Path(__file__).parent / "other_time.c"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """In a mount namespace nobody else would see it fill up; here its name is ours alone."""
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={DISK_BYTES},mode=0700".encode()
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    try:
        yield folder
    finally:
        libc.umount2(os.fsencode(folder), 2)


@dataclass
class Soak:
    folder: Path
    """On the small disk."""
    beside: Path
    """For what the recorder must not see."""
    segment_seconds: float
    dice: random.Random
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    killed: int = 0
    filled: int = 0
    jumped: int = 0
    most_bytes: int = 0
    cpu_percent: float = 0.0
    """Of a core; 0: it takes as much as it needs."""
    cpu_seconds: float = 0.0
    notes: list[Note] = field(default_factory=list)
    """All that the recorders wrote into their journal."""
    reasons: list[str] = field(default_factory=list)
    """Of the newest hole, asked for once the capture behind it was stored: later it may have made room."""

    @property
    def captures(self) -> Path:
        return self.folder / "captures"

    def start(self) -> None:
        if not self.starts:
            self.clock(0)
        config = self.beside / "zombiescope.toml"
        config.write_text(
            f'[agent]\nstate = ""\n[profile]\ncaptures = "{self.captures}"\nsegment_seconds = {self.segment_seconds}\n'
            f'sampler = "{SAMPLER}"\n'
            f"rate_hz = {RATE_HZ}\nkeep_megabytes = {RING_BYTES / 1e6}\nleast_free_megabytes = {FREE_BYTES / 1e6}\n"
            f'most_cpu_percent = {self.cpu_percent}\naround_seconds = {self.segment_seconds}\nprefer = "saturated-core,nic-reset"\n'
        )
        environment = os.environ | {
            "LD_PRELOAD": str(self.beside / "other_time.so"),
            "OTHER_TIME": str(self.beside / "clock"),
        }
        words = [sys.executable, "-m", "zombiescope", "profile", "record", "--service", "--config", str(config)]
        with (self.beside / "said").open("ab") as said:
            self.process = subprocess.Popen(words, stdout=said, stderr=said, env=environment)
        self.starts += 1

    def clock(self, seconds: int) -> None:
        """In one write, into the file that the recorder has mapped."""
        descriptor = os.open(self.beside / "clock", os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(descriptor, struct.pack("@l", seconds).ljust(4096, b"\0"), 0)
        os.close(descriptor)

    def wait(self, seconds: float) -> None:
        """As a unit would: whoever ends is started again. The size of the folder is looked at all the time."""
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            self.look()
            time.sleep(0.2)

    def look(self) -> None:
        assert self.process is not None
        if self.process.poll() is not None:
            self.start()
        total = 0
        for name in os.listdir(self.captures) if self.captures.exists() else ():
            try:
                total += (self.captures / name).stat().st_size
            except FileNotFoundError:
                continue
        self.most_bytes = max(self.most_bytes, total)

    def until(self, is_so: Any, seconds: float = 120.0) -> None:
        over = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < over, self.said()[-2000:]
            self.look()
            time.sleep(0.2)

    def said(self) -> str:
        return (self.beside / "said").read_text(errors="replace")

    def stored(self) -> int:
        return self.said().count("stored ")

    def written(self) -> list[Note]:
        return read_notes(os.fsencode(self.captures))

    def last(self, what: str) -> Note | None:
        return next((note for note in reversed(self.written()) if note.what == what), None)

    def store(self) -> None:
        before = self.stored()
        self.until(lambda: self.stored() > before)

    def ring(self) -> dict[str, Any]:
        asked = [sys.executable, "-m", "zombiescope", "profile", "ring", "--json", "--captures", str(self.captures)]
        said: dict[str, Any] = json.loads(subprocess.run(asked, check=True, capture_output=True).stdout)
        return said

    def gap(self) -> None:
        """Two captures later: of those that a kill left the first is one."""
        self.store()
        self.store()
        self.reasons += [hole["why"] for hole in self.ring()["holes"][-1:]]

    def kill(self) -> None:
        """In the middle of a segment."""
        assert self.process is not None
        self.store()
        self.wait(self.dice.uniform(0.3, 0.7) * self.segment_seconds)
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.killed += 1
        time.sleep(2)
        self.start()
        self.gap()

    def fill(self) -> None:
        """By somebody else, to the last byte; then they take it away."""
        before = self.said().count("nothing is recorded") + self.said().count("goes on when there is room")
        path = self.folder / "somebody-elses"

        def is_noticed() -> bool:
            """What the recorder gives them they take, too."""
            with path.open("ab", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(1 << 14))
            return self.said().count("nothing is recorded") + self.said().count("goes on when there is room") > before

        self.until(is_noticed)
        self.wait(3)
        rooms = self.said().count("there is room again")
        path.unlink()
        self.until(lambda: self.said().count("there is room again") > rooms)
        self.filled += 1
        self.gap()

    def jump(self) -> None:
        before, note = self.stored(), self.last("clock")
        self.clock(_JUMPS[self.jumped % len(_JUMPS)])
        self.jumped += 1
        self.until(lambda: self.stored() > before and self.last("clock") != note)

    def save(self) -> None:
        """With a budget that nobody can keep. Once it has seen that, it takes fewer samples, and stores one such capture."""
        self.end()
        self.cpu_percent = NO_BUDGET
        self.start()
        self.until(lambda: self.last("rate") is not None, 600.0)
        self.store()

    def end(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds = usage.ru_utime + usage.ru_stime


@contextmanager
def load(workers: int) -> Iterator[None]:
    jobs = [subprocess.Popen([sys.executable, "-c", WORK]) for _ in range(workers)]
    try:
        yield
    finally:
        for job in jobs:
            job.kill()
            job.wait()


def run(beside: Path, minutes: float, segment_seconds: float, dice: random.Random) -> tuple[Soak, dict[str, Any]]:
    """One of each, and so on until the time is over; at last fewer samples."""
    with small_disk(beside / "disk") as disk, load(CORES):
        soak = Soak(disk, beside, segment_seconds, dice)
        over = time.monotonic() + 60 * minutes
        soak.start()
        try:
            soak.until(lambda: soak.stored() >= 2)
            turn = [soak.kill, soak.fill, soak.jump, soak.kill, soak.jump]
            for event in turn:
                event()
            while time.monotonic() < over - _BUDGET_SECONDS:
                soak.wait(dice.uniform(2, 8) * segment_seconds)
                dice.choice(turn)()
            soak.save()
        finally:
            soak.end()
        ring = soak.ring()
        folder, soak.notes = os.fsencode(soak.captures), soak.written()
        captures = [open_capture(folder, one.name).capture for one in entries(folder) if one.about is not None]
        ring["samples_on_steady_clock"] = _moments(captures)
        ring["rate_hz"] = [capture.about.rate_hz for capture in sorted(captures, key=lambda one: one.about.serial)]
        return soak, ring


def _moments(captures: list[Capture]) -> list[list[float]]:
    """Stretches without a pause of a second, by every sample of every capture."""
    every = np.sort(np.concatenate([capture.time for capture in captures])).astype(np.int64)
    breaks = np.flatnonzero(np.diff(every) >= 10**9)
    firsts, lasts = every[np.append(0, breaks + 1)], every[np.append(breaks, len(every) - 1)]
    return [[first / 1e9, last / 1e9] for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
