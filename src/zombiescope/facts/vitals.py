# SPDX-License-Identifier: Apache-2.0
"""The few numbers that say whether a remedy holds, over one window: before it, and after."""

from __future__ import annotations

from typing import Any, NamedTuple


class Vitals(NamedTuple):
    """None: it could not be had; `gaps` of the document say why."""

    at: float
    seconds: float
    zombies: int | None
    """Of the whole host, at the end of the window."""
    ours_first: int | None
    ours: int | None
    """Those that the plan is about, at the beginning and at the end."""
    restarts: int | None
    """Of the makers, in the window; a unit that waits for its next restart counts as one."""
    sweep_seconds: float | None
    saturated_seconds: float | None
    throttled_seconds: float | None

    @property
    def slope_per_hour(self) -> float | None:
        if self.ours is None or self.ours_first is None or self.seconds <= 0:
            return None
        return (self.ours - self.ours_first) / self.seconds * 3600


def vitals_of(plain: dict[str, Any]) -> Vitals:
    return Vitals(*(plain.get(name) for name in Vitals._fields))  # type: ignore[arg-type]
