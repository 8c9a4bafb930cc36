# SPDX-License-Identifier: Apache-2.0
"""What is wrong is said once, shown while it lasts, and let go."""

from __future__ import annotations

from zombiescope.agent.probing import REMEMBERED_SECONDS, Troubles
from zombiescope.facts.gap import Gap


def test_a_trouble_that_lasts_is_said_once_and_its_end_too() -> None:
    shown: dict[str, Gap | None] = {}
    troubles = Troubles(shown.__setitem__, shown.__delitem__)
    assert troubles.lasts("history", None) is None
    assert troubles.lasts("history", Gap("history", "full")) == "history: full; the agent keeps observing"
    assert troubles.lasts("history", Gap("history", "full")) is None
    assert shown == {"history": Gap("history", "full")}
    assert troubles.lasts("history", Gap("history", "read-only")) is not None
    assert troubles.lasts("history", None) == "history: it works again"
    assert shown == {"history": None}


def test_what_happened_once_is_shown_for_an_hour() -> None:
    shown: dict[str, Gap | None] = {}
    troubles = Troubles(shown.__setitem__, shown.__delitem__)
    troubles.happened("clock", "it jumped", 10.0)
    troubles.let_go(10.0 + REMEMBERED_SECONDS - 1)
    assert shown == {"clock": Gap("clock", "it jumped")}
    troubles.let_go(10.0 + REMEMBERED_SECONDS)
    assert shown == {}


def test_a_clock_that_jumps_and_one_that_drifts() -> None:
    troubles = Troubles(lambda *_: None, lambda _: None)
    assert troubles.jump(1000.0, 0.0) is None
    assert troubles.jump(1011.0, 10.0) is None
    assert troubles.jump(1021.0 - 7200, 20.0) == "the wall clock went back by 7,200 s"
    assert troubles.jump(1031.0 - 7200, 30.0) is None
    assert troubles.jump(1041.0, 40.0) == "the wall clock went forward by 7,200 s"
