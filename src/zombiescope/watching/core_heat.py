# SPDX-License-Identifier: Apache-2.0
"""What the history keeps of single cores: the share of kernel time of each over ten seconds, in percent. Where there are many,
several stand in one row, and the highest among them is kept: a saturated core does not drown in an average."""

from __future__ import annotations

from zombiescope.analysis.core_saturation import seconds_between, time_between
from zombiescope.facts.cores import CoreLook
from zombiescope.facts.series import CORE_PREFIX

MOST_ROWS = 16
_SECONDS = 9.5


class CoreHeat:
    def __init__(self) -> None:
        self._before: CoreLook | None = None
        self.shares: dict[str, float] = {}
        """By series, of the last ten seconds; empty until they are over."""

    def take(self, look: CoreLook) -> None:
        before = self._before
        if before is None:
            self._before = look
            return
        elapsed = seconds_between(before, look)
        if elapsed is None:
            self._before, self.shares = look, {}
        elif elapsed >= _SECONDS:
            self._before, self.shares = look, _shares(before, look, elapsed)


def _shares(before: CoreLook, look: CoreLook, elapsed: float) -> dict[str, float]:
    rows: dict[str, float] = {}
    width = -(-(max(look.cores, default=0) + 1) // MOST_ROWS)
    for core, ticks in look.cores.items():
        then = before.cores.get(core)
        time = time_between(then, ticks, elapsed) if then else None
        if time is None:
            continue
        first = core // width * width
        name = CORE_PREFIX + (str(core) if width == 1 else f"{first}-{first + width - 1}")
        share = float(min(round(100 * time.kernel / elapsed), 100))
        rows[name] = max(rows.get(name, 0.0), share)
    return rows
