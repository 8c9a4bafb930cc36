# SPDX-License-Identifier: Apache-2.0
"""What was seen inside a booted candidate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BootedUnit:
    name: str
    restarts: int
    """In the window, or since boot where the window does not tell."""
    births: int
    zombies: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Booted:
    window_seconds: float
    boot_seconds: float
    """From power on to the end, on the host's clock."""
    zombies_first: int
    zombies_last: int
    births: int
    loops: tuple[BootedUnit, ...]
    kernel: str = ""

    @property
    def grown(self) -> int:
        return max(0, self.zombies_last - self.zombies_first)

    @property
    def zombies_per_day(self) -> float:
        return self.grown * 86400 / self.window_seconds
