# SPDX-License-Identifier: Apache-2.0
"""Every kind of pin the lab can make."""

from __future__ import annotations

from zombiescope.lab.pins.files import Child, DirtyFile, MappedFile, PageCache, Swap, Tmpfs
from zombiescope.lab.pins.pin import Pin
from zombiescope.lab.pins.references import Memfd, SharedAnon, Socket, SysvShm, Unreaped, Visible

PINS: tuple[type[Pin], ...] = (
    PageCache, DirtyFile, MappedFile, Tmpfs, Memfd, SharedAnon, SysvShm, Socket, Child, Unreaped, Swap, Visible,
)  # fmt: skip
KINDS = tuple(pin.kind for pin in PINS)


def pin_of(kind: str) -> type[Pin]:
    return next(pin for pin in PINS if pin.kind == kind)
