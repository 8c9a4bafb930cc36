# SPDX-License-Identifier: Apache-2.0
"""The two levers that evict clean page cache. Neither lowers a limit or leaves anything behind, whatever ends us.

A file is opened, never followed, and must still be the one that was seen: device and inode are compared after opening.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.facts.reaping import Done, Lever, Order
from zombiescope.kernel.resident_window import PAGE_BYTES, PAGES, open_window

_HOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
FOREIGN_PAGES = 256
"""A file of which more pages are cached than four times the dead ones' and these is in use by somebody alive."""


def evict(order: Order, mount_point: bytes) -> Done:
    """Does one order. What is refused is said, never raised."""
    try:
        if order.lever is Lever.DROP_FILE:
            return _drop(order)
        return _reclaim(order, mount_point.rstrip(b"/") + order.target + b"/memory.reclaim")
    except OSError as error:
        return Done(order, 0, (error.strerror or "refused").lower())


def _drop(order: Order) -> Done:
    with _opened(order.target) as descriptor:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return Done(order, 0, "it is not a regular file any more")
        if found.st_ino != order.inode:
            return Done(order, 0, "another file has its name by now")
        before = resident_count(descriptor, found.st_size)
        if before > 4 * order.pages + FOREIGN_PAGES:
            return Done(order, 0, "most of its cached pages are not the dead ones': somebody alive uses it")
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return Done(order, max(before - resident_count(descriptor, found.st_size), 0))


@contextmanager
def _opened(path: bytes) -> Iterator[int]:
    try:
        descriptor = os.open(path, _HOW | os.O_NOATIME)
    except PermissionError:  # O_NOATIME is the owner's
        descriptor = os.open(path, _HOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


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
