# SPDX-License-Identifier: Apache-2.0
"""What goes before our own samples so that a segment stands alone: perf's pipe header, the event, the clocks, the host, and
the processes, maps and cgroups that were there before sampling began."""

import os
import struct
import time
from collections.abc import Iterator

_HEADER_ATTR, _HEADER_FEATURE = 64, 80
_COMM, _MMAP, _MMAP2, _CGROUP = 3, 1, 10, 19
_HOSTNAME, _OS_RELEASE, _CLOCK_DATA = 3, 4, 29
_KERNEL_MODE, _USER_MODE = 1, 2
_MOST_CGROUPS = _MOST_PROCESSES = 50_000
_TRAILER = b"\0" * 24
"""sample_id of a record that we make ourselves: thread, time and core are zero."""


def head(attr: bytes) -> Iterator[bytes]:
    yield struct.pack("<8sQ", b"PERFILE2", 16) + _record(_HEADER_ATTR, 0, attr)
    name = os.uname()
    yield _feature(_HOSTNAME, _text(name.nodename.encode()))
    yield _feature(_OS_RELEASE, _text(name.release.encode()))
    wall, monotonic = time.clock_gettime_ns(time.CLOCK_REALTIME), time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    yield _feature(_CLOCK_DATA, struct.pack("<IIQQ", 1, time.CLOCK_MONOTONIC, wall, monotonic))
    yield from _kernel_text()
    yield from _processes()
    yield from _cgroups()


def _record(kind: int, misc: int, body: bytes) -> bytes:
    body += b"\0" * (-len(body) % 8)
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body if len(body) < 65_000 else b""


def _feature(number: int, content: bytes) -> bytes:
    return _record(_HEADER_FEATURE, 0, struct.pack("<Q", number) + content)


def _text(content: bytes) -> bytes:
    return struct.pack("<I", len(content) + 1) + content + b"\0"


def _named(name: bytes) -> bytes:
    return name + b"\0" * (8 - len(name) % 8)


def _kernel_text() -> Iterator[bytes]:
    """Where the kernel's code begins, so that an import tells symbols of another boot."""
    try:
        with open("/proc/kallsyms", "rb") as file:  # noqa: PTH123 (a kernel file)
            for line in file:
                address, _, name = line.split()[:3]
                if name in (b"_text", b"_stext"):
                    start = int(address, 16)
                    body = struct.pack("<IIQQQ", 0xFFFFFFFF, 0, start, 1 << 30, start)
                    if start:
                        yield _record(_MMAP, _KERNEL_MODE, body + _named(b"[kernel.kallsyms]_text") + _TRAILER)
                    return
    except (OSError, ValueError):
        return


def _processes() -> Iterator[bytes]:
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()][:_MOST_PROCESSES]:
        try:
            for tid in map(int, os.listdir(f"/proc/{pid}/task")):
                comm = read_kernel_file(f"/proc/{pid}/task/{tid}/comm").rstrip(b"\n")
                yield _record(_COMM, 0, struct.pack("<II", pid, tid) + _named(comm) + _TRAILER)
            yield from _maps(pid)
        except OSError:
            continue  # it ended meanwhile, or is not ours to see


def _maps(pid: int) -> Iterator[bytes]:
    for line in read_kernel_file(f"/proc/{pid}/maps").split(b"\n"):
        parts = line.split(None, 5)
        if len(parts) < 5 or b"x" not in parts[1]:
            continue
        start, _, end = parts[0].partition(b"-")
        major, _, minor = parts[3].partition(b":")
        path = parts[5] if len(parts) > 5 else b"//anon"
        where = struct.pack("<IIQQQ", pid, pid, int(start, 16), int(end, 16) - int(start, 16), int(parts[2], 16))
        inode = struct.pack("<IIQQII", int(major, 16), int(minor, 16), int(parts[4]), 0, 5, 2)
        yield _record(_MMAP2, _USER_MODE, where + inode + _named(path) + _TRAILER)


def _cgroups() -> Iterator[bytes]:
    """The kernel names a cgroup by its inode in the hierarchy of perf_event, or in the unified one."""
    top = _perf_hierarchy()
    if top is None:
        return
    pending, seen = [b""], 0
    while pending and seen < _MOST_CGROUPS:
        path = pending.pop()
        try:
            number = os.stat(top + path).st_ino
            with os.scandir(top + path) as entries:
                pending += [path + b"/" + entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        seen += 1
        yield _record(_CGROUP, 0, struct.pack("<Q", number) + _named(path or b"/") + _TRAILER)


def _perf_hierarchy() -> bytes | None:
    unified = None
    for line in read_kernel_file("/proc/self/mountinfo").split(b"\n"):
        left, _, right = line.partition(b" - ")
        kind, *rest = right.split() or [b""]
        if kind == b"cgroup" and b"perf_event" in rest[-1].split(b","):
            return left.split()[4]
        if kind == b"cgroup2":
            unified = left.split()[4]
    return unified


def read_kernel_file(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 (a kernel file)
        return file.read()
