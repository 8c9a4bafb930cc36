# SPDX-License-Identifier: Apache-2.0
"""A range of the history: every sample or its slots, the same numbers either way, also from a store of an earlier version."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.history import Happening, Sample
from zombiescope.history.chunks import Chunks
from zombiescope.history.log import AppendLog
from zombiescope.history.reader import Ranges
from zombiescope.history.summaries import pack_summary, unpack_summary
from zombiescope.pipeline import page_events, page_time

HOUR = 3600.0
BEGIN = 470_000 * HOUR
STRANGE = "a_series_that_a_later_version_keeps"


@pytest.fixture
def folder(tmp_path: Path) -> bytes:
    """Three hours in chunks and half an hour in the log, with a pause, resets and a stretch."""
    chunks = Chunks(str(tmp_path / "history.db"))
    number = 0
    for hour in range(3):
        samples = []
        for second in range(0, 3600, 10):
            number += 1
            at = BEGIN + hour * HOUR + second
            if hour == 1 and 1200 <= second < 2400:
                continue
            samples.append(Sample(number, at, "boot", values(at)))
        number += 1
        events = [Happening(number, BEGIN + hour * HOUR + 5, "boot", "core-saturated", "core 1: 5.0 s, 99% system")]
        chunks.fold(samples, events, number)
    chunks.close()
    log = AppendLog(str(tmp_path / "history.log"))
    late = [Sample(number + 1 + n, at := BEGIN + 3 * HOUR + 10 * n, "boot", values(at)) for n in range(180)]
    log.append([*late, Happening(number + 500, BEGIN + 3 * HOUR + 60, "boot", "nic-reset", "eth0")])
    log.close()
    return os.fsencode(tmp_path)


def values(at: float) -> dict[str, float]:
    return {"zombies": (at - BEGIN) / 10, "deaths": (at - BEGIN) * 2, STRANGE: 1.5, "core.0": 3.0, "core.1": 97.0}


def asked(folder: bytes, begin: float, end: float, points: int, names: str = "zombies,deaths") -> dict[str, object]:
    query = {"from": str(BEGIN + begin), "to": str(BEGIN + end), "points": str(points), "series": names}
    return page_time.range_of(folder, query)


def test_a_summary_is_what_was_packed_and_nothing_else_is_read() -> None:
    packed = pack_summary([BEGIN, BEGIN + 299, BEGIN + 301], {7: [1.0, 5.0, None]})
    slots = unpack_summary(packed)
    assert (slots.low[7][0], slots.high[7][0]) == (1.0, 5.0)
    assert slots.low[7][1] != slots.low[7][1], "not a number"
    for wrong in (b"", packed[:-3], b"\xff" * 40, packed[:4] + b"y" + packed[5:]):
        with pytest.raises(ValueError, match=r".*"):
            unpack_summary(wrong)


@pytest.mark.parametrize("is_old", [False, True])
def test_slots_and_samples_tell_the_same(folder: bytes, is_old: bool) -> None:
    if is_old:
        with sqlite3.connect(os.path.join(os.fsdecode(folder), "history.db")) as database:
            database.execute("DROP TABLE summary")
    coarse = asked(folder, 0, 3 * HOUR + 1800, 42)
    fine = asked(folder, 0, 3 * HOUR + 1800, 420)
    assert (coarse["step"], coarse["raw"], fine["raw"]) == (300.0, False, False)
    wide, narrow = coarse["series"], fine["series"]
    assert isinstance(wide, dict)
    assert isinstance(narrow, dict)
    for number in range(42):
        inside = [each for each in narrow["zombies"]["high"][10 * number : 10 * (number + 1)] if each is not None]
        assert wide["zombies"]["high"][number] == (max(inside) if inside else None)
    rates = [rate for rate in wide["deaths"]["value"] if rate is not None]
    assert rates == pytest.approx([2.0] * len(rates))
    assert {None} == set(wide["zombies"]["high"][16:20]), "nobody watched"
    assert [each["why"] for each in fine["pauses"]] == ["the agent was not running"]  # type: ignore[attr-defined]


def test_zoomed_in_every_sample_is_there_with_a_hole_where_nobody_watched(folder: bytes) -> None:
    found = asked(folder, HOUR + 1150, HOUR + 2450, 600)
    assert found["raw"] is True
    row = found["series"]["zombies"]  # type: ignore[index]
    assert row["value"].count(None) == 1
    assert row["at"][0] >= BEGIN + HOUR + 1150
    rates = [each for each in found["series"]["deaths"]["value"] if each is not None]  # type: ignore[index]
    assert rates == pytest.approx([2.0] * len(rates))


def test_a_series_that_nobody_declared_has_a_lane_of_its_own(folder: bytes) -> None:
    found = page_time.series(folder, Thresholds())
    by_name = {each["name"]: each for each in found["series"]}
    assert by_name[STRANGE]["lane"] == STRANGE
    assert by_name[STRANGE]["default"] is True
    assert by_name["zombies"]["limits"][1]["value"] == 10_000
    assert [lane["id"] for lane in found["lanes"]][-1] == STRANGE
    usual = asked(folder, 0, HOUR, 10, "")
    assert STRANGE in usual["series"]  # type: ignore[operator]


def test_events_cores_and_two_ranges_side_by_side(folder: bytes) -> None:
    query = {"from": str(BEGIN), "to": str(BEGIN + 4 * HOUR)}
    lanes = {lane["id"]: lane for lane in page_events.events(folder, query)["lanes"]}
    assert (lanes["core-saturated"]["count"], lanes["nic-reset"]["count"], lanes["unit-restarted"]["count"]) == (
        3,
        1,
        0,
    )
    cores = page_time.cores(folder, query)
    assert [row["core"] for row in cores["cores"]] == [1, 0], "the worst first"
    assert (cores["cores"][0]["saturated_seconds"], len(cores["stretches"])) == (15.0, 3)
    two = {"a": f"{BEGIN + 2 * HOUR}..{BEGIN + 3 * HOUR}", "b": f"{BEGIN}..{BEGIN + HOUR}"}
    rows = {row["name"]: row for row in page_events.compare(folder, two)["rows"]}
    assert rows["zombies"]["a"]["last"] > rows["zombies"]["b"]["last"]
    assert rows["deaths"]["a"]["mean"] == pytest.approx(2.0)
    unknown = {"a": f"{BEGIN + 2 * HOUR}..{BEGIN + 3 * HOUR}", "b": "1..1000"}
    assert {row["b"] for row in page_events.compare(folder, unknown)["rows"] if row["name"] == "zombies"} == {None}


def test_what_follows_what_is_tested_against_chance(folder: bytes) -> None:
    found = page_events.follows(folder, {"from": str(BEGIN), "to": str(BEGIN + 4 * HOUR)})
    assert [row["effect"] for row in found["rows"]] == ["nic reset"]
    assert found["rows"][0]["is_telling"] is False
    assert "prove nothing" in found["rows"][0]["words"]


def test_questions_that_make_no_sense_and_folders_without_a_history(folder: bytes, tmp_path: Path) -> None:
    for query in ({"from": "a"}, {"from": "5", "to": "1"}, {"to": "1e300"}, {"from": "nan", "to": "1"}):
        with pytest.raises(UsageError):
            page_time.range_of(folder, query)
    with pytest.raises(ObservationError):
        Ranges(os.fsencode(tmp_path / "none"))
    assert len(asked(folder, 0, HOUR, 10**9)["series"]["zombies"]["at"]) <= 2_000  # type: ignore[index]


def test_damaged_hours_are_left_out_and_said(folder: bytes) -> None:
    with sqlite3.connect(os.path.join(os.fsdecode(folder), "history.db")) as database:
        database.execute("UPDATE summary SET data = x'00' WHERE first = (SELECT min(first) FROM summary)")
    found = asked(folder, 0, 3 * HOUR, 36)
    assert "damaged" in found["gaps"][0]["reason"]  # type: ignore[index]
    assert found["series"]["zombies"]["high"][0] is None  # type: ignore[index]


def test_a_finding_is_a_stretch_for_as_long_as_it_is_there_and_so_severe(tmp_path: Path) -> None:
    told = [
        (0.0, "agent-began", ""), (100.0, "finding-present", "zombie-population: 1,500"),
        (101.0, "finding-severity", "zombie-population: warning"), (500.0, "finding-severity", "zombie-population: critical"),
        (800.0, "finding-gone", "zombie-population"), (900.0, "finding-present", "nic-reset: once"), (1000.0, "agent-ended", ""),
    ]  # fmt: skip
    log = AppendLog(str(tmp_path / "history.log"))
    log.append([Happening(number, BEGIN + at, "boot", what, words) for number, (at, what, words) in enumerate(told, 1)])
    log.close()
    query = {"from": str(BEGIN), "to": str(BEGIN + HOUR)}
    lanes = page_events.events(os.fsencode(tmp_path), query)["lanes"]
    rows = [(row["id"], row["severity"], row["from"] - BEGIN, row["to"] - BEGIN) for row in lanes[0]["rows"]]
    assert rows == [
        ("zombie-population", "warning", 100.0, 500.0), ("zombie-population", "critical", 500.0, 800.0),
        ("nic-reset", None, 900.0, 1000.0),
    ]  # fmt: skip
    assert "finding-severity" not in [lane["id"] for lane in lanes]
