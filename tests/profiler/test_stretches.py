# SPDX-License-Identifier: Apache-2.0
"""The stretch that chance explains least, and what is usual in a ring."""

from __future__ import annotations

import numpy as np
import pytest

from zombiescope.profiler.stacks.searching import Seen, best_stretch, busiest, usual_cores, usual_stretches

RATE = 50.0


def seen(*counts: int, core: int = 1, process: str = "app") -> Seen:
    second = np.repeat(np.arange(len(counts)), counts)
    cores = np.full(len(second), core, np.uint16)
    return Seen(second, cores, RATE, float(len(counts)), np.zeros(len(second), np.int64), (process,))


def test_all_of_a_stretch_counts_and_not_its_busiest_second_alone() -> None:
    burst, stretch = seen(0, 0, 12, 0, 0, 0), seen(0, 10, 10, 10, 0, 0)
    usual = usual_cores([burst, stretch], 0, 8)
    assert usual == 0
    assert best_stretch(stretch, usual, {}).score > best_stretch(burst, usual, {}).score
    assert best_stretch(stretch, usual, {})[:2] == (1, 4)
    assert best_stretch(burst, usual, {})[:2] == (2, 3)


def test_what_is_usual_stands_out_by_what_it_has_more() -> None:
    calm, held = seen(*[20] * 8), seen(20, 20, 45, 45, 45, 20, 20, 20)
    usual = usual_cores([calm, calm, held], 4, 0)
    assert usual == pytest.approx(0.4)
    assert best_stretch(calm, usual, {}).score < 1
    found = best_stretch(held, usual, {})
    assert found[:2] == (2, 5)
    assert found.score > 5
    assert found.peak == pytest.approx(0.9)
    assert found.core == 1


def test_where_nothing_stands_out_its_busiest_second_is_shown() -> None:
    alone = seen(8, 22, 37, 30)
    found = best_stretch(alone, 2.0, {})
    assert (found.score, found[:2]) == (0.0, (2, 3))
    assert found.peak == pytest.approx(0.74)


def test_one_sample_among_none_is_little() -> None:
    assert best_stretch(seen(0, 0, 1), 0.0, {}).score < 2.5


def test_a_core_is_named_only_where_nearly_all_of_it_was() -> None:
    second = np.zeros(10, np.int64)
    cores = np.arange(10, dtype=np.uint16) % 2
    assert best_stretch(Seen(second, cores, RATE, 5.0, np.zeros(10, np.int64), ("app",)), 0.0, {}).core is None


def test_captures_without_it_make_it_unusual() -> None:
    assert usual_cores([seen(50)], 0, 0) == pytest.approx(1.0)
    assert usual_cores([seen(50)], 0, 2) == 0
    assert usual_cores([], 0, 0) == 0


def test_a_job_that_comes_back_is_usual_and_what_came_once_is_not() -> None:
    """However much more the job takes."""
    jobs = [seen(0, 40, 40, 40, 0, process="backup") for _ in range(3)]
    once = seen(0, 0, 12, 12, 0, process="app")
    every = [*jobs, once]
    usual = usual_cores(every, 0, 20)
    most = [busiest(one) for one in every]
    scores = [
        best_stretch(one, usual, usual_stretches([*most[:at], *most[at + 1 :]])).score for at, one in enumerate(every)
    ]
    assert max(scores[:3]) < 2
    assert scores[3] > 5
    assert best_stretch(jobs[0], usual, {}).score > best_stretch(once, usual, {}).score, "as it was before"


def test_a_job_that_took_far_more_once_stands_out_by_what_it_had_more() -> None:
    calm = [busiest(seen(0, 10, 10, 0, process="backup")) for _ in range(3)]
    found = best_stretch(seen(0, 10, 45, 45, 45, 45, process="backup"), 0.0, usual_stretches(calm))
    assert found[:2] == (2, 6)
    assert found.score > 5


def test_many_processes_that_do_a_little_at_once_are_one_moment() -> None:
    second = np.repeat(np.arange(10), [2, 2, 2, 30, 30, 2, 2, 2, 2, 2])
    processes = np.arange(len(second)) % 10
    one = Seen(second, np.zeros(len(second), np.uint16), RATE, 10.0, processes, tuple("abcdefghij"))
    calm = Seen(second[::10], np.zeros(len(second[::10]), np.uint16), RATE, 10.0, processes[::10], tuple("abcdefghij"))
    found = best_stretch(one, 0.04, usual_stretches([busiest(calm)] * 3))
    assert found[:2] == (3, 5)
    assert found.score > 5
