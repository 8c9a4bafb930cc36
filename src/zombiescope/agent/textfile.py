# SPDX-License-Identifier: Apache-2.0
"""A text file for node_exporter's collector: written beside and renamed, so that nobody reads half of it.

By descriptor, in a folder that no stranger can swap, under a name that nobody can guess and that must be new: whatever link lies
there, nothing outside of that folder is written.
"""

from __future__ import annotations

import os
from contextlib import suppress

from zombiescope.host.own_folder import open_own_folder

_MODE = 0o644
"""node_exporter is somebody else; the agent's own umask must not keep it out."""


def write_textfile(path: str, body: bytes) -> str | None:
    """Why it could not be written, or None."""
    where, name = os.path.split(path)
    try:
        folder = open_own_folder(os.fsencode(where or "."))
        try:
            _replace(folder, name, body)
        finally:
            os.close(folder)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None


def _replace(folder: int, name: str, body: bytes) -> None:
    beside = f".{name}.{os.urandom(8).hex()}"
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, new, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
            file.flush()
            os.fchmod(file.fileno(), _MODE)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise
