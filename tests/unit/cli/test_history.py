# SPDX-License-Identifier: Apache-2.0
"""`zombiescope history` over stores made here: text, JSON, CSV, any moment, and a scan that takes its growth from one."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path

import pytest
from tests.nobody import as_nobody

from zombiescope.analysis.growth import Growth
from zombiescope.analysis.recall import derive_recall, points_of
from zombiescope.cli.main import main
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Sample
from zombiescope.history.chunks import Chunks
from zombiescope.history.store import DATABASE, Store
from zombiescope.host.live import LiveHost
from zombiescope.pipeline.check import _remembered
from zombiescope.pipeline.recall import recall, recent_from_history
from zombiescope.pipeline.scan import growth_of
from zombiescope.presenters.document import null_fields
from zombiescope.presenters.history_text import growth_sentence, sparkline

Capture = pytest.CaptureFixture[str]
DAY = 86400.0


def leak(folder: Path, start: float, *, boots: int = 1, boot: str = "boot") -> None:
    """Two samples an hour for nine days a boot; 10,000 after a week. The last hour is in the log."""
    samples: list[Sample] = []
    for number in range(boots):
        name = f"{boot}-{number}" if boots > 1 else boot
        for n in range(432):
            values = {"counted": 30.0 * n + 12, "live": 12.0, "zombies": 30.0 * n, "maker.unit:bad.service": 30.0 * n}
            samples.append(Sample(len(samples) + 1, start + number * 10 * DAY + n * 1800, name, values))
    folder.mkdir(exist_ok=True)
    chunks = Chunks(str(folder / DATABASE))
    chunks.fold(samples[:-2], (), len(samples) - 2)
    chunks.close()
    store = Store(str(folder), days=365)
    for last in samples[-2:]:
        store.add_sample(last.at, last.boot, dict(last.values))
    for number in range(boots):
        store.add_happening(start + number * 10 * DAY, f"{boot}-{number}", "agent-began", "events by bpf")
    store.close()


def test_the_story_of_three_boots(tmp_path: Path, capsys: Capture) -> None:
    leak(tmp_path, 1.7e9, boots=3)
    assert main(["history", "--state", str(tmp_path), "--last", "all"]) == 0
    said = capsys.readouterr().out
    assert "60.0 more per hour" in said
    assert "most by unit:bad.service" in said
    assert "each of the last 3 boots 10,000 was reached in 6.9 days\n" in said
    assert "1,000 more in 16.7 h" in said
    assert "nobody watched" in said
    assert "agent began: events by bpf" in said
    maker = next(line for line in said.splitlines() if line.endswith("  unit:bad.service"))
    assert maker.split()[1:5] == ["0", "12,930", "0", "12,930"], "whole, beside its figures"


def test_names_are_whole_and_spans_of_time_are_told_as_such(tmp_path: Path, capsys: Capture) -> None:
    store, maker = Store(str(tmp_path)), "path:/" + "very-long-name/" * 8 + "*"
    for number in range(5):
        values = {
            "zombies": 5.0 + number,
            "softirq_wait_seconds": 0.0,
            "lifetime_seconds": 64e-6,
            f"maker.{maker}": 3.0,
        }
        store.add_sample(1.7e9 + number * 60, "b", {**values, "maker.unit:gone.service": 0.0, "uptime": 9.0})
    store.close()
    assert main(["history", "--state", str(tmp_path), "--last", "all"]) == 0
    said = capsys.readouterr().out
    assert maker in "".join(said.split()), "folded into several lines, not cut"
    assert "64 us" in said and "softirq wait " in said and "…" not in said
    assert "gone.service" not in said and "uptime" not in said
    assert main(["history", "--state", str(tmp_path), "--last", "all", "--at", "2023-11-14T22:15"]) == 0
    said = capsys.readouterr().out
    assert "as it was at 2023-11-14 22:14:20 UTC" in said
    assert "64 us  lifetime\n" in said and "0  zombies left by unit:gone.service" in said
    assert main(["history", "--state", str(tmp_path), "--last", "all", "--at", "1s"]) == 0
    assert "as it was at 2023-11-14 22:17:20 UTC" in capsys.readouterr().out, "so long ago: the last there is"


def test_growth_is_forecast_to_the_configured_thresholds(tmp_path: Path) -> None:
    leak(tmp_path, 1.7e9)
    limits = Thresholds()._replace(zombies_critical=20_000)
    found = recall(LiveHost(), bytes(tmp_path), None, None, limits).recall
    assert found is not None and found.growth is not None
    assert {each.what: each.mark for each in found.growth.forecasts}["critical"] == 20_000


def test_the_same_as_json_with_a_gap_for_every_null(tmp_path: Path, capsys: Capture) -> None:
    leak(tmp_path, 1.7e9, boots=2)
    assert main(["history", "--state", str(tmp_path), "--last", "all", "--at", "2023-11-15T12:00", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "zombiescope.history/1"
    assert found["moment"]["values"]["live"] == 12
    assert {gap["fact"] for gap in found["gaps"]} >= set(null_fields(found))
    assert main(["history", "--state", str(tmp_path), "--last", "all", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["growth"]["onset"]["threshold"] == 10_000
    assert found["growth"]["makers"][0]["maker"] == "unit:bad.service"
    assert {gap["fact"] for gap in found["gaps"]} >= set(null_fields(found))


def test_csv_has_a_line_a_sample_and_an_empty_cell_for_what_is_missing(tmp_path: Path, capsys: Capture) -> None:
    store = Store(str(tmp_path))
    store.add_sample(1.7e9, "b", {"zombies": 1.0})
    store.add_sample(1.7e9 + 10, "b", {"zombies": 2.0, "maker.path:/a,=b": 1.5})
    store.close()
    assert main(["history", "--state", str(tmp_path), "--last", "all", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["zombies"] for row in rows] == ["1", "2"]
    assert [row["maker.path:/a,=b"] for row in rows] == ["", "1.5"]


@pytest.mark.parametrize("arguments", [["--last", "yesterday"], ["--at", "noon"], ["--csv", "--json"]])
def test_mistakes_are_usage_errors(tmp_path: Path, arguments: list[str], capsys: Capture) -> None:
    assert main(["history", "--state", str(tmp_path), *arguments]) == 2
    assert "error: " in capsys.readouterr().err


def test_no_history_is_said(tmp_path: Path, capsys: Capture) -> None:
    assert main(["history", "--state", str(tmp_path)]) == 3
    assert "no history" in capsys.readouterr().err
    leak(tmp_path, 1.7e9)
    assert main(["history", "--state", str(tmp_path), "--last", "1s"]) == 0
    assert "nothing is remembered" in capsys.readouterr().out


def test_a_scan_takes_its_growth_from_a_recent_history_of_this_boot(tmp_path: Path) -> None:
    host = LiveHost()
    assert recent_from_history(host, bytes(tmp_path / "none")) is None
    assert recent_from_history(host, bytes(tmp_path)) is None
    boot = host.read(b"/proc/sys/kernel/random/boot_id").strip().decode()
    leak(tmp_path / "old", host.wall_clock() - 20 * DAY, boot=boot)
    stale = recent_from_history(host, bytes(tmp_path / "old"))
    assert stale is not None
    assert isinstance(stale.growth, Gap)
    assert "no recent samples" in stale.growth.reason
    leak(tmp_path / "new", host.wall_clock() - 431 * 1800, boot=boot)
    recent = recent_from_history(host, bytes(tmp_path / "new"))
    assert recent is not None
    growth = recent.growth
    assert isinstance(growth, Growth)
    assert growth.total is not None
    assert growth.total.slope.per_second * 3600 == pytest.approx(60)


def test_a_history_that_may_not_be_read_is_a_gap_and_not_no_history() -> None:
    host = LiveHost()
    with tempfile.TemporaryDirectory() as place:
        state = Path(place) / "state"
        leak(state, host.wall_clock() - 431 * 1800)
        Path(place).chmod(0o755)
        for name in ("history.log", "history.db"):
            (state / name).chmod(0o600)
        for mode, words in ((0o700, "permission denied"), (0o755, "history.log: permission denied")):
            state.chmod(mode)
            code, text, _ = as_nobody(lambda: told([growth_of(host, bytes(state)), _remembered(host, bytes(state))]))
            assert code == 0
            for fact, reason, hint in json.loads(text):
                assert fact == "growth"
                assert words in reason
                assert hint.startswith("run as")
            code, _, said = as_nobody(lambda: main(["history", "--state", str(state)]))
            assert "there is no history" not in said
            assert code == (3 if mode == 0o700 else 0)


def told(what: object) -> int:
    print(json.dumps(what))
    return 0


def test_sparklines_and_sentences() -> None:
    assert sparkline([]) == ""
    assert sparkline([(0.0, 5.0)], 4) == "▁   "
    assert sparkline([(0.0, 0.0), (50.0, 1.0), (100.0, 2.0)], 3) == "▁▅█"
    assert "too little" in growth_sentence(None)


def two_makers(folder: Path, *, restart: bool = False) -> None:
    """One leaks evenly, 21 in all; the other left 159 at once, late. With `restart`, the agent
    began again and knows no maker yet."""
    store = Store(str(folder))
    for number in range(120):
        small, large = number * 21 // 119, 159 if number >= 80 else 0
        values = {"zombies": 50.0 + small + large, "maker.unit:even.service": float(small)}
        values |= {"maker.unit:sudden.service": float(large)} if large else {}
        if restart and number >= 112:
            values = {"zombies": values["zombies"]}
        store.add_sample(1.7e9 + number * 60, "b", values)
    store.close()


@pytest.mark.parametrize("restart", [False, True])
def test_no_maker_is_named_over_one_that_left_more(tmp_path: Path, capsys: Capture, restart: bool) -> None:
    two_makers(tmp_path, restart=restart)
    assert main(["history", "--state", str(tmp_path), "--last", "all", "--at", "2023-11-15T00:13"]) == 0
    said = capsys.readouterr().out
    sentence = said.splitlines()[0]
    assert "sudden.service" in sentence, "159 of 180 are its own"
    assert "most by unit:even" not in sentence
    if not restart:
        lines = [line for line in said.splitlines() if "left by" in line]
        assert [line.split()[0] for line in lines] == ["159", "21"], "most first"


def test_an_agent_that_has_just_begun_does_not_turn_makers_to_nought() -> None:
    told = [Sample(n, n * 60.0, "b", {"zombies": 9.0 + n, "maker.unit:a.service": 9.0 + n}) for n in range(30)]
    begun = [Sample(n, n * 60.0, "b", {"zombies": 9.0 + n}) for n in range(30, 36)]
    whole, cut = (derive_recall(samples, []) for samples in (told, [*told, *begun]))
    assert whole and cut and whole.growth and cut.growth
    assert [trend.maker for trend in cut.growth.makers] == [trend.maker for trend in whole.growth.makers]
    none = Sample(1, 0.0, "b", {"zombies": 0.0})
    assert points_of([none], "maker.unit:a.service", 0.0) == [(0.0, 0.0)], "no zombies: nobody has any"
