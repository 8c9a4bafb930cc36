# SPDX-License-Identifier: Apache-2.0
"""Holds a core by real reclaim: a process asks the kernel again and again to reclaim a group under which thousands of zombies lie,
whose pages cannot go. Before programs of a lower priority it goes first, as a realtime program that runs into its limit does."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from tests.kernel.confined import answer_of_child
from tests.kernel.softirq_holder import Held

ZOMBIES = 3_000


def ask_for_reclaim(top: Path) -> None:
    """Once over all of them; takes a quarter of a second for 3,000. What cannot be freed is an error, which is expected."""
    everything = top / "memory.force_empty"
    with suppress(OSError):
        if everything.exists():
            everything.write_text("0")
        else:
            (top / "memory.reclaim").write_text("1M")


def hold_by_reclaim(core: int, top: Path, seconds: float, *, is_first: bool = True) -> Held:
    """At least so long, and at least once. `is_first`: before every ordinary program (SCHED_FIFO), the kernel's threads too."""

    def work() -> list[float]:
        os.sched_setaffinity(0, {core})
        if is_first:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        at, begun, took = time.time(), time.monotonic(), -1.0
        while took < seconds:
            ask_for_reclaim(top)
            took = time.monotonic() - begun
        return [at, took]

    return Held(*answer_of_child(work))
