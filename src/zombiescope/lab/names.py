# SPDX-License-Identifier: Apache-2.0
"""The well-known names of everything the lab makes. A lost journal must not hide any of it from `lab clean`."""

from __future__ import annotations

import re
import secrets

from zombiescope.errors import UsageError

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
