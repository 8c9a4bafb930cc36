# SPDX-License-Identifier: Apache-2.0
"""The well-known names of everything the lab makes. A lost journal must not hide any of it from `lab clean`."""

from __future__ import annotations

import errno
import os
import re
import secrets

from zombiescope.errors import ActionFailedError, ObservationError, UsageError, ZombiescopeError

LAB = "zombiescope-lab"
"""Name of the lab's cgroup, of its folders, and of its processes (15 characters: the most a process name can have)."""
SYSV_KEY_BASE = 0x7A6C0000
SYSV_KEY_COUNT = 0x10000
SYSV_MARK = b"zombiescope-lab "
_RUN = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


def new_run_name() -> str:
    return f"r{secrets.token_hex(4)}"


def checked_run_name(name: str) -> str:
    if not _RUN.fullmatch(name):
        raise UsageError(
            f"cannot name a lab run {name!r}",
            "a name is 1 to 40 lower-case letters, digits and hyphens, and does not begin with a hyphen",
            "--name mytest",
        )
    return name


def is_run_name(name: str) -> bool:
    return _RUN.fullmatch(name) is not None


def zombie_name(index: int) -> str:
    return f"z{index:06d}"


_MEANINGS = {
    errno.EAGAIN: ("a limit on the number or depth of cgroups is reached (cgroup.max.descendants, cgroup.max.depth)",
                   "raise cgroup.max.descendants in the parent, or make fewer: --count"),
    errno.ENOSPC: ("no space, no inodes, or no free memory cgroup id (65,535 at most)",
                   "df -h /dev/shm /var/lib; df -i /dev/shm; or make fewer: --count"),
    errno.EBUSY: ("the kernel has no free memory cgroup id, or the cgroup is in use", "zombiescope lab clean"),
    errno.ENOMEM: ("the kernel has no memory for another cgroup", "make fewer: --count"),
    errno.EMFILE: ("too many open files in one process", "make fewer: --count, or raise the limit: ulimit -n"),
    errno.ENFILE: ("too many open files on this host", "make fewer: --count"),
    errno.EACCES: ("permission denied", "run as root"),
    errno.EPERM: ("not permitted", "run as root, outside a restricted container"),
    errno.EROFS: ("the file system is read-only", "run on the host, or mount it writable"),
}  # fmt: skip


def refusal(what: str, error: OSError, *, undone: bool = False) -> ZombiescopeError:
    """An OSError as an error a person can act on."""
    fallback = os.strerror(error.errno) if error.errno else str(error)
    why, hint = _MEANINGS.get(error.errno or 0, (fallback, "zombiescope lab clean"))
    if undone:
        return ObservationError(what, why, hint)
    return ActionFailedError(what, why, hint)


def require_root() -> None:
    if os.geteuid() != 0:
        raise ObservationError(
            "cannot use the lab", "making and removing cgroups needs root", "run the same command with sudo"
        )
