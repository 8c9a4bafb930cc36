# SPDX-License-Identifier: Apache-2.0
"""A private tracefs instance: made by us, named ours, removed when done; one that a killed run left behind is removed first.

Where tracefs is not mounted it is opened by fsopen(2) and fsmount(2), which attach it nowhere: no other process sees a mount.
"""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress

from zombiescope.errors import ObservationError

_PLACES = (b"/sys/kernel/tracing", b"/sys/kernel/debug/tracing")
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CREATE = 6
_CLOEXEC = 1
_OURS = re.compile(r"zombiescope-([0-9]+)-([0-9]+)(?:-[a-z]+)?")


class TracefsError(ObservationError):
    """tracefs cannot be used."""


def open_tracefs() -> int:
    """A descriptor of the top of tracefs."""
    for place in _PLACES:
        if os.path.isdir(place + b"/instances"):
            return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    context = libc.syscall(_FSOPEN, b"tracefs", _CLOEXEC)
    if context < 0:
        raise _refused("fsopen")
    try:
        if libc.syscall(_FSCONFIG, context, _CREATE, None, None, 0) < 0:
            raise _refused("fsconfig")
        mounted = libc.syscall(_FSMOUNT, context, _CLOEXEC, 0)
        if mounted < 0:
            raise _refused("fsmount")
        return int(mounted)
    finally:
        os.close(context)


def _refused(step: str) -> TracefsError:
    why = f"tracefs is not mounted and {step}(2) failed: {os.strerror(ctypes.get_errno())}"
    return TracefsError(
        "cannot watch cgroup events", why, "run as root, or mount -t tracefs tracefs /sys/kernel/tracing"
    )


def read_below(top: int, path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=top)
    with os.fdopen(descriptor, "rb", buffering=0) as opened:
        return opened.read()


def append_below(top: int, path: str, text: str) -> None:
    """A line to a list that others may have lines in: without O_APPEND the kernel empties it first."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, dir_fd=top)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


class Instance:
    def __init__(self, purpose: str = "") -> None:
        self._top = open_tracefs()
        self.name = f"zombiescope-{os.getpid()}-{start_time(os.getpid())}" + (f"-{purpose}" if purpose else "")
        try:
            self.leftovers = self._remove_leftovers()
            with suppress(FileExistsError):
                os.mkdir(f"instances/{self.name}", dir_fd=self._top)
        except OSError as error:
            os.close(self._top)
            why = f"a private tracefs instance cannot be made: {(error.strerror or '').lower()}"
            raise TracefsError("cannot watch cgroup events", why, "run as root") from error

    def read(self, file: str, *, shared: bool = False) -> bytes:
        """A file of the instance, or of tracefs itself."""
        return read_below(self._top, self._path(file, shared=shared))

    def write(self, file: str, text: str) -> None:
        # Not through a text file opened for appending: these files refuse to seek.
        descriptor = os.open(self._path(file), os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._top)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def append(self, file: str, text: str, *, shared: bool = False) -> None:
        append_below(self._top, self._path(file, shared=shared), text)

    def open(self, file: str) -> int:
        return os.open(self._path(file), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._top)

    def cpus(self) -> list[str]:
        descriptor = os.open(self._path("per_cpu"), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._top)
        try:
            return sorted(name for name in os.listdir(descriptor) if name.startswith("cpu"))
        finally:
            os.close(descriptor)

    def close(self) -> None:
        with suppress(OSError):
            os.rmdir(f"instances/{self.name}", dir_fd=self._top)
        os.close(self._top)

    def _path(self, file: str, *, shared: bool = False) -> str:
        return file if shared else f"instances/{self.name}/{file}"

    def _remove_leftovers(self) -> int:
        """Instances of ours whose process is gone."""
        descriptor = os.open("instances", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._top)
        try:
            found = [(name, match) for name in os.listdir(descriptor) if (match := _OURS.fullmatch(name))]
        finally:
            os.close(descriptor)
        removed = 0
        for name, match in found:
            if name != self.name and start_time(int(match[1])) != int(match[2]):
                with suppress(OSError):
                    os.rmdir(f"instances/{name}", dir_fd=self._top)
                    removed += 1
        return removed


def start_time(process: int) -> int:
    """In ticks since boot; 0 for a process that does not exist. With it a process number used again is told from the first."""
    try:
        descriptor = os.open(f"/proc/{process}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    with os.fdopen(descriptor, "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])
