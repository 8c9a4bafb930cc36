# SPDX-License-Identifier: Apache-2.0
"""What is at a place, with everything that has to come back with it; as a journal keeps it, too."""

from __future__ import annotations

import base64
import errno
import os
import stat
from typing import Any, NamedTuple

from zombiescope.host.removal import Attribute, read_attributes
from zombiescope.host.safe_open import open_regular

READ_LIMIT_BYTES = 1 << 20


class Found(NamedTuple):
    """What is at a place, without following a link. `kind`: absent, link, file, folder, other."""

    kind: str
    content: bytes = b""
    """Of a file; the target of a link."""
    mode: int = 0
    uid: int = 0
    gid: int = 0
    mtime_ns: int = 0
    xattrs: tuple[Attribute, ...] = ()
    """Access lists and labels among them."""

    def as_plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"kind": self.kind}
        if self.kind in ("file", "link"):
            plain["content"] = base64.b64encode(self.content).decode()
        if self.kind == "file":
            plain["mode"] = self.mode
        if self.kind in ("file", "link"):
            plain |= {"uid": self.uid, "gid": self.gid, "mtime_ns": self.mtime_ns}
            plain["xattrs"] = {name: base64.b64encode(value).decode() for name, value in self.xattrs}
        return plain


def found_of(plain: dict[str, Any]) -> Found:
    content = base64.b64decode(plain.get("content", ""))
    mode, uid, gid, mtime_ns = (int(plain.get(name, 0)) for name in ("mode", "uid", "gid", "mtime_ns"))
    xattrs = tuple(sorted((str(name), base64.b64decode(value)) for name, value in plain.get("xattrs", {}).items()))
    return Found(str(plain["kind"]), content, mode, uid, gid, mtime_ns, xattrs)


def found_at(place: bytes, path: bytes) -> Found:
    """`place`: how it is reached; `path`: what it is called in an error."""
    status = os.lstat(place)
    if stat.S_ISLNK(status.st_mode):
        owner, at = (status.st_uid, status.st_gid), status.st_mtime_ns
        return Found("link", os.readlink(place), 0, *owner, at, read_attributes(place))
    if stat.S_ISDIR(status.st_mode):
        return Found("folder")
    if not stat.S_ISREG(status.st_mode):
        return Found("other")
    descriptor, status = open_regular(place)
    with open(descriptor, "rb") as file:
        content = file.read(READ_LIMIT_BYTES + 1)
        xattrs = read_attributes(file.fileno())
    if len(content) > READ_LIMIT_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    mode = stat.S_IMODE(status.st_mode)
    return Found("file", content, mode, status.st_uid, status.st_gid, status.st_mtime_ns, xattrs)
