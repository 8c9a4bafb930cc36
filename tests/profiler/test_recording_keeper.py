# SPDX-License-Identifier: Apache-2.0
"""Which segments of a recording are kept: those around what the agent wrote into its history, also when it wrote late, and
those in which a finding came."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.profiler.perf_files import TOOLS, small_capture

from zombiescope.diagnosis.thresholds import Severity
from zombiescope.history.store import Store
from zombiescope.pipeline import profile_events
from zombiescope.pipeline.profile_events import keeper
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.stacks.capture import Capture, Clock
from zombiescope.web.captures import span_of

WALL = 1_700_000_000
SECONDS = 2.0


def segment(number: int) -> Capture:
    """Quiet ones, each two seconds after the one before."""
    made = import_perf(small_capture().file(), TOOLS, "small")
    clock = Clock(int((WALL + number * SECONDS) * 10**9), int(made.time[0]))
    return replace(made, about=made.about._replace(clock=clock))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


def test_an_event_of_the_history_keeps_its_segment(store: Store, tmp_path: Path) -> None:
    wanted = keeper(("nic-reset",), os.fsencode(tmp_path))
    store.add_happening(WALL - 30.0, "boot", "nic-reset", "eth0, long before")
    assert not wanted(span_of(segment(0)))
    store.add_happening(WALL + SECONDS + 0.5, "boot", "nic-reset", "eth0")
    assert wanted(span_of(segment(1)))
    assert not wanted(span_of(segment(2))), "once is enough: the one after is kept anyway"


def test_an_event_written_late_keeps_the_segment_before(store: Store, tmp_path: Path) -> None:
    wanted = keeper(("nic-reset",), os.fsencode(tmp_path))
    assert not wanted(span_of(segment(0)))
    store.add_happening(WALL + 1.0, "boot", "nic-reset", "eth0, told after the segment had ended")
    assert wanted(span_of(segment(1))), "it is of the segment before, which waits to be kept beside this one"


def test_other_events_do_not_count(store: Store, tmp_path: Path) -> None:
    wanted = keeper(("nic-reset",), os.fsencode(tmp_path))
    store.add_happening(WALL + 0.5, "boot", "stat-sweep", "kubelet")
    store.add_happening(WALL + 0.5, "boot", "finding-present", "zombie-population")
    assert not wanted(span_of(segment(0)))


def test_without_a_clock_nothing_can_be_beside_it(store: Store, tmp_path: Path) -> None:
    store.add_happening(WALL + 0.5, "boot", "nic-reset", "eth0")
    nowhen = replace(segment(0), about=segment(0).about._replace(clock=None))
    assert not keeper(("nic-reset",), os.fsencode(tmp_path))(span_of(nowhen))


def test_a_finding_counts_when_it_comes_or_grows_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for as long as it is there: a sick machine would keep everything."""
    ok, warning, critical = Severity.OK, Severity.WARNING, Severity.CRITICAL
    looks: list[dict[str, Severity] | None] = [
        {"zombie-population": warning},  # when the recording begins
        {"zombie-population": warning},
        {"zombie-population": critical},
        None,  # nothing could be seen
        {"zombie-population": critical, "visible-leak": ok},
        {"zombie-population": warning, "visible-leak": ok},
        {"zombie-population": warning, "visible-leak": warning},
    ]
    monkeypatch.setattr(profile_events, "_findings", lambda: looks.pop(0))
    wanted = keeper(("finding",))
    assert [bool(wanted(span_of(segment(number)))) for number in range(6)] == [False, True, False, False, False, True]
