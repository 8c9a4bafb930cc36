# SPDX-License-Identifier: Apache-2.0
"""A mount table as /proc/PID/mountinfo prints it: which file system a path of that process lies on."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.probes.kernel_text import unoctal


class Mount(NamedTuple):
    device: str
    root: bytes
    """The folder, or the object, of the file system that is mounted."""
    point: bytes
    fstype: str


class MountTable:
    def __init__(self, text: bytes) -> None:
        self.mounts = [mount for mount in map(_parse, text.split(b"\n")) if mount]
        self._by_point = {mount.point: mount for mount in self.mounts}  # the last mount on a point covers the others

    def of(self, path: bytes) -> Mount | None:
        if not path.startswith(b"/"):
            return None
        while path not in self._by_point:
            if path == b"/":
                return None
            path = path.rpartition(b"/")[0] or b"/"
        return self._by_point[path]

    def is_covered(self, mount: Mount) -> bool:
        return self.of(mount.point) != mount


def path_in(mount: Mount, path: bytes) -> bytes:
    """A path below the mount point, as the file system itself would say it."""
    below = path[len(mount.point) :] if mount.point != b"/" else path
    return (mount.root.rstrip(b"/") + b"/" + below.lstrip(b"/")).rstrip(b"/") or b"/"


def _parse(line: bytes) -> Mount | None:
    before, separator, after = line.partition(b" - ")
    left, right = before.split(b" "), after.split(b" ")
    if not separator or len(left) < 6 or not right[0]:
        return None
    return Mount(
        left[2].decode("ascii", "replace"), unoctal(left[3]), unoctal(left[4]), right[0].decode("ascii", "replace")
    )
