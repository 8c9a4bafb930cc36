# SPDX-License-Identifier: Apache-2.0
"""Services numbered for each run are one maker; services that merely have a number in their name are not."""

from __future__ import annotations

import pytest
from tests.scenarios.facts import flows

from zombiescope.analysis.maker import fold_flows, folding
from zombiescope.facts.lifecycle import MakerFlow

JOBS = {f"unit:job-{number}.service": 1 for number in range(12)}


def test_many_that_left_one_each_are_one_maker() -> None:
    assert folding({**JOBS, "unit:old.service": 9}) == dict.fromkeys(JOBS, "unit:job-*.service")
    dated = {f"unit:etl_2024{number:04}.service": 1 for number in range(6)}
    assert set(folding(dated).values()) == {"unit:etl_*.service"}


@pytest.mark.parametrize(
    "counts",
    [
        {"unit:postgresql-14.service": 1, "unit:postgresql-15.service": 2},
        {f"unit:redis-{port}.service": 40 for port in range(6379, 6385)},
        {f"unit:getty{number}.service": 1 for number in range(9)},
        {f"unit:job-{number}.scope": 1 for number in range(9)},
        {f"pod:job-{number}.service": 1 for number in range(9)},
    ],
)
def test_a_service_that_comes_back_under_its_name_keeps_it(counts: dict[str, int]) -> None:
    assert folding(counts) == {}


def test_what_a_walk_has_shown_to_be_a_pattern_is_one_in_a_window_with_two_of_them() -> None:
    seen = flows(("unit:job-7.service", 1, 1, 0), ("unit:job-8.service", 1, 1, 1), ("unit:old.service", 1, 1, 1))
    assert fold_flows(seen) is seen
    found = fold_flows(seen, ["unit:job-*.service"])
    assert found.makers == (MakerFlow("unit:job-*.service", 2, 2, 1), MakerFlow("unit:old.service", 1, 1, 1))
    unseen = flows(*((f"unit:job-{number}.service", 1, 1, None) for number in range(6)))
    assert fold_flows(unseen).makers == (MakerFlow("unit:job-*.service", 6, 6, None),)
