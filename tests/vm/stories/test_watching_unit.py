# SPDX-License-Identifier: Apache-2.0
"""The exported unit under a running systemd: it starts in its sandbox and says so, sees events by BPF where it can, keeps
its watchdog content, reads its configuration again, notices a clock that is set back, and ends when asked."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest
from tests.vm.cells import Hierarchy, Init
from tests.vm.stories.exported_unit import ExportedUnit, history, installed, wait_for

# Nothing is served: that is the story of test_unit_answers.py.
SETTINGS = '[agent]\nlisten = ""\ninterval_seconds = {}\n'

pytestmark = pytest.mark.cells.with_args(
    lambda cell: cell.init is Init.SYSTEMD and cell.hierarchy is Hierarchy.V2 and cell.name != "6.12-v2-numa"
)


@pytest.fixture
def unit() -> Iterator[ExportedUnit]:
    with installed("zombiescope-story", SETTINGS.format(2)) as unit:
        yield unit


def events() -> list[str]:
    return [each.what for each in history().happenings]


def test_the_unit_starts_watches_reloads_and_ends(unit: ExportedUnit) -> None:
    unit.systemctl("start", unit.name)  # Type=notify: returns when it said READY=1
    assert unit.shown("ActiveState") == "active", unit.said()
    assert unit.shown("StatusText") == "looking"
    process = unit.shown("MainPID")
    first = int(unit.shown("WatchdogTimestampMonotonic"))
    assert wait_for(lambda: int(unit.shown("WatchdogTimestampMonotonic")) > first), "the watchdog hears from it"
    assert wait_for(lambda: len(history().samples) >= 3), unit.said()
    if "5.10" not in os.uname().release:
        began = next(each.detail for each in history().happenings if each.what == "agent-began")
        assert began == "events by bpf", "in its sandbox it may load the ledger"
        assert wait_for(lambda: any("poll_wait_p999_seconds" in each.values for each in history().samples)), (
            f"in its sandbox it may follow the network's polls, with a clock of perf_event_open: {unit.said()}"
        )
    unit.configure(SETTINGS.format(1))
    unit.systemctl("reload", unit.name)
    assert wait_for(lambda: "configuration-read" in events()), unit.said()
    subprocess.run(["date", "-s", "@" + str(int(time.time()) - 3600)], check=True, capture_output=True)
    try:
        assert wait_for(lambda: "clock-jumped" in events()), unit.said()
    finally:
        subprocess.run(["date", "-s", "@" + str(int(time.time()) + 3600)], check=True, capture_output=True)
    assert (unit.shown("MainPID"), unit.shown("NRestarts")) == (process, "0")
    unit.systemctl("stop", unit.name)
    assert (unit.shown("Result"), unit.shown("ExecMainStatus")) == ("success", "0"), unit.said()
    assert events()[-1] == "agent-ended"
    assert "Traceback" not in unit.said()
