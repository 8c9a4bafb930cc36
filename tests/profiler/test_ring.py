# SPDX-License-Identifier: Apache-2.0
"""The ring of a recorder: its own segments, the newest always, what is worth keeping longest, never what somebody imported; what
it covers, and every hole with its reason, whatever a clock does."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.profiler.perf_files import TOOLS, small_capture

from zombiescope.cli.main import main
from zombiescope.history.store import Store
from zombiescope.profiler.files import store
from zombiescope.profiler.files.beside import RecorderJournal, add_reasons, read_notes, write_beside
from zombiescope.profiler.files.ring import Bounds, Now, cover, held, keep_ring, mark_of
from zombiescope.profiler.files.summing import Summing
from zombiescope.profiler.formats.capture_file import encode
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.stacks.about import Note, Reason
from zombiescope.profiler.stacks.capture import Clock
from zombiescope.web.captures import listed, marks

CAPTURE = import_perf(memoryview(bytearray(small_capture().pipe())), TOOLS, "test")
FIRST, LAST = int(CAPTURE.time[0]), int(CAPTURE.time[-1])
WALL = 1_700_000_000.0
LATER = Now(WALL, 1e6, "another boot")
EVER = Bounds(10**9, 1e12)


def put(
    folder: Path,
    name: str,
    mark: str,
    at: int,
    serial: int = 0,
    boot: str = "",
    *,
    begin: float | None = None,
    lost: int = 0,
) -> int:
    """`begin`: seconds on the steady clock of that boot; written at `at` by the wall."""
    capture = CAPTURE
    if begin is not None:
        moved = CAPTURE.time - CAPTURE.time[0] + round(begin * 1e9)
        capture = replace(capture, time=moved.astype(CAPTURE.time.dtype))
        clock = Clock(round(at * 1e9), int(capture.time[0]))
        capture = replace(capture, about=capture.about._replace(clock=clock))
    capture = replace(capture, about=capture.about._replace(ring=mark, serial=serial, boot=boot, lost=lost))
    path = store.save(os.fsencode(folder), name.encode(), encode(capture))
    os.utime(path, (at, at))
    return os.path.getsize(path)


def worth(folder: Path, name: str, kind: str = "finding") -> None:
    path = os.fsencode(folder / f"{name}.zscap")
    write_beside(path, Summing().summary_of(CAPTURE))
    assert add_reasons(path, [Reason(kind, WALL, "a test")])


def names(folder: Path) -> list[str]:
    return [entry.name for entry in store.entries(os.fsencode(folder))]


def test_the_newest_are_kept(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    mark = mark_of(folder, "")
    sizes = [put(tmp_path, f"part-{number}", mark, 1000 + number) for number in range(5)]
    assert len(keep_ring(folder, mark, EVER._replace(most_bytes=sum(sizes[-2:])), LATER)) == 3
    assert names(tmp_path) == ["part-3", "part-4"]
    keep_ring(folder, mark, EVER._replace(most_age_seconds=0), LATER)
    assert names(tmp_path) == ["part-4"]


def test_what_is_not_of_the_ring_stays(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    mark, beside = mark_of(folder, ""), mark_of(folder, "nic-reset")
    put(tmp_path, "imported", "", 1)
    put(tmp_path, "of-another-recorder", beside, 2)
    put(tmp_path, "copied-from-elsewhere", mark_of(folder + b"/elsewhere", ""), 3)
    put(tmp_path, "mine", mark, 4)
    put(tmp_path, "my-newest", mark, 5)
    (tmp_path / "damaged.zscap").write_bytes(b"nonsense")
    assert [one.path for one in keep_ring(folder, mark, Bounds(1, 0), LATER)] == [folder + b"/mine.zscap"]
    assert set(names(tmp_path)) == {
        "imported",
        "of-another-recorder",
        "copied-from-elsewhere",
        "my-newest",
        "damaged",
    }


def test_the_next_recorder_goes_on_with_the_ring(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "new")
    assert mark_of(folder, "a") == mark_of(folder, "a") != mark_of(folder, "b")
    (tmp_path / "new/.ring").write_bytes(b"x" * 1000)
    assert len(mark_of(folder, "")) == 17


def test_a_segment_that_is_imported_is_nobodys(tmp_path: Path) -> None:
    store_folder, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    mark = mark_of(os.fsencode(store_folder), "")
    put(elsewhere, "segment", mark, 1)
    words = ["profile", "import", str(elsewhere / "segment.zscap"), "--name", "kept", "--captures", str(store_folder)]
    assert main(words) == 0
    put(store_folder, "mine", mark, 5)
    keep_ring(os.fsencode(store_folder), mark, Bounds(1, 0), LATER)
    assert sorted(names(store_folder)) == ["kept", "mine"]


def test_what_is_worth_keeping_goes_last_the_least_of_it_first(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    mark = mark_of(folder, "")
    size = max(put(tmp_path, f"part-{number}", mark, 1000 + number, number + 1) for number in range(6))
    worth(tmp_path, "part-0", "saturated-core")
    worth(tmp_path, "part-1", "asked")
    whole = sum(one.size_bytes for one in held(folder))
    gone = keep_ring(folder, mark, EVER._replace(most_bytes=whole - size), LATER)
    assert [one.name for one in gone] == ["part-2"], "the oldest of what nobody would miss"
    two = sum(one.size_bytes for one in held(folder) if one.name in ("part-1", "part-5"))
    gone = keep_ring(folder, mark, EVER._replace(most_bytes=two), LATER)
    assert [one.name for one in gone] == ["part-0", "part-3", "part-4"], "also from the share of what is worth keeping"
    assert names(tmp_path) == ["part-1", "part-5"]
    assert not list(tmp_path.glob("part-0*")), "its summary goes with it"


def test_moments_worth_keeping_do_not_take_all_the_room(tmp_path: Path) -> None:
    """A sick machine calls everything worth keeping: what is new is kept, too."""
    folder = os.fsencode(tmp_path)
    mark = mark_of(folder, "")
    for number in range(12):
        put(tmp_path, f"part-{number:02}", mark, 1000 + number, number + 1)
        if number < 10:
            worth(tmp_path, f"part-{number:02}", "asked")
    whole = sum(one.size_bytes for one in held(folder))
    keep_ring(folder, mark, EVER._replace(most_bytes=whole), LATER)
    left = names(tmp_path)
    assert left[-2:] == ["part-10", "part-11"]
    assert len(left) == 10, "a quarter of the room is for the others"


def test_a_clock_that_is_set_forward_makes_nothing_old(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    mark = mark_of(folder, "")
    for number in range(3):
        put(tmp_path, f"part-{number}", mark, int(WALL) + number, number + 1, "boot", begin=100.0 + number)
    put(tmp_path, "of-another-boot", mark, int(WALL) - 50, 0, "earlier", begin=100.0)
    bounds = EVER._replace(most_age_seconds=86_400)
    year = Now(WALL + 365 * 86_400, 200.0, "boot", is_wall_steady=False)
    assert keep_ring(folder, mark, bounds, year) == []
    gone = keep_ring(folder, mark, bounds, year._replace(is_wall_steady=True))
    assert [one.name for one in gone] == ["of-another-boot"], "a clock that stays is believed"


def test_a_clock_that_is_set_back_does_not_make_the_newest_the_oldest(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    mark = mark_of(folder, "")
    put(tmp_path, "before", mark, int(WALL), 1, "boot", begin=100.0)
    size = put(tmp_path, "after", mark, int(WALL) - 3600, 2, "boot", begin=110.0)
    assert [one.name for one in keep_ring(folder, mark, EVER._replace(most_bytes=size), LATER)] == ["before"]


def test_room_that_others_need_is_left_to_them(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    mark = mark_of(folder, "")
    for number in range(4):
        put(tmp_path, f"part-{number}", mark, 1000 + number, number + 1)
    free = iter([0, 50, 100])
    keep_ring(folder, mark, EVER._replace(least_free_bytes=100), LATER, lambda: next(free))
    assert names(tmp_path) == ["part-2", "part-3"]


LONG = (LAST - FIRST) / 1e9


@pytest.fixture
def journal(tmp_path: Path) -> RecorderJournal:
    now = [100.0 + LONG + 2]
    return RecorderJournal(os.fsencode(tmp_path), "boot", lambda: (WALL + LONG + 2, now[0]))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([("full", "no space left")], "the disk was full: no space left"),
        ([("ended", ""), ("began", "")], "the recorder was stopped"),
        ([("began", "")], "the recorder was killed"),
        ([("rate", "")], "the sampler was set anew"),
        ([], "not known: the recorder wrote nothing about it"),
    ],
)
def test_a_hole_has_its_reason(tmp_path: Path, journal: RecorderJournal, said: list[tuple[str, str]], why: str) -> None:
    folder = os.fsencode(tmp_path)
    put(tmp_path, "one", "ring", int(WALL), 1, "boot", begin=100.0)
    put(tmp_path, "two", "ring", int(WALL) + 20, 2, "boot", begin=120.0)
    for words in said:
        journal.note(*words)
    (hole,) = cover(held(folder), read_notes(folder)).holes
    assert hole.why == why
    assert hole.seconds == pytest.approx(20 - LONG, abs=0.01)


def test_a_hole_that_a_busy_machine_made_is_told_as_one(tmp_path: Path) -> None:
    """The buffers of the cores were full before the recorder came to read them: the kernel counts what it could not put there."""
    put(tmp_path, "one", "ring", int(WALL), 1, "boot", begin=100.0)
    put(tmp_path, "two", "ring", int(WALL) + 20, 2, "boot", begin=120.0, lost=3012)
    (hole,) = cover(held(os.fsencode(tmp_path)), []).holes
    assert hole.why == "the machine gave the recorder no time: 3,012 samples lost"


def test_what_a_longer_time_needs_is_told_and_what_the_age_leaves_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "zombiescope.toml"
    config.write_text("[profile]\nkeep_megabytes = 3600\nkeep_days = 1\nrate_hz = 100\n")
    words = ["profile", "ring", "--captures", str(tmp_path), "--config", str(config), "--hours", "12"]
    assert main([*words, "--cores", "96"]) == 0
    assert "12 h at 96 cores and 100 Hz needs about 4.15 GB; the 3.6 GB configured hold about 10.4 h (by a usual" in (
        capsys.readouterr().out
    )
    assert main([*words, "--cores", "4"]) == 0
    assert "hold about 10.4 days, of which 24.0 h are kept" in capsys.readouterr().out


def test_of_two_rings_the_one_that_grows_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (800, 801):
        put(tmp_path, f"old-{number}", "0" * 16 + " other", int(WALL) + number, number, "boot", begin=100.0 + number)
    put(tmp_path, "new", "0" * 16 + " service", int(WALL) + 2000, 1, "boot", begin=2000.0)
    assert main(["profile", "ring", "--captures", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert ": 1 capture, " in told
    assert "1 other ring in this folder" in told


def test_neighbours_without_a_pause_have_no_hole(tmp_path: Path) -> None:
    for number in range(3):
        put(
            tmp_path,
            f"part-{number}",
            "ring",
            int(WALL + number * LONG),
            number + 1,
            "boot",
            begin=100.0 + number * (LONG + 0.02),
        )
    found = cover(held(os.fsencode(tmp_path)), [])
    assert found.holes == ()
    assert found.captures == 3
    assert found.seconds == pytest.approx(3 * LONG, abs=0.01)


def test_a_capture_that_was_removed_and_a_restart_are_told_apart(tmp_path: Path) -> None:
    put(tmp_path, "one", "ring", int(WALL), 1, "boot", begin=100.0)
    put(tmp_path, "four", "ring", int(WALL) + 60, 4, "boot", begin=160.0)
    put(tmp_path, "five", "ring", int(WALL) + 300, 5, "next", begin=10.0)
    removed, restarted = cover(held(os.fsencode(tmp_path)), []).holes
    assert removed.why == "2 captures were removed to make room, or not kept"
    full = Note(WALL + 30, "boot", 130.0, "full", "no space left")
    removed = cover(held(os.fsencode(tmp_path)), [full]).holes[0]
    assert removed.why == "2 captures were removed to make room, or not kept; the disk was full: no space left"
    assert restarted.why == "the machine was restarted"
    assert restarted.seconds == pytest.approx(240 - LONG, abs=1)


def test_a_clock_that_was_set_is_told_and_hides_no_hole(tmp_path: Path) -> None:
    """Set back by an hour while nobody recorded for 30 s: by the wall the second one lies before the first."""
    put(tmp_path, "one", "ring", int(WALL), 1, "boot", begin=100.0)
    put(tmp_path, "two", "ring", int(WALL) - 3600 + 30, 2, "boot", begin=130.0)
    found = cover(held(os.fsencode(tmp_path)), [])
    assert [round(by) for _, by in found.jumps] == [-3600]
    assert [hole.seconds for hole in found.holes] == [pytest.approx(30 - LONG, abs=0.01)]


def test_a_journal_that_cannot_be_written_waits(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "not there")
    journal = RecorderJournal(folder, "boot", lambda: (1.0, 2.0))
    journal.note("full", "no room")
    os.mkdir(folder)
    journal.note("room", "")
    assert [note.what for note in read_notes(folder)] == ["full", "room"]


def test_a_journal_stays_small(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    journal = RecorderJournal(folder, "boot", lambda: (1.0, 2.0))
    for number in range(300):
        journal.note("rate", f"{number} " + "x" * 2000)
    assert os.path.getsize(tmp_path / ".recorder") < 512 << 10
    assert read_notes(folder)[-1].words.startswith("299 ")


def test_rubbish_beside_the_captures_is_nothing(tmp_path: Path) -> None:
    put(tmp_path, "one", "ring", int(WALL), 1, "boot", begin=100.0)
    (tmp_path / ".recorder").write_bytes(b'{"at":"x"}\n[1]\nnonsense\n{"at":1,"steady":[]}\n' + b"\xff" * 100)
    (tmp_path / "one.summary").write_bytes(b"\x1f\x8bnonsense")
    folder = os.fsencode(tmp_path)
    assert read_notes(folder) == []
    assert [one.reasons for one in held(folder)] == [()]
    assert main(["profile", "ring", "--captures", str(tmp_path)]) == 0
    assert main(["profile", "find", "--ring", "--captures", str(tmp_path)]) == 0


def test_a_time_axis_shows_the_captures_of_its_time_and_why_they_were_kept(tmp_path: Path) -> None:
    put(tmp_path, "20231114T221320Z", "ring", int(WALL), 1, "boot", begin=100.0)
    put(tmp_path, "20231114T231320Z", "ring", int(WALL) + 3600, 2, "boot", begin=3700.0)
    put(tmp_path, "imported", "", int(WALL) + 1, begin=101.0)
    worth(tmp_path, "20231114T221320Z", "nic-reset")
    shown = marks(os.fsencode(tmp_path), WALL - 10, WALL + 60)
    assert [each[2:] for each in shown] == [
        ["20231114T221320Z", True, "nic-reset: a test"],
        ["imported", False, ""],
    ]
    assert marks(os.fsencode(tmp_path), WALL + 7200, WALL + 8000) == []
    assert marks(None, 0, 1e12) == []
    rows = {row["name"]: row["triggered"] for row in listed(os.fsencode(tmp_path))["captures"]}
    assert rows == {"20231114T221320Z": "nic-reset: a test", "20231114T231320Z": None, "imported": None}


def test_a_history_leads_to_the_capture_of_a_moment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    put(state / "captures", "20231114T221320Z", "ring", int(WALL), 1, "boot", begin=100.0)
    history = Store(str(state))
    history.add_sample(WALL - 5, "boot", {"zombies": 3.0})
    history.add_sample(WALL + 1, "boot", {"zombies": 4.0})
    history.add_happening(WALL + 1.0, "boot", "nic-reset", "eth0 was reset")
    history.close()
    asked = ["history", "--state", str(state)]
    assert main([*asked, "--at", "2023-11-14T22:13:21"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    look = f"zombiescope profile heatmap 20231114T221320Z --from 0 --to 11 --captures {state}/captures"
    assert said.endswith(f"to see what the cores did then: {look}")
    assert main([*asked, "--last", "all"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "eth0 was reset · capture 20231114T221320Z" in said
    assert main([*asked, "--last", "all", "--json"]) == 0
    (kept,) = json.loads(capsys.readouterr().out)["captures"]
    assert kept["name"] == "20231114T221320Z"


def test_an_alert_keeps_what_is_there_before_and_after_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where no recorder runs any more."""
    mark = mark_of(os.fsencode(tmp_path), "service")
    for serial, name in enumerate(("a", "b", "c", "d"), 1):
        put(tmp_path, name, mark, int(WALL) + 10 * serial, serial, "boot", begin=10.0 * serial)
        write_beside(os.fsencode(tmp_path / f"{name}.zscap"), Summing().summary_of(CAPTURE))
    moment = "2023-11-14T22:13:41"  # while the second one was recorded
    words = ["profile", "keep", "--at", moment, "--why", "checkout is slow", "--captures", str(tmp_path)]
    assert main([*words, "--around", "10"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == "kept 3 captures, a to c"
    assert "heatmap b" in last
    kept = {one.name: [reason.words for reason in one.reasons] for one in held(os.fsencode(tmp_path))}
    assert kept == {"a": ["checkout is slow"], "b": ["checkout is slow"], "c": ["checkout is slow"], "d": []}
    assert main([*words, "--around", "0"]) == 0
    assert capsys.readouterr().out.startswith("kept b\n")
