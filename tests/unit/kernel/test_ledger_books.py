# SPDX-License-Identifier: Apache-2.0
"""The books of the BPF ledger add up whenever events happen: before the switch of sides, after it, or half counted across it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zombiescope.facts.lifecycle import Counts, Flow
from zombiescope.kernel.ledgers import Books, sum_of

COUNTS = st.builds(Counts, *(st.integers(0, 5),) * 3)


class Kernel:
    """Two sides and a total, as ledger.bpf.c keeps them."""

    def __init__(self) -> None:
        self.total, self.side = Counts(), 0
        self.sides = [Counts(), Counts()]

    def count(self, events: Counts, side: int | None = None) -> None:
        self.total = self.total.plus(events)
        self.book(events, self.side if side is None else side)

    def book(self, events: Counts, side: int) -> None:
        self.sides[side] = self.sides[side].plus(events)

    def read(self, books: Books, between: Counts, halfway: Counts, gone: Counts) -> None:
        """`halfway`: in the total before the switch, in a flow after it; `gone`: in the total and in no flow."""
        self.total = self.total.plus(halfway).plus(gone)
        before, emptied = self.total, self.side
        self.side = 1 - self.side
        self.book(halfway, self.side)
        self.count(between)
        booked, self.sides[emptied] = self.sides[emptied], Counts()
        books.take(before, booked)


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS), max_size=8))
def test_nothing_is_called_lost_that_is_only_late_and_two_quiet_readings_book_everything(
    rounds: list[tuple[Counts, Counts, Counts]],
) -> None:
    kernel, books = Kernel(), Books()
    for early, between, halfway in rounds:
        kernel.count(early)
        kernel.read(books, between, halfway, Counts())
        assert all(there <= counted for there, counted in zip(books.total, kernel.total, strict=True))
    for _ in range(2):
        kernel.read(books, Counts(), Counts(), Counts())
    assert books.total == kernel.total
    assert books.lost == 0


@given(COUNTS, COUNTS)
def test_what_is_in_no_flow_is_lost_by_the_end_of_the_next_reading(gone: Counts, later: Counts) -> None:
    kernel, books = Kernel(), Books()
    kernel.read(books, later, Counts(), gone)
    kernel.read(books, Counts(), Counts(), Counts())
    kernel.count(later)
    kernel.read(books, Counts(), Counts(), Counts())
    kernel.read(books, Counts(), Counts(), Counts())
    assert books.lost == sum(gone)
    assert books.total == kernel.total.less(gone)


def test_flows_and_what_found_no_room_are_one_sum() -> None:
    flows = [Flow(b"/a", Counts(1, 2, 3)), Flow(b"/b", Counts(10, 20, 30))]
    assert sum_of(Counts(100, 0, 1), flows) == Counts(111, 22, 34)
