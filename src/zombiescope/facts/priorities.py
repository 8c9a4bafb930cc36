# SPDX-License-Identifier: Apache-2.0
"""Tasks that run before everybody else, and how much of a core they took in a window."""

from __future__ import annotations

from typing import NamedTuple


class RealTimeTask(NamedTuple):
    pid: int
    name: str
    """Empty where a recording did not keep it."""
    policy: str
    """fifo, rr or deadline."""
    priority: int
    seconds: float
    """On a CPU in the window."""
    core: int | None = None
    """Where it ran last."""


class RealTimeSeen(NamedTuple):
    at: float
    seconds: float
    """How long was watched."""
    tasks: tuple[RealTimeTask, ...]
    """Those that ran, most time first."""
