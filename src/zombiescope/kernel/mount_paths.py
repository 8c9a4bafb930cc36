# SPDX-License-Identifier: Apache-2.0
"""A mount table as /proc/PID/mountinfo prints it: which file system a path of that process lies on; and from a path inside a file
system to a path that can be opened here."""

import ctypes
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from zombiescope.host.safe_open import last_error
from zombiescope.host.safe_paths import descriptor_of

_OCTAL = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    device: str
    root: bytes
    """The folder, or the object, of the file system that is mounted."""
    point: bytes
    fstype: str = ""


def parse_mounts(mountinfo: bytes) -> list[Mount]:
    """In order of mounting; lines that are not as documented are left out."""
    halves = (line.partition(b" - ") for line in mountinfo.split(b"\n"))
    rows = ((before.split(b" "), after.partition(b" ")[0]) for before, _, after in halves)
    return [
        Mount(
            words[2].decode("ascii", "replace"), _plain(words[3]), _plain(words[4]), fstype.decode("ascii", "replace")
        )
        for words, fstype in rows
        if len(words) > 5 and b":" in words[2]
    ]


def below_root(mounts: list[Mount], root: bytes) -> list[Mount]:
    """What is mounted at and below a host's root elsewhere, with the paths that this host has for it."""
    if not root:
        return mounts
    inside = root + b"/"
    return [
        mount._replace(point=mount.point[len(root) :] or b"/")
        for mount in mounts
        if mount.point == root or mount.point.startswith(inside)
    ]


class MountPaths:
    def __init__(self, mounts: list[Mount], root: bytes = b"") -> None:
        """`root`: where the `/` of the machine is found on this one; paths are that machine's."""
        self.root = root
        mounts = below_root(mounts, root)
        self._by_device: dict[str, list[Mount]] = {}
        for mount in mounts:
            self._by_device.setdefault(mount.device, []).append(mount)
        self._points = {mount.point: mount for mount in mounts}
        self._above_points = {point.rpartition(b"/")[0] for point in self._points}

    def folder(self, device: str, path_in_fs: bytes) -> bytes | None:
        """Where a directory of that file system is found, without a slash at its end; None where no mount shows it."""
        for mount in reversed(self._by_device.get(device, ())):
            root = mount.root.rstrip(b"/")
            if path_in_fs.rstrip(b"/") == root or path_in_fs.startswith(root + b"/"):
                path = (mount.point.rstrip(b"/") + path_in_fs[len(root) :]).rstrip(b"/")
                if _mounted_above(self._points, path) == mount:
                    return path
        return None

    def visible(self, path: bytes) -> bytes | None:
        """The path of a file in such a directory, unless something is mounted on the file itself."""
        return None if path in self._points else path

    def hides_in(self, folder: bytes) -> bool:
        """Something is mounted on an entry of this directory."""
        return folder in self._above_points


def _mounted_above(points: Mapping[bytes, Mount], path: bytes) -> Mount | None:
    """What is mounted at the path, or closest above it."""
    while path and path not in points:
        path = path.rpartition(b"/")[0]
    return points.get(path or b"/")


def _plain(word: bytes) -> bytes:
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8) & 255]), word)


def files_below(top: bytes, device: str) -> Iterator[bytes]:
    """Regular files of that file system at and below a folder, by path; links are not followed, other mounts not entered."""
    pending = [top]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as entries:
                if device_of(folder) != device:
                    continue
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        yield entry.path
                    elif entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            if folder == top:
                raise


def device_of(path: bytes) -> str:
    return device_name(os.stat(path).st_dev)


def device_name(number: int) -> str:
    return f"{os.major(number)}:{os.minor(number)}"


def open_files(process: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each open file of a process folder in /proc: the link, and the name the kernel gives it."""
    folder = process + b"/fd"
    for name in os.listdir(folder):
        link = folder + b"/" + name
        yield link, link_name(link)


def link_name(link: bytes) -> bytes:
    """The name behind a link; nothing where the link is gone."""
    try:
        return os.readlink(link)
    except OSError:
        return b""


NETWORK, IPC = 0x40000000, 0x08000000
_libc = ctypes.CDLL(None, use_errno=True)


def run_inside(link: bytes, kind: int, work: Callable[[], None]) -> None:
    """`link` is a namespace in /proc. Raises OSError where it cannot be entered, and what `work` raises."""
    failures: list[BaseException] = []

    def enter_and_work() -> None:
        try:
            _enter(link, kind)
            work()
        except BaseException as error:  # noqa: BLE001 -- raised again below, in the caller's thread
            failures.append(error)

    thread = threading.Thread(target=enter_and_work, name="zombiescope-namespace")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _enter(link: bytes, kind: int) -> None:
    with descriptor_of(link, os.O_RDONLY | os.O_CLOEXEC) as descriptor:
        if _libc.setns(descriptor, kind) != 0:
            raise last_error()


class MountTable:
    def __init__(self, text: bytes) -> None:
        self.mounts = [mount for mount in parse_mounts(text) if mount.fstype]
        self._by_point = {mount.point: mount for mount in self.mounts}  # the last mount on a point covers the others

    def of(self, path: bytes) -> Mount | None:
        return _mounted_above(self._by_point, path) if path.startswith(b"/") else None

    def is_covered(self, mount: Mount) -> bool:
        return self.of(mount.point) != mount


def path_in(mount: Mount, path: bytes) -> bytes:
    """A path below the mount point, as the file system itself would say it."""
    below = path[len(mount.point) :] if mount.point != b"/" else path
    return (mount.root.rstrip(b"/") + b"/" + below.lstrip(b"/")).rstrip(b"/") or b"/"
