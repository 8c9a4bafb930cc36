# SPDX-License-Identifier: Apache-2.0
"""What one packet in a thousand waits, and histograms of what was seen one by one and of what was stamped now and then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.analysis.softirq import (
    CoreStep,
    PollStep,
    Spread,
    one_in_a_thousand,
    poll_step,
    spread,
    worst_core,
)
from zombiescope.facts.softirq import BUCKETS, LongTimes, PollCore, PollLook

NONE = (0,) * BUCKETS
POWERS = (14, 17, 20)


def buckets(**counts: int) -> tuple[int, ...]:
    return tuple(counts.get(f"b{place}", 0) for place in range(BUCKETS))


def by_simulation(waits: list[tuple[float, int]], seconds: float) -> float:
    """Packets a tenth of a millisecond apart, each waiting for the rest of the wait it falls into."""
    step, rest = 0.0001, []
    for length, count in waits:
        rest += [number * step for number in range(round(length / step))] * count
    rest.sort(reverse=True)
    wanted = int(seconds / step * 0.001)
    return rest[wanted] if wanted < len(rest) else 0.0


@given(
    st.lists(st.tuples(st.floats(0.01, 0.9), st.integers(1, 4)), max_size=6),
    st.sampled_from([20.0, 60.0]),
)
def test_one_packet_in_a_thousand_is_what_packets_that_come_evenly_would_see(
    waits: list[tuple[float, int]], seconds: float
) -> None:
    assert one_in_a_thousand(waits, seconds) == pytest.approx(by_simulation(waits, seconds), abs=0.001)


def test_a_thousandth_of_a_minute_is_all_that_a_late_softirq_may_cost() -> None:
    assert one_in_a_thousand([(0.16, 1)], 60.0) == pytest.approx(0.1)
    assert one_in_a_thousand([(0.06, 1)], 60.0) == 0.0
    assert one_in_a_thousand([(5.0, 1)], 60.0) == pytest.approx(4.94)
    assert one_in_a_thousand([], 60.0) == 0.0


def test_the_number_is_the_kernels_and_the_shape_is_that_of_the_stamps() -> None:
    stamped = buckets(b3=90, b12=10)
    found = spread(POWERS, [(0.1, 2), (2.0, 1)], stamped, 1003)
    assert found.all == 1003
    assert found.at_most == (1000, 1002, 1002)
    assert found.seconds == pytest.approx(0.2 + 2.0 + 900 * 6e-6 + 100 * 3.072e-3)


def test_without_a_stamp_short_ones_are_still_counted() -> None:
    assert spread(POWERS, [], NONE, 50).all == 50
    assert spread(POWERS, [], NONE, None) == Spread((0.0, 0.0, 0.0), 0.0, 0.0)


def core(number: int, runs: int, longs: dict[int, float] | None = None, stamped: tuple[int, ...] = NONE) -> PollCore:
    """`longs`: by bucket, the seconds of one wait in it."""
    found = longs or {}
    counts = tuple(int(place in found) for place in range(BUCKETS))
    sums = tuple(int(found.get(place, 0.0) * 1e9) for place in range(BUCKETS))
    none = LongTimes(NONE, NONE, 0.0, None, 0.0)
    return PollCore(number, runs, stamped, NONE, LongTimes(counts, sums, 0.0, None, 0.0), none)


def look(at: float, *cores: PollCore) -> PollLook:
    return PollLook(at, at, cores, int(at * 100), 0.01, True, 0.0)


def test_between_two_looks_counters_may_begin_anew() -> None:
    before, after = look(0, core(0, (1 << 32) - 5), core(1, 7)), look(5, core(0, 10), core(1, 9, {20: 0.6}))
    step = poll_step(before, after)
    assert [each.runs for each in step.cores] == [15, 2]
    ((length, number),) = step.cores[1].waits
    assert (round(length, 6), number) == (0.6, 1)
    assert step.seconds == 5


def test_the_worst_core_is_the_one_that_waited_longest_whatever_else_ran() -> None:
    busy = CoreStep(0, 10**6, buckets(b4=10**6), NONE, (), (), 0.0)
    held = CoreStep(1, 3, buckets(b4=3), NONE, ((0.4, 1),), (), 0.0)
    still = CoreStep(2, 0, NONE, NONE, (), (), 3.0)
    assert worst_core(PollStep(0, 5, (busy, held), 0)) is held
    assert worst_core(PollStep(0, 5, (busy, held, still), 0)) is still
    assert worst_core(PollStep(0, 5, (), 0)) is None
