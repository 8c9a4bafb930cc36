# SPDX-License-Identifier: Apache-2.0
"""The two levers that evict clean page cache. Neither lowers a limit or leaves anything behind, whatever ends us.

A file is opened as `host/removal.py` opens it: it must still be the one that was seen.
"""

from __future__ import annotations

import errno
import os

from zombiescope.facts.reaping import Done, Lever, Order
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.removal import Identity, let_cache_go, the_file
from zombiescope.kernel.resident_window import PAGES, open_window

FOREIGN_PAGES = 256
"""A file of which more pages are cached than four times the dead ones' and these is in use by somebody alive."""


def evict(order: Order, mount_point: bytes, root: bytes = b"") -> Done:
    """Does one order. What is refused is said, never raised. `root`: where the host's `/` is mounted, if elsewhere."""
    try:
        if order.lever is Lever.DROP_FILE:
            return _drop(order, root)
        return _reclaim(order, root + mount_point.rstrip(b"/") + order.target + b"/memory.reclaim")
    except OSError as error:
        return Done(order, 0, (error.strerror or "refused").lower())


def _drop(order: Order, root: bytes) -> Done:
    with the_file(root + order.target, Identity(order.inode or 0)) as descriptor:  # one that was never seen is none
        size = os.fstat(descriptor).st_size
        before = resident_count(descriptor, size)
        if before > 4 * order.pages + FOREIGN_PAGES:
            return Done(order, 0, "most of its cached pages are not the dead ones': somebody alive uses it")
        let_cache_go(descriptor)
        return Done(order, max(before - resident_count(descriptor, size), 0))


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


def _reclaim(order: Order, place: bytes) -> Done:
    """File pages only where the kernel knows `swappiness=` (6.8); EAGAIN says that it could not find as many as asked."""
    wanted = order.pages * PAGE_BYTES
    for request in (f"{wanted} swappiness=0", f"{wanted}"):
        try:
            _write(place, request.encode())
            return Done(order, order.pages)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return Done(order, None)
            if error.errno != errno.EINVAL:
                raise
    return Done(order, 0, "memory.reclaim does not take this request")


def _write(place: bytes, text: bytes) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)
