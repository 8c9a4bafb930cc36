# SPDX-License-Identifier: Apache-2.0
"""A way to the checkout and to Python for a child that is about to give up its privileges.

A clone below `/root` or in a folder of `mktemp -d` cannot be entered by anybody else. In a mount namespace of the child's own an
empty folder that all may enter is laid over what is closed, and what the child runs is bound back into it.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


def closed_above(place: Path) -> Path | None:
    """The topmost folder on the way that others may not enter."""
    return next((folder for folder in reversed(place.parents) if not folder.stat().st_mode & stat.S_IXOTH), None)


def open_ways() -> None:
    """Of this process alone: the checkout and Python can be reached by every user. Needs root; changes nothing for others."""
    places = [place for place in {CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)} if closed_above(place)]
    if not places:
        return
    closed = {folder for place in places if (folder := closed_above(place))}
    if _libc.unshare(_CLONE_NEWNS):
        return  # a container without the right to: then only what is open already can be read
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
    held = {place: os.open(place, os.O_PATH | os.O_DIRECTORY) for place in places}
    for folder in closed:
        _check(_libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"mode=0755"))
    for place in sorted(places, key=lambda each: len(each.parts)):
        if not place.exists():  # else it lies inside one that is back already
            place.mkdir(parents=True)
            source = f"/proc/self/fd/{held[place]}".encode()
            _check(_libc.mount(source, os.fsencode(place), None, _MS_BIND | _MS_REC, None))
    for descriptor in held.values():
        os.close(descriptor)


def _check(answer: int) -> None:
    assert answer == 0, os.strerror(ctypes.get_errno())
