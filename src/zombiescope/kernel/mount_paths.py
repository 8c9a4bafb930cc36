# SPDX-License-Identifier: Apache-2.0
"""From a path inside a file system to a path that can be opened here, by /proc/self/mountinfo."""

from __future__ import annotations

import re
from typing import NamedTuple

_OCTAL = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    device: str
    root: bytes
    """The directory of the file system that is mounted."""
    point: bytes


def parse_mounts(mountinfo: bytes) -> list[Mount]:
    """In order of mounting; lines that are not as documented are left out."""
    mounts = []
    for line in mountinfo.split(b"\n"):
        words = line.split(b" ")
        if len(words) > 5 and b":" in words[2]:
            mounts.append(Mount(words[2].decode("ascii", "replace"), _plain(words[3]), _plain(words[4])))
    return mounts


class MountPaths:
    def __init__(self, mounts: list[Mount]) -> None:
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
                if self._owner(path) == mount:
                    return path
        return None

    def visible(self, path: bytes) -> bytes | None:
        """The path of a file in such a directory, unless something is mounted on the file itself."""
        return None if path in self._points else path

    def hides_in(self, folder: bytes) -> bool:
        """Something is mounted on an entry of this directory."""
        return folder in self._above_points

    def _owner(self, path: bytes) -> Mount | None:
        while path and path not in self._points:
            path = path.rpartition(b"/")[0]
        return self._points.get(path or b"/")


def _plain(word: bytes) -> bytes:
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8) & 255]), word)
