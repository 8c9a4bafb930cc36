# SPDX-License-Identifier: Apache-2.0
"""The stretch that chance explains least, and what is usual in a ring."""

from __future__ import annotations

import numpy as np
import pytest

from zombiescope.profiler.stacks.stretches import Seen, best_stretch, usual_cores

RATE = 50.0


def seen(*counts: int, core: int = 1) -> Seen:
    second = np.repeat(np.arange(len(counts)), counts)
    return Seen(second, np.full(len(second), core, np.uint16), RATE, float(len(counts)))


def test_all_of_a_stretch_counts_and_not_its_busiest_second_alone() -> None:
    burst, stretch = seen(0, 0, 12, 0, 0, 0), seen(0, 10, 10, 10, 0, 0)
    usual = usual_cores([burst, stretch], 0, 8)
    assert usual == 0
    assert best_stretch(stretch, usual).score > best_stretch(burst, usual).score
    assert best_stretch(stretch, usual)[:2] == (1, 4)
    assert best_stretch(burst, usual)[:2] == (2, 3)


def test_what_is_usual_stands_out_by_what_it_has_more() -> None:
    calm, held = seen(*[20] * 8), seen(20, 20, 45, 45, 45, 20, 20, 20)
    usual = usual_cores([calm, calm, held], 4, 0)
    assert usual == pytest.approx(0.4)
    assert best_stretch(calm, usual).score < 1
    found = best_stretch(held, usual)
    assert found[:2] == (2, 5)
    assert found.score > 5
    assert found.peak == pytest.approx(0.9)
    assert found.core == 1


def test_one_sample_among_none_is_little() -> None:
    assert best_stretch(seen(0, 0, 1), 0.0).score < 2.5


def test_a_core_is_named_only_where_nearly_all_of_it_was() -> None:
    second = np.zeros(10, np.int64)
    assert best_stretch(Seen(second, np.arange(10, dtype=np.uint16) % 2, RATE, 5.0), 0.0).core is None


def test_captures_without_it_make_it_unusual() -> None:
    assert usual_cores([seen(50)], 0, 0) == pytest.approx(1.0)
    assert usual_cores([seen(50)], 0, 2) == 0
    assert usual_cores([], 0, 0) == 0
