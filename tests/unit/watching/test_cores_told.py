# SPDX-License-Identifier: Apache-2.0
"""What the agent knows of the cores at one look a second: counters, the finding's facts, events."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.build import case, snapshot
from tests.unit.watching.test_cores import START, stat

from zombiescope.facts.agent import Reading
from zombiescope.facts.cores import CoresSeen
from zombiescope.facts.gap import Gap
from zombiescope.host.recording import Answer, ReplayHost
from zombiescope.watching import cores
from zombiescope.watching.cores import CoresTeller


class Moment(NamedTuple):
    reading: Reading
    cores: CoresSeen | Gap
    """As the findings are told."""


def following(busy: list[tuple[float, float]], seconds: int) -> list[Moment]:
    """Each second of a machine whose core 0 is in the kernel during those times."""
    answers = []
    for now in range(seconds + 1):
        spent = sum(min(max(now - begin, 0.0), end - begin) for begin, end in busy)
        answers.append(Answer(now, "wall_clock", b"", START + now))
        answers.append(Answer(now, "read", b"/proc/stat", stat(spent, now - spent)))
    host = ReplayHost("recorded", answers)
    teller, found = CoresTeller(host), []
    for _ in range(seconds + 1):
        found.append(Moment(teller.read(), teller.fill(case(snapshot())).cores))
        host.wait(1.0)
    teller.close()
    return found


def total(reading: Reading) -> float:
    return sum(sample.value for sample in reading.samples)


def test_a_stretch_is_counted_while_it_lasts_and_kept_when_it_is_over() -> None:
    moments = following([(3.4, 5.4)], 10)
    readings = [moment.reading for moment in moments]
    assert [sample.labels for sample in readings[0].samples] == [("system",), ("softirq",), ("irq",), ("steal",)]
    assert total(readings[3]) == 0
    assert total(readings[5]) == pytest.approx(1, abs=0.02)
    assert total(readings[-1]) == pytest.approx(2, abs=0.1), "the edges too, once they are known"
    assert readings[-1].remembered["saturated_seconds"] == total(readings[-1])
    assert readings[-1].remembered["core.0"] > readings[-1].remembered["core.1"] == 0.0
    (event,) = [each for reading in readings for each in reading.happened]
    assert (event.what, event.detail) == ("core-saturated", "core 0: 2.0 s, 100% system")
    assert event.at == pytest.approx(START + 3.4, abs=0.05)
    during, after = (moments[number].cores for number in (5, 10))
    assert isinstance(during, CoresSeen)
    assert isinstance(after, CoresSeen)
    assert [stretch.is_cut for stretch in during.stretches] == [True]
    assert [round(stretch.seconds, 1) for stretch in after.stretches] == [2.0]


def test_a_finding_looks_back_ten_minutes() -> None:
    seen = following([(3, 6)], 640)[-1].cores
    assert isinstance(seen, CoresSeen)
    assert seen.stretches == ()
    assert seen.seconds == 600


def test_a_machine_that_is_always_saturated_does_not_fill_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_MOST_EVENTS_A_MINUTE", 5)
    readings = [moment.reading for moment in following([(at, at + 1.0) for at in range(2, 300, 2)], 300)]
    events = [each.detail for reading in readings for each in reading.happened]
    assert 25 <= len(events) <= 5 * 6
    assert events.count("25 more stretches were not kept one by one") == 4
    assert total(readings[-1]) == pytest.approx(149, abs=1)


def test_no_file_is_a_gap_for_the_metric_and_for_the_finding() -> None:
    teller = CoresTeller(ReplayHost("nothing", []))
    reading = teller.read()
    assert reading.samples == ()
    assert isinstance(reading.gap, Gap)
    assert teller.fill(case(snapshot())).cores == reading.gap
