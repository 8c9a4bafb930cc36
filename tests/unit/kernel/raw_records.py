# SPDX-License-Identifier: Apache-2.0
"""Small builders of what a walker finds."""

from __future__ import annotations

from typing import Any

from zombiescope.kernel.raw import CSS_DYING, CSS_ONLINE, Clock, PinFlag, RawMemcg, RawPin, RawWalk

_NOTHING: dict[str, Any] = dict.fromkeys(RawMemcg._fields, 0) | {"name": b"", "pins": (), "walked": 1, "refs": 1}
_NO_PIN: dict[str, Any] = dict.fromkeys(RawPin._fields, 0) | {"names": b"", "fstype": b""}
FILE = int(PinFlag.INODE | PinFlag.ROOTED)
SHARED = int(PinFlag.INODE | PinFlag.ROOTED | PinFlag.SWAPBACKED)
HIDDEN = int(PinFlag.INODE | PinFlag.PSEUDO | PinFlag.SWAPBACKED | PinFlag.UNHASHED)


def memcg(**fields: Any) -> RawMemcg:
    return RawMemcg(**(_NOTHING | {"flags": CSS_DYING} | fields))


def live(css: int, parent: int, name: bytes) -> RawMemcg:
    return memcg(css=css, parent=parent, serial=css, id=css, name=name, flags=CSS_ONLINE)


def pin(**fields: Any) -> RawPin:
    return RawPin(**(_NO_PIN | {"nlink": 1, "pages": 1, "folios": 1} | fields))


def walk(*memcgs: RawMemcg, writeback: tuple[RawPin, ...] = (), notes: tuple[str, ...] = ()) -> RawWalk:
    clock = Clock((1 << 32) + 250 * 3700, 4000.0, 1_000_000.0)
    return RawWalk(list(memcgs), list(writeback), clock, is_v2=True, runs_nanoseconds=[5, 9], notes=list(notes))
