# SPDX-License-Identifier: Apache-2.0
"""An experiment for cgroup v1: mapping a page raises `mapped_file` of the memory cgroup that it is charged to, dead or alive.

The kernel lets statistics lag until some number of changes, so pages are mapped and let go until it must add them up. Pages that
somebody has mapped already move nothing; others at work below the same parent disturb the figures, so up must equal down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from zombiescope.kernel.file_pages import Candidate, open_regular
from zombiescope.kernel.resident_window import ResidentWindow

_TRIES = 3
_BATCH = 64  # changes a CPU keeps to itself [every kernel since 5.9: MEMCG_CHARGE_BATCH]


class Figures(NamedTuple):
    """Pages mapped, as memory.stat of the parent has them."""

    own: int
    below: int


def measure(
    window: ResidentWindow, files: Sequence[tuple[Candidate, int]], figures: Callable[[], Figures], cpus: int
) -> Figures | None:
    """How many pages of the files (each with its length in pages) are the parent's own and how many lie below it.
    None where the figures would not hold still or a file could not be mapped."""
    try:
        for candidate, pages in files:
            with open_regular(candidate) as (descriptor, _):
                window.lay(descriptor, 0, pages)
        resident = window.resident()
        for _ in range(_TRIES):
            found = _once(window, resident, figures, cpus)
            if found is not None:
                return found
    except OSError:
        return None
    finally:
        window.clear()
    return None


def _once(window: ResidentWindow, resident: list[int], figures: Callable[[], Figures], cpus: int) -> Figures | None:
    rounds = 2 * _BATCH * (cpus + 1) // max(2 * len(resident), 1) + 1

    def touch_and_let_go() -> None:
        window.touch(resident)
        window.let_go()

    for _ in range(rounds):
        touch_and_let_go()
    before = figures()
    for _ in range(rounds):
        touch_and_let_go()
    window.touch(resident)
    during = figures()
    window.let_go()
    for _ in range(rounds):
        touch_and_let_go()
    after = figures()
    up = Figures(during.own - before.own, during.below - before.below)
    down = Figures(during.own - after.own, during.below - after.below)
    return up if up == down and min(up) >= 0 and sum(up) <= len(resident) else None
