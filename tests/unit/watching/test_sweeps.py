# SPDX-License-Identifier: Apache-2.0
"""The agent's eye on those who read every cgroup's statistics."""

from __future__ import annotations

from zombiescope.facts.agent import Reading
from zombiescope.facts.gap import Gap
from zombiescope.host.recording import Answer, ReplayHost
from zombiescope.watching.sweeps import SweepsTeller

START = 1_700_000_000.0


def following(ticks: list[int], name: str = "kubelet") -> list[Reading]:
    """One look a second at a machine with one such process, whose kernel time is given."""
    answers = []
    for now, spent in enumerate(ticks):
        answers.append(Answer(now, "wall_clock", b"", START + now))
        answers.append(Answer(now, "subdirectories", b"/proc", ["7", "sys"]))
        answers.append(Answer(now, "read", b"/proc/7/stat", f"7 ({name}) S 1 0 0 0 0 0 0 0 0 0 3 {spent} 0 0"))
    host = ReplayHost("recorded", answers)
    probe, found = SweepsTeller(host), []
    for _ in ticks:
        reading = probe.read()
        assert isinstance(reading, Reading)
        found.append(reading)
        host.wait(1.0)
    probe.close()
    return found


def test_each_burst_is_an_event_at_its_beginning() -> None:
    events = [each for reading in following([0, 0, 60, 120, 120, 120]) for each in reading.happened]
    assert [(each.at, each.what, each.detail) for each in events] == [
        (START + 1, "stat-sweep", "kubelet: 1.2 s in the kernel")
    ]


def test_one_who_always_sweeps_does_not_fill_the_history() -> None:
    ticks = [50 * (second // 2) for second in range(160)]
    events = [each.detail for reading in following(ticks) for each in reading.happened]
    assert len(events) < 40
    assert any("not kept one by one" in each for each in events)


def test_programs_of_other_names_are_not_asked() -> None:
    assert not [each for reading in following([0, 90, 180, 180], "trainer") for each in reading.happened]


def test_no_proc_is_a_gap() -> None:
    assert isinstance(SweepsTeller(ReplayHost("recorded", [])).read(), Gap)
