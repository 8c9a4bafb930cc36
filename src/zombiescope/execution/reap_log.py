# SPDX-License-Identifier: Apache-2.0
"""What a reaper is about to do, synced before it does it: one JSON line a pass, two files of bounded size. One reaper a folder."""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any

from zombiescope.errors import ActionFailedError, UsageError
from zombiescope.facts.names import shown
from zombiescope.host.own_folder import ensure_folder

NAME = b"reap.jsonl"
MOST_BYTES = 1 << 20


class ReapLog:
    def __init__(self, folder: bytes) -> None:
        self._path = os.path.join(folder, NAME)
        try:
            ensure_folder(folder)
            self._lock = os.open(os.path.join(folder, b"reap.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise _unwritable(folder, error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"cannot reap with the state folder {shown(folder)}",
                "another reaper works there",
                "stop it first, or give another --state",
            ) from error

    def write(self, line: dict[str, Any]) -> None:
        """Returns when the line is on the disk. Raises before anything is evicted where it cannot be written."""
        try:
            if os.path.exists(self._path) and os.path.getsize(self._path) > MOST_BYTES:
                os.replace(self._path, self._path + b".1")
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
            try:
                _write_whole(descriptor, (json.dumps(line) + "\n").encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def close(self) -> None:
        os.close(self._lock)


def _write_whole(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _unwritable(path: bytes, error: OSError) -> ActionFailedError:
    why = (error.strerror or "it cannot be written").lower()
    return ActionFailedError(
        f"cannot write the reaper's log ({shown(path)})", why, "nothing is evicted without it: give another --state"
    )
