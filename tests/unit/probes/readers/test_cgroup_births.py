# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.build import V1, Cgroup, ScriptedHost, v1_machine

from zombiescope.facts.gap import Gap
from zombiescope.host.access import DirectoryWalk
from zombiescope.probes.readers.cgroup_lifecycle import BirthsWatch, read_cgroup_births


class SlowWalks(ScriptedHost):
    """Each walk of the directories takes the next of these times."""

    takes = [2.0, 0.5, 0.01, 3.0]  # noqa: RUF012 (no field)
    spent = 0.0
    walks = 0

    def directories(self, path: bytes) -> DirectoryWalk:
        self.spent += self.takes[self.walks]
        self.walks += 1
        return super().directories(path)

    def monotonic(self) -> float:
        return super().monotonic() + self.spent


def test_one_look_that_waited_for_its_turn_does_not_make_all_others_rare() -> None:
    host = SlowWalks(v1_machine({b"/a": Cgroup()}))
    watch = BirthsWatch(host, V1)
    pauses = [watch.pause]
    for _ in range(3):
        watch.look()
        pauses.append(watch.pause)
    assert [round(pause, 6) for pause in pauses] == [20.0, 5.0, 0.25, 0.25]
    assert not watch.births


class Unmounted(ScriptedHost):
    """The cgroups can be listed so many times and then no more."""

    left = 0

    def directories(self, path: bytes) -> DirectoryWalk:
        if self.left == 0:
            raise FileNotFoundError(2, "No such file or directory", path)
        self.left -= 1
        return super().directories(path)


def test_cgroups_that_cannot_be_listed_are_a_gap() -> None:
    births = read_cgroup_births(Unmounted(v1_machine({b"/a": Cgroup()})), V1, 1.0)
    assert isinstance(births, Gap)
    assert births.fact == "units[].births"
    assert "no such file or directory" in births.reason


def test_a_look_that_fails_later_ends_nothing() -> None:
    host = Unmounted(v1_machine({b"/a": Cgroup()}))
    host.left = 1
    assert read_cgroup_births(host, V1, 1.0) == {}
