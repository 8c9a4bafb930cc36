# SPDX-License-Identifier: Apache-2.0
"""Held, not held, or too little to tell."""

from __future__ import annotations

import pytest

from zombiescope.diagnosis.outcome import judge_outcome
from zombiescope.facts.reclaim import Vitals

BEFORE = Vitals(0.0, 5.0, 120, 98, 100, 3, 0.1, 0.0, 0.0)
AFTER = Vitals(9.0, 60.0, 22, 2, 2, 0, 0.1, 0.0, 0.0)


@pytest.mark.parametrize(
    ("after", "steps", "verdict"),
    [
        (AFTER, 3, "held"),
        (AFTER._replace(restarts=1), 3, "not-held"),
        (AFTER._replace(ours=9), 3, "not-held"),
        (AFTER._replace(ours_first=200, ours=200), 3, "not-held"),
        (AFTER._replace(ours=None), 3, "inconclusive"),
        (AFTER._replace(seconds=3.0), 3, "inconclusive"),
        (AFTER, 0, "inconclusive"),
        (AFTER._replace(restarts=None), 3, "held"),
        (AFTER._replace(zombies=90_000), 3, "held"),
    ],
)
def test_the_verdict(after: Vitals, steps: int, verdict: str) -> None:
    assert judge_outcome(BEFORE, after, steps).verdict == verdict


def test_the_slope_is_of_the_plans_own_zombies() -> None:
    assert BEFORE.slope_per_hour == 1440
    assert AFTER._replace(ours_first=None).slope_per_hour is None
