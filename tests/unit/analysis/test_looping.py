# SPDX-License-Identifier: Apache-2.0
"""Which units loop, by systemd's counters read every five minutes."""

from __future__ import annotations

from zombiescope.analysis.looping import LoopingUnits
from zombiescope.facts.agent import UnitRestarts


def take(watch: LoopingUnits, at: float, **restarts: int) -> dict[str, int]:
    watch.take(at, [UnitRestarts(f"{name}.service", count, False) for name, count in restarts.items()])
    return watch.looping


def test_a_large_count_that_does_not_move_is_no_loop_and_one_that_moves_is() -> None:
    watch = LoopingUnits()
    assert take(watch, 0, nightly=400, bad=10) == {}
    assert take(watch, 300, nightly=400, bad=12) == {}
    assert take(watch, 600, nightly=401, bad=13) == {"bad.service": 13}
    assert take(watch, 900, nightly=401, bad=13, new=3) == {"bad.service": 13, "new.service": 3}


def test_a_unit_that_waits_for_its_next_restart_loops_at_the_first_reading() -> None:
    watch = LoopingUnits()
    watch.take(0, [UnitRestarts("a.service", 3, True), UnitRestarts("b.service", 2, True)])
    assert watch.looping == {"a.service": 3}


def test_after_an_hour_of_peace_it_loops_no_more_and_a_counter_that_fell_began_anew() -> None:
    watch = LoopingUnits()
    take(watch, 0, bad=0)
    assert take(watch, 300, bad=9) == {"bad.service": 9}
    for step in range(2, 13):
        take(watch, 300 * step, bad=9)
    assert take(watch, 3901, bad=9) == {}
    assert take(watch, 4200, bad=2) == {}
    assert take(watch, 4500, bad=5) == {"bad.service": 5}


def test_at_most_six_units_the_ones_with_most() -> None:
    watch = LoopingUnits()
    watch.take(0, [])
    found = take(watch, 300, **{f"u{n}": n for n in range(3, 40)})
    assert list(found.values()) == list(range(39, 33, -1))
