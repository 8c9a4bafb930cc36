# SPDX-License-Identifier: Apache-2.0
"""Births and deaths at a steady pace that leave nothing behind: what a busy healthy host looks like."""

from __future__ import annotations

import time
from collections.abc import Callable

from zombiescope.lab.runs import Run, account
from zombiescope.lab.truth import Truth


def churn(run: Run, per_second: float, seconds: float, progress: Callable[[float], None]) -> Truth:
    """`progress` is told the seconds that are over."""
    run.hierarchy.make_parents(run.subtree)
    start = time.monotonic()
    births = deaths = 0
    while (now := time.monotonic() - start) < seconds:
        due = births / per_second
        if due > now:
            time.sleep(min(due - now, seconds - now, 0.2))
            progress(now)
            continue
        path = f"{run.subtree}/c{births:07d}"
        run.hierarchy.make(path)
        births += 1
        run.hierarchy.remove(path)
        deaths += 1
    took = time.monotonic() - start
    truth = account(run, "churn", [], took)
    truth.more["churn"] = {
        "births": births,
        "deaths": deaths,
        "asked_per_second": per_second,
        "achieved_per_second": round(births / took, 2),
    }
    return truth
