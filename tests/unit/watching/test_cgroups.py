# SPDX-License-Identifier: Apache-2.0
"""On v1 the directories are counted once; what was made and removed since is added from the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
from tests.build import Cgroup, ScriptedHost, proc_cgroups, v1_machine, v2_machine

from zombiescope.agent.state import State
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import Census, CountSource, Look
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, Dead, EventTier, Lifecycle
from zombiescope.host.access import Host
from zombiescope.watching import cgroups
from zombiescope.watching.cgroups import Follower


class Told:
    """A ledger that says what the test wants."""

    tier = EventTier.BPF

    def __init__(self) -> None:
        self.said: tuple[int, int] | None = (0, 0)

    def moved(self) -> tuple[int, int] | None:
        return self.said

    def read(self) -> Lifecycle:
        return Lifecycle(EventTier.BPF, 0.0, Counts(), (), Counts(), 0)

    def catch_up(self) -> float:
        return 1.0

    def dead(self) -> Iterator[Dead]:
        return iter(())

    def close(self) -> None:
        """Holds nothing."""


class Followed:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.walks, self.births_while_walking, self.ledger = 0, 0, Told()
        machine = v1_machine({b"/a": Cgroup(zombies=3), b"/b": Cgroup()})
        self.host = ScriptedHost(machine, after_walk=self._walked)
        monkeypatch.setattr(cgroups, "open_ledger", lambda *_: self.ledger)
        self.follower = Follower(cast("Host", self.host))

    def _walked(self, _: ScriptedHost) -> None:
        self.walks += 1
        if self.births_while_walking:
            self.ledger.said = (self.births_while_walking, 0)

    def looks(self) -> Look | Gap:
        return self.follower.tick().look


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Followed:
    return Followed(monkeypatch)


def test_a_tree_that_did_not_move_is_counted_once_and_its_zombies_every_time(followed: Followed) -> None:
    assert followed.looks() == Look(6, 3)
    followed.host.change({b"/proc/cgroups": proc_cgroups(5)})
    assert followed.looks() == Look(5, 3), "one was released, which moves no directory"
    followed.host.change({b"/proc/cgroups": proc_cgroups(2)})
    assert followed.looks() == Look(3, 3), "never fewer than there are directories"
    assert followed.walks == 1


def test_births_and_deaths_since_are_added_without_counting_again(followed: Followed) -> None:
    followed.looks()
    followed.ledger.said = (5, 3)
    followed.host.change({b"/proc/cgroups": proc_cgroups(11)})
    assert followed.looks() == Look(11, 5)
    assert followed.walks == 1


def test_a_count_during_which_some_came_is_not_built_upon(followed: Followed) -> None:
    followed.births_while_walking = 1
    followed.looks()
    followed.births_while_walking = 0
    followed.looks()
    followed.looks()
    assert followed.walks == 2


def test_it_is_counted_all_the_same_now_and_then_and_where_nobody_knows(followed: Followed) -> None:
    for _ in range(32):
        followed.looks()
    assert followed.walks == 2
    followed.ledger.said = None
    for _ in range(3):
        followed.looks()
    assert followed.walks == 5


def test_what_cannot_be_read_is_a_gap_and_is_counted_anew(followed: Followed) -> None:
    followed.looks()
    followed.host.change({b"/proc/cgroups": 13})
    assert isinstance(followed.looks(), Gap)
    followed.host.change({b"/proc/cgroups": proc_cgroups(6)})
    assert followed.looks() == Look(6, 3)
    assert followed.walks == 2


def test_a_look_tells_where_its_numbers_came_from(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {followed.follower.tick().source for _ in range(2)} == {CountSource.PROC_CGROUPS}
    for per_controller, source in (
        (True, CountSource.CGROUP_STAT_SUBSYS),
        (False, CountSource.CGROUP_STAT_DESCENDANTS),
    ):
        host = ScriptedHost(v2_machine({b"/a": Cgroup(zombies=3)}, per_controller=per_controller))
        follower = Follower(cast("Host", host))
        told = follower.tick()
        assert told.source is source
        state = State(follower, Thresholds(), "")
        state.take_tick(told)
        census = state.judge().moment.snapshot.census
        assert isinstance(census, Census)
        assert census.source is source
        host.change({b"/sys/fs/cgroup/cgroup.stat": None})
        assert follower.tick().source is None
