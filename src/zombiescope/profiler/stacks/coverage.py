# SPDX-License-Identifier: Apache-2.0
"""What a ring of captures covers, what its recorder wrote about the rest, and why a capture is worth keeping."""

from __future__ import annotations

from typing import NamedTuple

_WEIGHTS = {"asked": 4, "alert": 4, "nic-reset": 3, "finding": 3, "left-behind": 2, "saturated-core": 1}
"""Which moments are worth keeping when there is no room for all of them; others weigh as little as the last."""


class Reason(NamedTuple):
    """Why a capture is worth keeping."""

    kind: str
    at: float
    """Seconds since the epoch."""
    words: str

    @property
    def weight(self) -> int:
        return _WEIGHTS.get(self.kind, 1)


class Note(NamedTuple):
    at: float
    """Seconds since the epoch."""
    boot: str
    steady: float
    """Seconds on the steady clock of that boot."""
    what: str
    """began, ended, full, room, failed, dropped, rate, clock, over (more room was taken than the ring has)."""
    words: str


class Hole(NamedTuple):
    """Time of which there is no capture."""

    begin: float
    """Seconds since the epoch, by the clock of then."""
    end: float
    seconds: float | None
    """By the steady clock; None: the machine was restarted, and its clock makes no sense of the time between."""
    why: str
    steady: tuple[float, float] | None = None
    """The same on the steady clock, where both ends are of one boot."""


class Coverage(NamedTuple):
    captures: int
    size_bytes: int
    begin: float | None
    end: float | None
    seconds: float
    """Of samples."""
    samples: int
    kept: int
    holes: tuple[Hole, ...]
    jumps: tuple[tuple[float, float], ...]
    """When a clock was set, and by how many seconds."""
