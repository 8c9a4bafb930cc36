# SPDX-License-Identifier: Apache-2.0
"""Resets of a kernel log and what the agent remembers, laid on a capture's own axis."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.profiler.perf_files import TOOLS, small_capture

from zombiescope.errors import ObservationError
from zombiescope.history.store import Store
from zombiescope.pipeline.profile_events import marks_of
from zombiescope.profiler.formats.capture_file import decode, encode
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.stacks.capture import Capture, Clock
from zombiescope.web.captures import span_of

WALL = 1_700_000_000


@pytest.fixture
def capture() -> Capture:
    made = import_perf(small_capture().file(), TOOLS, "small")
    clock = Clock(WALL * 10**9, int(made.time[0]))
    return replace(made, about=made.about._replace(clock=clock))


def test_a_reset_of_the_log_lies_where_its_stamp_says(capture: Capture, tmp_path: Path) -> None:
    first = int(capture.time[0]) / 1e9
    card = "ena 0000:00:05.0 eth0: "
    stamps = ((1.5, "Trigger reset is on"), (900.0, "Trigger reset is on"))
    lines = [f"[{first + at:12.6f}] {card}{text}" for at, text in stamps]
    log = tmp_path / "dmesg"
    log.write_bytes("\n".join([*lines, "no stamp", "[broken] x"]).encode() + b"\n\xff\xfe[ 1.0\n")
    marks = marks_of(span_of(capture), None, os.fsencode(log))
    assert [(mark.kind, round(mark.seconds, 3)) for mark in marks.marks] == [("nic-reset", 1.5)]
    assert "eth0" in marks.marks[0].label


def test_a_log_on_a_clock_of_its_own_is_moved_by_what_the_recorder_saw(capture: Capture, tmp_path: Path) -> None:
    """A quarter of a minute, as after some months."""
    assert capture.about.clock is not None
    first = int(capture.time[0])
    clock = capture.about.clock._replace(log_ns=first + 15 * 10**9)
    stored = decode(b"".join(encode(replace(capture, about=capture.about._replace(clock=clock)))))
    log = tmp_path / "dmesg"
    log.write_text(f"[{first / 1e9 + 15 + 1.5:.6f}] ena 0000:00:05.0 eth0: Trigger reset is on\n")
    assert [round(mark.seconds, 3) for mark in marks_of(span_of(stored), None, os.fsencode(log)).marks] == [1.5]
    assert marks_of(span_of(capture), None, os.fsencode(log)).marks == ()


def test_what_the_agent_saw_lies_at_its_wall_clock(capture: Capture, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.add_happening(WALL - 60.0, "boot", "finding-present", "long before")
    store.add_happening(WALL + 0.5, "boot", "finding-present", "saturated-core\n\x1b[31m")
    store.close()
    marks = marks_of(span_of(capture), os.fsencode(tmp_path), None)
    assert [(mark.kind, mark.seconds) for mark in marks.marks] == [("finding-present", 0.5)]
    assert "\x1b" not in marks.marks[0].label


def test_a_capture_without_a_clock_says_so(capture: Capture, tmp_path: Path) -> None:
    nowhen = replace(capture, about=capture.about._replace(clock=None))
    marks = marks_of(span_of(nowhen), os.fsencode(tmp_path), None)
    assert marks.marks == ()
    assert "does not say when" in marks.gaps[0].reason


def test_a_log_that_is_not_there_is_an_error_with_a_way_on(capture: Capture, tmp_path: Path) -> None:
    with pytest.raises(ObservationError, match="kernel log"):
        marks_of(span_of(capture), None, os.fsencode(tmp_path / "none"))


def test_at_a_pipe_nobody_waits(capture: Capture, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ObservationError, match="kernel log"):
        marks_of(span_of(capture), None, os.fsencode(tmp_path / "pipe"))
