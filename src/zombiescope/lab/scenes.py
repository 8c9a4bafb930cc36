# SPDX-License-Identifier: Apache-2.0
"""Where an incident is played and by whom: who crash-loops there (processes of the lab in its subtree, or a real systemd unit in
a slice), and a neighbour of the zombies, which reads a file through the page cache, on one core, under a limit on the parent
that holds them. Every page it reads must push another out, and to find one the kernel visits every zombie below the limit."""

import hashlib
import json
import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from zombiescope.errors import ActionFailedError
from zombiescope.host.own_folder import open_nothing
from zombiescope.host.safe_paths import descriptor_of
from zombiescope.lab import processes
from zombiescope.lab.hierarchy import MemoryHierarchy, write_file
from zombiescope.lab.places import tmpfs_folder
from zombiescope.lab.processes import die_with_parent, in_child
from zombiescope.lab.runs import Advance, LeakOrder, Run, leak

AGENT = "unused-agent"
REAL_LIVES = 12
"""Of a real unit: systemd takes a second for each. What is asked beyond is lived before, in compressed time."""
_FASTEST_PER_MINUTE = 60_000.0
_PATIENCE_SECONDS = 300.0


class Answer(NamedTuple):
    """What a doctor has to say of a scene."""

    origin: str
    maker: str
    """Part of the maker's name."""
    first_remedies: tuple[str, ...]


class LabScene:
    """No systemd: the lab's staff lives the agent's lives."""

    truth = Answer("pinned-shared-memory", AGENT, ("delete-file",))
    told = "each life is a process of the lab's"
    watch_seconds = 1.0
    """How long services are watched before a plan."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.node = f"{run.subtree}/node"
        """The cgroup that holds the dead, the pods and the neighbour."""

    def set_up(self) -> None:
        self._run.hierarchy.make_parents(self.node)

    def crash_loop(self, count: int, advance: Advance) -> int:
        """How many it left."""
        return len(leak(replace(self._run, below=self.node), _order(count), advance).made)

    def has_ended(self) -> bool:
        """Whether what made them is at rest after the cure."""
        return True


class UnitScene:
    """A real unit in a slice of its own; apply has to stop it."""

    truth = Answer("crash-looping-unit", "unit:", ("stop-unit", "limit-restarts"))
    told = f"the last {REAL_LIVES} lives and all that follow are a real systemd unit's, the others compressed time"
    watch_seconds = 8.0

    def __init__(self, run: Run) -> None:
        processes.require_systemd()
        self._run = run
        self.node = f"/{processes.slice_of(run.name)}"

    def set_up(self) -> None:
        self._run.journal.intend("units", slice=processes.slice_of(self._run.name))
        processes.start_anchor(self._run.name)
        self._run.hierarchy.make_parents(self.node)

    def crash_loop(self, count: int, advance: Advance) -> int:
        agent = processes.agent_of(self._run.name)
        before = leak(replace(self._run, below=self.node), _order(max(count - REAL_LIVES, 1), place=agent), advance)
        folder = tmpfs_folder(self._run.name)
        processes.start_agent(self._run.name, folder)
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while (lives := sum(name.startswith("life-") for name in os.listdir(folder))) < REAL_LIVES:
            if time.monotonic() > give_up:
                raise ActionFailedError("the unit does not crash-loop", f"{lives} lives", "zombiescope lab clean")
            time.sleep(0.2)
            advance(len(before.made) + lives)
        return len(before.made) + lives

    def has_ended(self) -> bool:
        state = processes.systemctl("show", "-p", "ActiveState", "--value", processes.agent_of(self._run.name)).strip()
        return state in {"inactive", "failed"}


def _order(count: int, place: str | None = None) -> LeakOrder:
    return LeakOrder(AGENT, _FASTEST_PER_MINUTE, 60 * count / _FASTEST_PER_MINUTE, "service", "tmpfs", place)


_BLOCK, _YARD = 1 << 20, 1 << 16
FILE_BYTES, ROOM_BYTES = 192 << 20, 32 << 20


class Pace(NamedTuple):
    megabytes_per_second: float
    megabytes_per_cpu_second: float
    worst_seconds: float
    """The longest read of one MiB."""
    system_share: float
    """Of its core, in the kernel."""
    yardstick: float
    """Megabytes hashed for a second of CPU meanwhile: how fast the core was, whoever else used the machine."""

    @property
    def work(self) -> float:
        """What it got done for the same CPU time, on a core of the same speed."""
        return self.megabytes_per_cpu_second / self.yardstick


class Neighbour(NamedTuple):
    hierarchy: MemoryHierarchy
    parent: str
    """The cgroup with the limit."""
    file: str
    core: int

    @property
    def path(self) -> str:
        return f"{self.parent}/neighbour"

    def prepare(self) -> None:
        """A file that nobody has cached, and a cgroup to read it in."""
        with open(self.file, "wb") as made:
            block = os.urandom(_BLOCK)
            made.writelines(block for _ in range(FILE_BYTES // _BLOCK))
            made.flush()
            os.fsync(made.fileno())
        self._forget()
        self.hierarchy.make(self.path)

    def measure(self, seconds: float) -> Pace:
        """Under a limit that leaves it the same room, whatever the zombies hold."""
        with self._limited():
            return self._read_for(seconds)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Until the block ends, under its limit."""
        with self._limited():
            child = self._start_reader(math.inf, open_nothing())
            try:
                yield
            finally:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        self._forget()
        self._limit(self._used() + ROOM_BYTES)
        try:
            yield
        finally:
            self._limit(None)

    def _forget(self) -> None:
        with descriptor_of(self.file, os.O_RDONLY) as descriptor:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def _used(self) -> int:
        name = "memory.current" if self.hierarchy.is_unified else "memory.usage_in_bytes"
        return int(Path(self.hierarchy.file(self.parent, name)).read_text(encoding="ascii"))

    def _limit(self, limit_bytes: int | None) -> None:
        """On a cgroup of the lab's own: whatever ends us, `lab clean` removes it with its limit."""
        name, none = ("memory.max", "max") if self.hierarchy.is_unified else ("memory.limit_in_bytes", "-1")
        write_file(self.hierarchy.file(self.parent, name), str(none if limit_bytes is None else limit_bytes).encode())

    def _read_for(self, seconds: float) -> Pace:
        reading, writing = os.pipe()
        child = self._start_reader(seconds, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            told = answer.read()
        os.waitpid(child, 0)
        if not told:
            raise ActionFailedError(
                "cannot measure the neighbour", "its process ended without an answer", "zombiescope lab clean"
            )
        return Pace(*json.loads(told))

    def _start_reader(self, seconds: float, writing: int) -> int:
        """Its process id."""
        command = os.getpid()

        def read() -> None:
            die_with_parent(command)
            os.sched_setaffinity(0, {self.core})
            self.hierarchy.enter(self.path)
            os.write(writing, json.dumps(_read(self.file, seconds)).encode())

        return in_child(read)


def _read(file: str, seconds: float) -> Pace:
    """A tenth of the time goes to the yardstick, between the reads: a machine that slows down slows both."""
    buffer, total, worst, cpu = bytearray(_BLOCK), 0, 0.0, 0.0
    yard = _Yardstick()
    descriptor = os.open(file, os.O_RDONLY)
    before, began = os.times(), time.monotonic()
    while (now := time.monotonic()) - began < seconds:
        used = time.process_time()
        got = os.readv(descriptor, [buffer])
        worst = max(worst, time.monotonic() - now)
        total += got
        if got == 0:
            os.lseek(descriptor, 0, os.SEEK_SET)
        cpu += time.process_time() - used
        while yard.cpu_seconds < cpu / 10:
            yard.lay()
    after, took = os.times(), time.monotonic() - began
    megabytes = total / 1e6
    reading = max(took - yard.seconds, 1e-6)
    rate, system = megabytes / max(cpu, 0.01), (after.system - before.system) / reading
    return Pace(megabytes / reading, rate, worst, system, yard.rate)


class _Yardstick:
    """Work that no cgroup has a part in."""

    def __init__(self) -> None:
        self._block, self._laid = bytes(_YARD), 0
        self.seconds = self.cpu_seconds = 0.0

    def lay(self) -> None:
        began, used = time.monotonic(), time.process_time()
        hashlib.sha256(self._block).digest()
        self.cpu_seconds += time.process_time() - used
        self.seconds += time.monotonic() - began
        self._laid += _YARD

    @property
    def rate(self) -> float:
        return self._laid / 1e6 / max(self.cpu_seconds, 1e-6)


_FILES = ("memory.stat", "memory.usage_in_bytes", "memory.current", "cgroup.procs")


class Swept(NamedTuple):
    cgroups: int
    seconds: float


def sweep(hierarchy: MemoryHierarchy, top: str) -> Swept:
    began, cgroups = time.monotonic(), 0
    for path in hierarchy.deepest_first(top):
        cgroups += 1
        for name in _FILES:
            with suppress(OSError), open(hierarchy.file(path, name), "rb") as file:
                file.read()
    return Swept(cgroups, time.monotonic() - began)
