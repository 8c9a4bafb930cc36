# SPDX-License-Identifier: Apache-2.0
"""For `reap`: what it is about to do, synced before it does it (one JSON line a pass, two files of bounded size, one reaper a
folder), and the two levers that evict clean page cache. Neither lowers a limit or leaves anything behind, whatever ends us."""

import errno
import fcntl
import json
import os
from typing import Any

from zombiescope.errors import ActionFailedError, UsageError, reason_of
from zombiescope.facts.names import shown
from zombiescope.facts.reaping import Evicted, EvictionOrder
from zombiescope.facts.remedies import Remedy
from zombiescope.host.own_folder import ensure_folder
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.removal import Identity, let_cache_go, the_file
from zombiescope.host.safe_paths import descriptor_of, held_open
from zombiescope.host.whole_file import write_all
from zombiescope.kernel.pages import PAGES, open_window

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
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            with held_open(os.open(self._path, flags, 0o640)) as descriptor:
                write_all(descriptor, (json.dumps(line) + "\n").encode())
                os.fsync(descriptor)
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def close(self) -> None:
        os.close(self._lock)


def _unwritable(path: bytes, error: OSError) -> ActionFailedError:
    return ActionFailedError(
        f"cannot write the reaper's log ({shown(path)})",
        reason_of(error),
        "nothing is evicted without it: give another --state",
    )


FOREIGN_PAGES = 256
"""A file of which more pages are cached than four times the dead ones' and these is in use by somebody alive."""


def evict(order: EvictionOrder, mount_point: bytes, root: bytes = b"") -> Evicted:
    """Does one order. What is refused is said, never raised. `root`: where the host's `/` is mounted, if elsewhere."""
    try:
        if order.lever is Remedy.DROP_FILE:
            return _drop(order, root)
        return _reclaim(order, root + mount_point.rstrip(b"/") + order.target + b"/memory.reclaim")
    except OSError as error:
        return Evicted(order, 0, reason_of(error))


def _drop(order: EvictionOrder, root: bytes) -> Evicted:
    with the_file(root + order.target, Identity(order.inode or 0)) as descriptor:  # one that was never seen is none
        size = os.fstat(descriptor).st_size
        if (before := resident_count(descriptor, size)) > 4 * order.pages + FOREIGN_PAGES:
            return Evicted(order, 0, "most of its cached pages are not the dead ones': somebody alive uses it")
        let_cache_go(descriptor)
        return Evicted(order, max(before - resident_count(descriptor, size), 0))


def resident_count(descriptor: int, size_bytes: int) -> int:
    """Pages of a file that are cached, asked without touching them."""
    pages = -(-size_bytes // PAGE_BYTES)
    count = 0
    with open_window() as window:
        for first in range(0, pages, PAGES):
            window.lay(descriptor, first, min(PAGES, pages - first))
            count += len(window.resident())
            window.clear()
    return count


def _reclaim(order: EvictionOrder, place: bytes) -> Evicted:
    """File pages only where the kernel knows `swappiness=` (6.8); EAGAIN says that it could not find as many as asked."""
    wanted = order.pages * PAGE_BYTES
    for request in (f"{wanted} swappiness=0", f"{wanted}"):
        try:
            with descriptor_of(place, os.O_WRONLY | os.O_CLOEXEC) as descriptor:
                os.write(descriptor, request.encode())
            return Evicted(order, order.pages)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return Evicted(order, None)
            if error.errno != errno.EINVAL:
                raise
    return Evicted(order, 0, "memory.reclaim does not take this request")
