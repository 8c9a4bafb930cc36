# SPDX-License-Identifier: Apache-2.0
"""The ring of a rolling recording: its own segments by size and age, and nothing else that lies in the folder.

A segment bears the mark of its ring: a number that the folder got at its first recording, and what the recording is for. Captures
that were imported or copied from elsewhere do not have it, so that no recorder ever removes them.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets

from zombiescope.captures.store import Stored, entries
from zombiescope.host.safe_open import open_regular
from zombiescope.host.whole_file import write_whole

_NUMBER = b".ring"
_FORM = re.compile(r"[0-9a-f]{16}")


def mark_of(folder: bytes, purpose: str) -> str:
    """The mark of segments that are recorded into this folder for this purpose, now or by the next recorder. Raises OSError."""
    path = os.path.join(folder, _NUMBER)
    number = _read(path)
    if number is None:
        number = secrets.token_hex(8)
        write_whole(path, [number.encode()], make=0o700)
        # Of two recorders that begin at once the last one's number stays, and both take that one.
        number = _read(path) or number
    return f"{number} {purpose}"


def _read(path: bytes) -> str | None:
    """None: there is none that makes sense."""
    try:
        descriptor, _ = open_regular(path)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        number = file.read(64).decode("ascii", "replace").strip()
    return number if _FORM.fullmatch(number) else None


def keep_ring(folder: bytes, mark: str, most_bytes: int, oldest: float) -> list[bytes]:
    """Removes the oldest of the ring beyond a size, and those written before a moment; never its newest."""
    mine = [entry for entry in entries(folder) if mark and entry.about is not None and entry.about.ring == mark]
    total = sum(entry.size_bytes for entry in mine)
    removed = []
    for entry in mine[:-1]:
        if total <= most_bytes and entry.written_at >= oldest:
            continue
        if _is_unchanged(entry):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.path)
        total -= entry.size_bytes
        removed.append(entry.path)
    return removed


def _is_unchanged(entry: Stored) -> bool:
    """An import may have taken its name meanwhile."""
    try:
        seen = os.lstat(entry.path)
    except FileNotFoundError:
        return False
    return (seen.st_size, seen.st_mtime) == (entry.size_bytes, entry.written_at)
