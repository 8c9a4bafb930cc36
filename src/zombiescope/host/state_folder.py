# SPDX-License-Identifier: Apache-2.0
"""The folder in which root keeps what it remembers: made where it is missing, and nobody else can put a file or a link into it.

Everything on the way is as `own_folder.py` wants it. The folder itself must not be a shared one such as `/tmp`: what has a name
there may be somebody else's.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from zombiescope.facts.names import shown
from zombiescope.host.own_folder import open_own_folder

_MODE = 0o750


def ensure_state_folder(path: bytes, mode: int = _MODE) -> None:
    """After it, names in the folder can be used by their paths. Raises OSError; PermissionError where a stranger could reach in."""
    folder = _opened(os.path.abspath(path), mode)
    try:
        status = os.fstat(folder)
    finally:
        os.close(folder)
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid())
    if by_group or status.st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, f"others may write to {shown(path)}")


def _opened(path: bytes, mode: int) -> int:
    try:
        return open_own_folder(path)
    except FileNotFoundError:
        above = _opened(os.path.dirname(path), mode)
    try:
        with suppress(FileExistsError):
            os.mkdir(os.path.basename(path), mode, dir_fd=above)
    finally:
        os.close(above)
    return open_own_folder(path)
