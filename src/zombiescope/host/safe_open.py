# SPDX-License-Identifier: Apache-2.0
"""Open a file whose name somebody else chose: nothing but a regular file is ever opened, so that no device is woken, no pipe is
waited for and no kernel file is read empty.

A descriptor that only names the file (O_PATH) is looked at first; that very file is then opened, whatever is renamed meanwhile.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Collection

from zombiescope.errors import UsageError, reason_of
from zombiescope.facts.names import shown

_libc = ctypes.CDLL(None, use_errno=True)
_KERNEL_FILE_SYSTEMS = {
    0x9FA0: "proc",
    0x62656572: "sysfs",
    0x64626720: "debugfs",
    0x74726163: "tracefs",
    0x27E0EB: "cgroup",
    0x63677270: "cgroup2",
    0x73636673: "securityfs",
    0xCAFE4A11: "bpf",
    0x62656570: "configfs",
    0xDE5E81E4: "efivarfs",
}
_STATFS_BYTES = 256
"""More than any architecture's struct statfs has; its first word is the type."""


class NotRegularError(OSError):
    """Not opened for what it is."""

    def __init__(self, why: str, path: bytes | str) -> None:
        super().__init__(errno.EINVAL, why, path)


def open_regular(
    path: bytes | str,
    flags: int = os.O_RDONLY,
    *,
    dir_fd: int | None = None,
    follow: bool = False,
    check: Callable[[os.stat_result], None] = lambda _: None,
) -> tuple[int, os.stat_result]:
    """A descriptor and what it is. Raises NotRegularError for whatever is no regular file on a real file system.

    `follow`: the last part of the path may be a link. `check` raises where it is not the one that is wanted; it is asked before
    the file is opened, which a lease of somebody else's would notice.
    """
    named = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), dir_fd=dir_fd)
    try:
        status = os.fstat(named)
        if reason := _why_not(named, status):
            raise NotRegularError(reason, path)
        check(status)
        opened = os.open(f"/proc/self/fd/{named}", flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    finally:
        os.close(named)
    return opened, os.fstat(opened)


def last_error(path: bytes | str | None = None) -> OSError:
    """Why a call of the C library failed a moment ago."""
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), path)


def _why_not(named: int, facts: os.stat_result) -> str:
    if not stat.S_ISREG(facts.st_mode):
        return "it is a link" if stat.S_ISLNK(facts.st_mode) else "it is not a regular file"
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(named, buffer) != 0:
        return "its file system cannot be told"
    kind = _KERNEL_FILE_SYSTEMS.get(ctypes.c_ulong.from_buffer(buffer).value)
    return f"it is a file of the kernel ({kind})" if kind else ""


def why_foreign(status: os.stat_result, owners: Collection[int], forbidden: int) -> str:
    """Why a file or folder that was opened is not to be believed or used: whose it is, or what it lets others do."""
    if status.st_uid not in owners:
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & forbidden & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it"
    return "others may look into it" if status.st_mode & forbidden else ""


_LIMIT_BYTES = 4 << 20


def read_shipped(name: str) -> bytes:
    from importlib import resources  # noqa: PLC0415 (few read it, and it loads packers and temporary files)

    return resources.files("zombiescope").joinpath("data", name).read_bytes()


def read_named(path: bytes) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(_LIMIT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {shown(path)}", reason_of(error), "name a file") from error
    if len(content) > _LIMIT_BYTES:
        raise UsageError(f"cannot read {shown(path)}", "it is larger than 4 MiB", "name a configuration file")
    return content


def environment(prefix: str) -> dict[str, str]:
    """The environment variables that begin so."""
    return {name: value for name, value in os.environ.items() if name.startswith(prefix)}
