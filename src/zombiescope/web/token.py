# SPDX-License-Identifier: Apache-2.0
"""The token that readers must show, from a file that only its owner can read."""

from __future__ import annotations

import os
import stat

from zombiescope.errors import UsageError
from zombiescope.facts.names import shown

_LEAST, _MOST = 16, 1024
_MAKE_ONE = "head -c 32 /dev/urandom | base64 > FILE && chmod 600 FILE"


def read_token(path: str) -> str:
    """Raises UsageError: a server that was to be closed must not begin open."""
    what = f"cannot use the token file {shown(os.fsencode(path))}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(what, (error.strerror or str(error)).lower(), _MAKE_ONE) from error
    try:
        found = os.fstat(descriptor)
        why = _why_not(found)
        if why:
            raise UsageError(what, why, _MAKE_ONE)
        content = os.read(descriptor, _MOST + 2)
    finally:
        os.close(descriptor)
    token = content.strip()
    if not _LEAST <= len(token) <= _MOST or not all(0x21 <= byte <= 0x7E for byte in token):
        raise UsageError(what, f"it must hold {_LEAST} to {_MOST} printable characters and nothing else", _MAKE_ONE)
    return token.decode("ascii")


def _why_not(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file"
    if found.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        return "others can read or write it"
    return ""
