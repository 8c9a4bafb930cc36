# SPDX-License-Identifier: Apache-2.0
"""The token that readers must show, from a file that only its owner can read."""

from __future__ import annotations

import os
import stat

from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.host.safe_open import open_regular, why_foreign

_LEAST, _MOST = 16, 1024
_MAKE_ONE = "head -c 32 /dev/urandom | base64 > FILE && chmod 600 FILE"


def read_token(path: str) -> str:
    """Raises UsageError: a server that was to be closed must not begin open."""
    what = f"cannot use the token file {shown(os.fsencode(path))}"
    try:
        descriptor, status = open_regular(path, follow=True)
    except OSError as error:
        raise UsageError(what, (error.strerror or str(error)).lower(), _MAKE_ONE) from error
    with os.fdopen(descriptor, "rb") as file:
        why = why_foreign(status, (0, os.geteuid()), stat.S_IRWXO | stat.S_IWGRP)
        if why:
            raise UsageError(what, why, _MAKE_ONE)
        content = file.read(_MOST + 2)
    token = content.strip()
    if not _LEAST <= len(token) <= _MOST or not all(0x21 <= byte <= 0x7E for byte in token):
        raise UsageError(what, f"it must hold {_LEAST} to {_MOST} printable characters and nothing else", _MAKE_ONE)
    return token.decode("ascii")
