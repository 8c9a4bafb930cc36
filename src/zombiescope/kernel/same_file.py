# SPDX-License-Identifier: Apache-2.0
"""Whether a path leads to the inode that the kernel named. Asked by lstat(2) alone: nothing is opened or followed."""

from __future__ import annotations

import os

from zombiescope.facts.zombies import OWN_NUMBERS


def leads_to(path: bytes, device: str, inode: int, fstype: str) -> bool:
    """A file with several names is found by one of them, which may have been moved or removed since."""
    try:
        seen = os.lstat(path)
    except (OSError, ValueError):
        return False
    if seen.st_ino != inode:
        return False
    return fstype in OWN_NUMBERS or f"{os.major(seen.st_dev)}:{os.minor(seen.st_dev)}" == device
