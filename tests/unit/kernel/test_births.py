# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from tests.unit.kernel.raw_records import memcg

from zombiescope.kernel.assemble import birth_times, tick_rate
from zombiescope.kernel.raw import Clock


def clock(rate: int, uptime: float) -> Clock:
    return Clock(int((1 << 32) + (uptime - 300) * rate), uptime, 1_000_000.0)


@pytest.mark.parametrize("rate", [100, 250, 300, 1000])
@pytest.mark.parametrize("uptime", [5.0, 290.0, 4000.0, 9_000_000.0])
def test_the_tick_rate_is_recognised_or_not_claimed(rate: int, uptime: float) -> None:
    # Five minutes after boot all rates agree on the age of the boot; then any answer is as good.
    assert tick_rate(clock(rate, uptime)) == rate or abs(uptime - 300) < 40


def test_jiffies_that_fit_no_rate_give_no_birth() -> None:
    assert tick_rate(Clock(1 << 60, 1000.0, 0.0)) is None
    assert birth_times([memcg(serial=5, born=1 << 32)], Clock(1 << 60, 1000.0, 0.0), is_v2=False) == [None]


def test_a_birth_is_as_long_ago_as_its_jiffies_say() -> None:
    now = clock(250, 4000.0)
    assert birth_times([memcg(serial=5, born=now.jiffies - 250 * 60)], now, is_v2=False) == [1_000_000.0 - 60]


def test_on_v2_nobody_is_younger_than_those_born_later() -> None:
    now = clock(250, 4000.0)
    moved = memcg(serial=5, born=now.jiffies - 250)
    later = memcg(serial=6, born=now.jiffies - 250 * 100)
    assert birth_times([moved, later], now, is_v2=True) == [1_000_000.0 - 100, 1_000_000.0 - 100]
    assert birth_times([moved, later], now, is_v2=False)[0] == 1_000_000.0 - 1


def test_the_pressure_stamp_serves_on_v1_only() -> None:
    now = clock(250, 4000.0)
    stamped = memcg(serial=5, psi_born=3_990_000_000_000)
    assert birth_times([stamped], now, is_v2=False) == [pytest.approx(1_000_000.0 - 10)]
    assert birth_times([stamped], now, is_v2=True) == [None]


def test_a_stamp_from_before_the_boot_is_not_believed() -> None:
    now = clock(250, 4000.0)
    assert birth_times([memcg(serial=5, born=17)], now, is_v2=False) == [None]
