# SPDX-License-Identifier: Apache-2.0
"""Births, deaths and releases of a window by maker; what a recording kept, and what a stranger made of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build import V1, ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, FlowsSeen, MakerFlow
from zombiescope.watching.cgroups import FlowsWatch, _released


class Replayed(ScriptedHost):
    outcome: Any = None

    def experiment(self, name: str, work: object) -> dict[str, Any] | None:
        del name, work
        outcome: dict[str, Any] | None = self.outcome
        return outcome


def seen(outcome: Any) -> FlowsSeen | Gap:
    host = Replayed({}, is_live=False)
    host.outcome = outcome
    watch = FlowsWatch(host, V1)
    watch.look()
    return watch.seen()


def test_a_recording_gives_them_back() -> None:
    rows = [["unit:a.service", 3, 3, 1], ["pod:x", 1, 0, None]]
    found = seen({"at": 5.0, "seconds": 10.0, "tier": "bpf", "makers": rows, "lost": 0})
    assert isinstance(found, FlowsSeen)
    assert found.makers == (MakerFlow("unit:a.service", 3, 3, 1), MakerFlow("pod:x", 1, 0, None))
    assert [flow.left for flow in found.makers] == [2, None]


@pytest.mark.parametrize("outcome", [None, {}, {"makers": 7}, {"gap": ["flows", "no", ""]}])
def test_what_was_not_kept_or_is_garbled_is_a_gap(outcome: Any) -> None:
    assert isinstance(seen(outcome), Gap)


def test_who_died_after_the_window_does_not_count_as_released_in_it() -> None:
    assert _released(Counts(9, 9, 4), Counts(9, 9, 9)) == 9
    assert _released(Counts(9, 9, 4), Counts(12, 12, 7)) == 4
    assert _released(Counts(9, 9, 4), Counts(12, 12, 9)) == 6
