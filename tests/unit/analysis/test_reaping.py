# SPDX-License-Identifier: Apache-2.0
"""A reaper takes clean page cache only, keeps to its budget, rests where nothing comes of it, and knows when it harms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.analysis.autopsy import Body
from zombiescope.analysis.reaping import (
    DIRTY,
    FIRST_REST_SECONDS,
    MAPPED,
    NO_LEVER,
    NOT_CACHED,
    RESTING,
    Lesson,
    choose,
    freed,
    harmed,
    learn,
    pressed,
    refault_rate,
    usual_rate,
    wait_seconds,
)
from zombiescope.facts.reaping import Evicted, EvictionOrder, Health, ReapBudget
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import Pages, Pin, PinKind, References, Zombie


def pin(kind: PinKind, path: bytes | None = b"/f", *, pages: int = 1, mapped: int = 0, dirty: int = 0) -> Pin:
    return Pin(kind, path, path, "ext4", "8:1", 7, pages, sampled=False, mapped=mapped, dirty=dirty)


def body(serial: int, *pins: Pin, parent: bytes = b"/a") -> Body:
    references = References(len(pins), len(pins), 0, 0, 0)
    zombie = Zombie(
        serial, serial, parent + b"/dead", 2, parent, None, None, references, Pages(1, 0, 0, 0, 0), pins, None, None
    )
    return Body(zombie, "unit:x.service", pins)


CACHED = pin(PinKind.PAGE_CACHE)


def test_one_file_that_keeps_two_is_asked_for_once() -> None:
    choice = choose([body(1, CACHED), body(2, CACHED)], frozenset(), {}, 0.0, 100)
    assert choice.orders == (EvictionOrder(Remedy.DROP_FILE, b"/f", b"/a", 2, frozenset({1, 2}), "8:1", 7),)
    assert choice.evictable == 2


@pytest.mark.parametrize(
    ("pins", "reason"),
    [
        ((pin(PinKind.TMPFS),), "tmpfs"),
        ((CACHED, pin(PinKind.SOCKET)), "socket"),
        ((), NOT_CACHED),
        ((pin(PinKind.PAGE_CACHE, dirty=1),), DIRTY),
        ((pin(PinKind.PAGE_CACHE, mapped=1),), MAPPED),
        ((pin(PinKind.PAGE_CACHE, None),), NO_LEVER),
    ],
)
def test_what_is_left_is_counted_by_its_reason(pins: tuple[Pin, ...], reason: str) -> None:
    choice = choose([body(1, *pins)], frozenset(), {}, 0.0, 100)
    assert choice.orders == ()
    assert choice.left == {reason: 1}


def test_a_file_without_a_name_is_left_to_reclaim_where_the_parent_is_nearly_all_dead() -> None:
    nameless = body(1, pin(PinKind.PAGE_CACHE, None, pages=5))
    choice = choose([nameless], frozenset({b"/a"}), {}, 0.0, 100)
    assert choice.orders == (EvictionOrder(Remedy.RECLAIM_PARENT, b"/a", b"/a", 5, frozenset({1})),)


def test_a_file_is_dropped_before_a_parent_is_reclaimed() -> None:
    bodies = [body(1, pin(PinKind.PAGE_CACHE, None)), body(2, pin(PinKind.PAGE_CACHE, pages=50))]
    choice = choose(bodies, frozenset({b"/a"}), {}, 0.0, 50)
    assert [order.lever for order in choice.orders] == [Remedy.DROP_FILE]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40), st.integers(1, 2000))
def test_the_pages_of_a_pass_are_bounded(sizes: list[int], most: int) -> None:
    """One order is always taken: a budget that fits nothing would stand still for ever."""
    bodies = [body(number, pin(PinKind.PAGE_CACHE, b"/%d" % number, pages=size)) for number, size in enumerate(sizes)]
    orders = choose(bodies, frozenset(), {}, 0.0, most).orders
    assert orders
    assert len(orders) == 1 or sum(order.pages for order in orders) <= most


@given(
    st.lists(st.sampled_from([kind for kind in PinKind if kind not in (PinKind.PAGE_CACHE, PinKind.CHILD)]), min_size=1)
)
def test_nothing_but_page_cache_is_ever_touched(kinds: list[PinKind]) -> None:
    bodies = [body(number, CACHED, pin(kind)) for number, kind in enumerate(kinds)]
    assert choose(bodies, frozenset({b"/a"}), {}, 0.0, 10**6).orders == ()


def done(*serials: int, parent: bytes = b"/a") -> Evicted:
    return Evicted(EvictionOrder(Remedy.DROP_FILE, b"/f", parent, 1, frozenset(serials)), 1)


def test_a_parent_that_gives_nothing_rests_twice_as_long_each_time_and_is_tried_again() -> None:
    once = learn({}, [done(1)], frozenset({1}), now=100.0)
    assert once == {b"/a": Lesson(1, 100.0 + FIRST_REST_SECONDS)}
    twice = learn(once, [done(1)], frozenset({1}), now=200.0)
    assert twice == {b"/a": Lesson(2, 200.0 + 2 * FIRST_REST_SECONDS)}
    assert choose([body(1, CACHED)], frozenset(), twice, 201.0, 10).left == {RESTING: 1}
    assert choose([body(1, CACHED)], frozenset(), twice, 201.0 + 2 * FIRST_REST_SECONDS, 10).orders
    assert learn(twice, [done(1, 2)], frozenset({2}), now=300.0) == {}, "one that is gone is enough"


def test_freed_are_those_tried_that_are_gone() -> None:
    assert freed([done(1, 2), done(2, 3)], frozenset({3, 9})) == 2
    assert freed([], frozenset({1})) == 0


def health(at: float, refaults: int | None = 0, memory: float | None = 0.0, io: float | None = 0.0) -> Health:
    return Health(at, memory, io, refaults)


def test_pressure_is_no_moment_to_evict() -> None:
    budget = ReapBudget(memory_pressure=10, io_pressure=20)
    assert pressed(health(0), budget) is None
    assert "memory pressure 11.0 %" in (pressed(health(0, memory=11), budget) or "")
    assert "I/O pressure 21.0 %" in (pressed(health(0, io=21), budget) or "")
    assert pressed(health(0, memory=None, io=None), budget) is None


def test_harm_is_more_refaults_than_twice_the_usual_and_a_margin() -> None:
    budget = ReapBudget(refaults_per_second=100)
    assert refault_rate(health(0, 0), health(10, 5000)) == 500
    assert refault_rate(health(0, None), health(10, 5000)) is None
    assert refault_rate(health(5), health(5, 10)) is None
    assert usual_rate([]) is None
    assert usual_rate([9, 200, 1]) == 9
    assert harmed(500, 200, budget) is None
    assert "501" in (harmed(501, 200, budget) or "")
    assert harmed(101, None, budget) is not None
    assert harmed(None, 1, budget) is None


def test_the_wait_keeps_to_the_share_of_a_core_and_grows_where_there_is_nothing_to_do() -> None:
    budget = ReapBudget(core_share=0.005, interval_seconds=15)
    assert wait_seconds(0.01, 0, budget) == 15
    assert wait_seconds(1.0, 0, budget) == 200
    assert [wait_seconds(0.0, idle, budget) for idle in range(4)] == [15, 30, 60, 60]
