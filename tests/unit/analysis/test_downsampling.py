# SPDX-License-Identifier: Apache-2.0
"""Pictures of long series: no peak is lost, counters become rates, and what nobody saw is no zero."""

from __future__ import annotations

import math
import random

import pytest

from zombiescope.analysis.day import Day
from zombiescope.analysis.downsampling import Buckets

HOUR = 3600.0


def test_the_lowest_and_the_highest_of_each_stretch_stay() -> None:
    generator = random.Random(1)
    times = [float(second) for second in range(0, 3600, 10)]
    values = [generator.gauss(100, 10) for _ in times]
    values[77], values[200] = 10_000.0, -5.0
    buckets = Buckets(0.0, HOUR, 60)
    for begin in range(0, 360, 90):
        buckets.take("boot", times[begin : begin + 90], {"a": values[begin : begin + 90]})
    thin = buckets.thin("a")
    assert thin is not None
    for number in range(60):
        inside = [value for at, value in zip(times, values, strict=True) if at // 60 == number]
        assert (thin.low[number], thin.high[number]) == (min(inside), max(inside))


def test_what_nobody_saw_is_none_and_what_lies_outside_is_left_out() -> None:
    buckets = Buckets(100.0, 200.0, 10)
    buckets.take("boot", [50.0, 105.0, 125.0, 250.0], {"a": [1.0, 2.0, None, 4.0]})
    thin = buckets.thin("a")
    assert thin is not None
    assert thin.high == [2.0, *[None] * 9]
    assert buckets.thin("b") is None


def test_a_counter_becomes_what_it_grew_by_per_second_and_a_reset_begins_anew() -> None:
    buckets = Buckets(0.0, 60.0, 3, frozenset({"n"}))
    buckets.take("boot", [0.0, 10.0, 20.0, 30.0, 40.0, 50.0], {"n": [5.0, 15.0, 25.0, 45.0, 3.0, 13.0]})
    thin = buckets.thin("n")
    assert thin is not None
    assert thin.high == pytest.approx([1.0, 1.5, (3 + 10) / 20])


def test_a_counter_over_a_pause_or_a_reboot_has_no_rate() -> None:
    buckets = Buckets(0.0, 1000.0, 10, frozenset({"n"}))
    buckets.take("boot", [0.0, 10.0], {"n": [0.0, 10.0]})
    buckets.take("boot", [500.0, 510.0], {"n": [900.0, 910.0]})
    buckets.take("later", [900.0, 910.0], {"n": [0.0, 20.0]})
    thin = buckets.thin("n")
    assert thin is not None
    assert [None if rate is None else round(rate, 3) for rate in thin.high] == [
        1.0, None, None, None, None, 1.0, None, None, None, 2.0,
    ]  # fmt: skip


@pytest.mark.parametrize("points", [1, 2, 4, 12])
def test_slots_say_the_same_as_their_samples(points: int) -> None:
    generator = random.Random(points)
    low = [generator.random() for _ in range(12)]
    high = [value + 1 for value in low]
    low[5] = high[5] = math.nan
    buckets = Buckets(0.0, HOUR, points)
    buckets.take_slots("boot", 0.0, 300.0, {"a": low}, {"a": high})
    thin = buckets.thin("a")
    assert thin is not None
    width = 12 // points
    for number in range(points):
        inside = [slot for slot in range(number * width, (number + 1) * width) if slot != 5]
        assert thin.low[number] == (min(low[slot] for slot in inside) if inside else None)
        assert thin.high[number] == (max(high[slot] for slot in inside) if inside else None)


def test_a_day_in_120_stretches_with_its_rises_its_gaps_and_when_it_crossed_the_mark() -> None:
    day, now = Day(), 1_700_000_000.0
    for minute in range(24 * 60):
        at = now - (24 * 60 - minute) * 60
        if not 600 <= minute < 660:
            day.take(at, {"zombies": float(max(minute - 720, 0)), "saturated_seconds": minute / 10})
    day.happened(now - 100, "nic-reset", "eth0")
    line = day.zombies(now)
    assert (len(line.high), line.end >= now) == (120, True)
    assert line.high[-2] is not None
    assert [value is None for value in line.high].count(True) >= 4, "an hour nobody watched"
    growth = [value for value in day.growth(now).high if value is not None]
    assert max(growth) == pytest.approx(60.0)
    assert sum(value or 0 for value in day.resets(now).high) == 1
    since = day.above_since(500, now)
    assert since is not None
    assert abs(since - (now - 220 * 60)) <= 720
    assert day.above_since(5_000, now) is None
    again = Day()
    again.join(day.to_plain())
    assert again.zombies(now) == line


def test_a_day_forgets_what_is_older() -> None:
    day = Day()
    for hour in range(24 * 7):
        for part in range(5):
            day.take(hour * HOUR + part * 720, {"zombies": 1.0})
    assert len(day._zombies) <= 2 * 120 + 1
