# SPDX-License-Identifier: Apache-2.0
"""The doctor's window: a watch that fails at any time is a gap, and the others go on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.build import ScriptedHost, case, snapshot

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.units import RealTimeSeen
from zombiescope.watching.cores import LOOKS_PER_SECOND
from zombiescope.watching.services import Live
from zombiescope.watching.window import Scene, Window, let_pass, subject

NOWHERE = Gap("memcg.hierarchy", "none")


class Fragile:
    """What it saw is the number of its looks."""

    def __init__(self, breaks: str, error: Exception) -> None:
        self._breaks, self._error = breaks, error
        self.looks = 0
        self.is_closed = False
        self._may_break("open")

    def _may_break(self, where: str) -> None:
        if where == self._breaks:
            raise self._error

    def look(self) -> None:
        self.looks += 1
        self._may_break("look")

    def seen(self) -> RealTimeSeen:
        self._may_break("seen")
        return RealTimeSeen(0.0, float(self.looks), ())

    def close(self) -> None:
        self.is_closed = True
        self._may_break("close")


def nobody(_: Live) -> tuple[object, object]:
    raise AssertionError("no services are watched")


def _opened(opening: Callable[[], Fragile], _: Scene) -> Fragile:
    return opening()


def passed(*openings: Callable[[], Fragile], every: int = 1) -> list[RealTimeSeen | Gap]:
    """What each of them tells after a second."""
    host = ScriptedHost({})
    rows = [
        subject(str(number), partial(_opened, opening), lambda case, seen: case._replace(real_time=seen), every)
        for number, opening in enumerate(openings)
    ]
    window = Window(Scene(host, NOWHERE, 0.0, nobody), rows)  # type: ignore[arg-type]
    told: list[float] = []
    window.look()
    let_pass(host, 1.0, window.look, told.append)
    assert told[-1] == 1.0
    return [watch.fill(case(snapshot())).real_time for watch in window.watched]


@pytest.mark.parametrize("breaks", ["open", "look", "seen"])
@pytest.mark.parametrize(
    "error", [OSError(13, "Permission denied"), ObservationError("x", "permission denied", "root")]
)
def test_one_that_fails_takes_nobody_along(breaks: str, error: Exception) -> None:
    broken, whole = passed(lambda: Fragile(breaks, error), lambda: Fragile("", error))
    assert whole == RealTimeSeen(0.0, 11.0, ()), "one look before, ten in the second"
    assert isinstance(broken, Gap)
    assert (broken.fact, broken.reason) == ("0", "permission denied")


def test_each_is_closed_and_what_it_saw_remains_where_that_fails() -> None:
    made: list[Fragile] = []

    def opening() -> Fragile:
        made.append(Fragile("close", OSError(5, "refused")))
        return made[-1]

    (seen,) = passed(opening, every=LOOKS_PER_SECOND)
    assert seen == RealTimeSeen(0.0, 2.0, ()), "the first look and the one a second later"
    assert made[0].is_closed
