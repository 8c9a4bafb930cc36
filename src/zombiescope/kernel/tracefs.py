# SPDX-License-Identifier: Apache-2.0
"""A private tracefs instance: made by us, named ours, removed when done; one that a killed run left behind is removed first. Where
tracefs is not mounted it is opened by fsopen(2) and fsmount(2), which attach it nowhere: no other process sees a mount. In such
an instance, hist triggers that count from raise to run of softirqs, where BPF is refused. They and their synthetic event outlive
their process, so a child of ours takes them away: when the window ends, when we are killed, and after an hour at the latest; what
both leave, the next run removes. A trigger stamps every raise: of a softirq raised again only the last is told (*at least*).
"""

import ctypes
import os
import re
import select
import signal
from contextlib import suppress
from typing import Any

from zombiescope.errors import ObservationError
from zombiescope.facts.softirq import CoreLatency
from zombiescope.host.safe_paths import descriptor_of, held_open

_PLACES = (b"/sys/kernel/tracing", b"/sys/kernel/debug/tracing")
_FSOPEN, _FSCONFIG, _FSMOUNT, _CREATE, _CLOEXEC = 430, 431, 432, 6, 1
_OURS = re.compile(r"zombiescope-([0-9]+)-([0-9]+)(?:-[a-z]+)?")


class TracefsError(ObservationError):
    """tracefs cannot be used."""


def open_tracefs() -> int:
    """A descriptor of the top of tracefs."""
    for place in _PLACES:
        if os.path.isdir(place + b"/instances"):
            return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    if (context := libc.syscall(_FSOPEN, b"tracefs", _CLOEXEC)) < 0:
        raise _refused("fsopen")
    with held_open(context):
        if libc.syscall(_FSCONFIG, context, _CREATE, None, None, 0) < 0:
            raise _refused("fsconfig")
        if (mounted := libc.syscall(_FSMOUNT, context, _CLOEXEC, 0)) < 0:
            raise _refused("fsmount")
        return int(mounted)


def _refused(step: str) -> TracefsError:
    return TracefsError(
        "cannot watch cgroup events",
        f"tracefs is not mounted and {step}(2) failed: {os.strerror(ctypes.get_errno())}",
        "run as root, or mount -t tracefs tracefs /sys/kernel/tracing",
    )


def read_below(top: int, path: str) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=top), "rb", buffering=0) as opened:
        return opened.read()


def append_below(top: int, path: str, text: str) -> None:
    """A line to a list that others may have lines in: without O_APPEND the kernel empties it first."""
    with descriptor_of(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, dir_fd=top) as descriptor:
        os.write(descriptor, text.encode())


def _names_below(top: int, path: str) -> list[str]:
    with descriptor_of(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=top) as folder:
        return os.listdir(folder)


class Instance:
    def __init__(self, purpose: str = "") -> None:
        self._top = open_tracefs()
        self.name = f"zombiescope-{os.getpid()}-{start_time(os.getpid())}" + (f"-{purpose}" if purpose else "")
        try:
            self._remove_leftovers()
            with suppress(FileExistsError):
                os.mkdir(f"instances/{self.name}", dir_fd=self._top)
        except OSError as error:
            os.close(self._top)
            raise TracefsError(
                "cannot watch cgroup events",
                f"a private tracefs instance cannot be made: {(error.strerror or '').lower()}",
                "run as root",
            ) from error

    def read(self, file: str, *, shared: bool = False) -> bytes:
        """A file of the instance, or of tracefs itself."""
        return read_below(self._top, self._path(file, shared=shared))

    def write(self, file: str, text: str) -> None:
        # Not through a text file opened for appending: these files refuse to seek.
        with descriptor_of(self._path(file), os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._top) as descriptor:
            os.write(descriptor, text.encode())

    def append(self, file: str, text: str, *, shared: bool = False) -> None:
        append_below(self._top, self._path(file, shared=shared), text)

    def open(self, file: str) -> int:
        return os.open(self._path(file), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._top)

    def cpus(self) -> list[str]:
        return sorted(name for name in _names_below(self._top, self._path("per_cpu")) if name.startswith("cpu"))

    def close(self) -> None:
        with suppress(OSError):
            os.rmdir(f"instances/{self.name}", dir_fd=self._top)
        os.close(self._top)

    def _path(self, file: str, *, shared: bool = False) -> str:
        return file if shared else f"instances/{self.name}/{file}"

    def _remove_leftovers(self) -> None:
        """Instances of ours whose process is gone."""
        for name in _names_below(self._top, "instances"):
            match = _OURS.fullmatch(name)
            if match and name != self.name and start_time(int(match[1])) != int(match[2]):
                with suppress(OSError):
                    os.rmdir(f"instances/{name}", dir_fd=self._top)


def start_time(process: int) -> int:
    """In ticks since boot; 0 for a process that does not exist. With it a process number used again is told from the first."""
    try:
        with os.fdopen(os.open(f"/proc/{process}/stat", os.O_RDONLY | os.O_CLOEXEC), "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


_RAISE, _ENTRY = "events/irq/softirq_raise", "events/irq/softirq_entry"
_FILTER = "if vec==2||vec==3"
_CPU_KEYS = ("common_cpu", "cpu")
"""The key of the core, and what it was called before 5.14 and its stable relatives."""
_MOST_SECONDS = 3900.0
_NAME = re.compile(r"zombiescope_([0-9]+)_([0-9]+)")
_BUCKET = re.compile(rb"\{ c: +([0-9]+), lat: ~ 2\^([0-9]+) +\} hitcount: +([0-9]+)")
_LONGEST = re.compile(rb"\{ (?:common_)?cpu: +([0-9]+), vec: +[0-9]+ \} hitcount: +[0-9]+\s+max: +([0-9]+)")
_DROPPED = re.compile(rb"(?m)^ +Dropped: ([0-9]+)")
_WHAT = "cannot count softirqs by hist triggers"
_MOST_POWER = 31


class SoftirqHist:
    """Counts from when it is made. Raises TracefsError where the kernel has no such triggers or refuses them."""

    def __init__(self) -> None:
        remove_leftovers()
        self._instance = Instance("hist")
        self._event = f"zombiescope_{os.getpid()}_{start_time(os.getpid())}"
        self._guard: tuple[int, int] | None = None
        try:
            self._instance.read(f"{_ENTRY}/hist")
            self._guard = _begin_guard(self._instance.name, self._event)
            self._begin()
        except OSError as error:
            self.close()
            raise TracefsError(
                _WHAT,
                f"{(error.strerror or str(error)).lower()}: this kernel has none, or not all that it takes",
                "a kernel with CONFIG_HIST_TRIGGERS, as root",
            ) from error

    def read(self) -> dict[str, Any]:
        """As BPF tells it; when the longest began is not known."""
        buckets, dropped = buckets_by_core(self._instance.read(f"events/synthetic/{self._event}/hist"))
        longest = longest_by_core(self._instance.read(f"{_ENTRY}/hist"))
        others: dict[str, list[Any]] = {kind: [[], 0.0, None, False] for kind in CoreLatency._fields[1:]}
        return {
            "cores": {
                str(core): others | {"network": [buckets.get(core, []), longest.get(core, 0.0), None, False]}
                for core in sorted({*buckets, *longest})
            },
            "missed": dropped,
            "by": "hist",
        }

    def close(self) -> None:
        """Waits until everything is taken away."""
        if self._guard is not None:
            child, pipe = self._guard
            self._guard = None
            os.close(pipe)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
        self._instance.close()

    def _begin(self) -> None:
        self._instance.append("synthetic_events", f"{self._event} u64 lat; unsigned int c", shared=True)
        for number, cpu in enumerate(_CPU_KEYS):
            try:
                self._instance.write(f"{_RAISE}/trigger", f"hist:keys={cpu},vec:ts0=common_timestamp.usecs {_FILTER}")
            except OSError:
                if number + 1 == len(_CPU_KEYS):
                    raise
                continue
            self._instance.write(
                f"{_ENTRY}/trigger",
                f"hist:keys={cpu},vec:lat=common_timestamp.usecs-$ts0,c={cpu}"
                f":onmatch(irq.softirq_raise).trace({self._event},$lat,$c):onmax($lat).save(vec) {_FILTER}",
            )
            break
        self._instance.write(f"events/synthetic/{self._event}/trigger", "hist:keys=c,lat.log2")


def buckets_by_core(text: bytes) -> tuple[dict[int, list[int]], int]:
    """In our powers (the kernel's 2^n holds what is more than 2^(n-1) microseconds and at most 2^n), and how many it dropped."""
    dropped = _DROPPED.search(text)
    found: dict[int, list[int]] = {}
    for core, power, count in _BUCKET.findall(text):
        row = found.setdefault(int(core), [])
        place = min(int(power), _MOST_POWER)
        row.extend([0] * (place + 1 - len(row)))
        row[place] += int(count)
    return found, int(dropped[1]) if dropped else 0


def longest_by_core(text: bytes) -> dict[int, float]:
    """In seconds, of both softirqs of the network."""
    longest: dict[int, float] = {}
    for core, micros in _LONGEST.findall(text):
        longest[int(core)] = max(longest.get(int(core), 0.0), int(micros) / 1e6)
    return longest


def remove_leftovers() -> None:
    """Of runs that were killed together with the child that should have cleaned up."""
    with held_open(open_tracefs()) as top, suppress(OSError):
        text = read_below(top, "synthetic_events").decode(errors="replace")
        owners = {(match[1], match[2]) for match in map(_NAME.match, text.split("\n")) if match}
        for process, begun in owners:
            if start_time(int(process)) != int(begun):
                _remove(top, f"zombiescope-{process}-{begun}-hist", f"zombiescope_{process}_{begun}")


def _begin_guard(instance: str, event: str) -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    if child := os.fork():
        os.close(reading)
        return child, writing
    try:
        os.close(writing)
        _guard(reading, instance, event)
    finally:
        os._exit(0)


def _guard(reading: int, instance: str, event: str) -> None:
    """In the child: waits for the end of its parent, whatever that was, and takes everything away."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    top = open_tracefs()
    select.select([reading], [], [], _MOST_SECONDS)
    _remove(top, instance, event)


def _remove(top: int, instance: str, event: str) -> None:
    """Those that read a variable before the one that has it; then the instance, then the event, which is of the whole machine."""
    for place in (f"events/synthetic/{event}", _ENTRY, _RAISE):
        with suppress(OSError):
            path = f"instances/{instance}/{place}/trigger"
            for line in read_below(top, path).decode(errors="replace").split("\n"):
                if line and not line.startswith("#"):
                    append_below(top, path, f"!{line.removesuffix(' [active]')}")
    with suppress(OSError):
        os.rmdir(f"instances/{instance}", dir_fd=top)
    with suppress(OSError):
        append_below(top, "synthetic_events", f"!{event}")
