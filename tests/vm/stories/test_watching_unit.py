# SPDX-License-Identifier: Apache-2.0
"""The exported unit under a running systemd: it starts in its sandbox and says so, sees events by BPF where it can, keeps
its watchdog content, reads its configuration again, notices a clock that is set back, and ends when asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.vm.cells import Hierarchy, Init

from zombiescope.errors import ObservationError
from zombiescope.history.reader import Remembered, remember
from zombiescope.presenters.systemd_unit import render_unit

NAME = "zombiescope-story.service"
UNITS = Path("/run/systemd/system")
CONFIG = Path("/run/zombiescope-story.toml")
# Nothing is served: that is the story of test_unit_answers.py.
SETTINGS = '[agent]\nlisten = ""\ninterval_seconds = {}\n'

pytestmark = pytest.mark.cells.with_args(
    lambda cell: cell.init is Init.SYSTEMD and cell.hierarchy is Hierarchy.V2 and cell.name != "6.12-v2-numa"
)


def systemctl(*arguments: str) -> str:
    ran = subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}{said()}"
    return ran.stdout


def said() -> str:
    command = ["journalctl", "--no-pager", "-o", "cat", "-u", NAME]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def shown(name: str) -> str:
    return systemctl("show", "--value", f"--property={name}", NAME).strip()


def history() -> Remembered:
    try:
        return remember(b"/var/lib/zombiescope")
    except ObservationError:
        return Remembered([], [], ())


def events() -> list[str]:
    return [each.what for each in history().happenings]


def wait_for(is_so: Callable[[], object], seconds: float = 180) -> bool:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


@pytest.fixture
def unit() -> Iterator[None]:
    CONFIG.write_text(SETTINGS.format(2), encoding="utf-8")
    text = render_unit(f"{sys.executable} -m zombiescope").replace(" agent\n", f" agent --config {CONFIG}\n", 1)
    text = text.replace("CPUQuota=20%\n", "")  # a fifth of an emulated core is a hundredth of a real one
    place = f'Environment="PYTHONPATH={os.environ["PYTHONPATH"]}"\n'
    (UNITS / NAME).write_text(text.replace("[Service]\n", "[Service]\n" + place), encoding="utf-8")
    systemctl("daemon-reload")
    yield
    subprocess.run(["systemctl", "stop", NAME], check=False)
    (UNITS / NAME).unlink()
    systemctl("daemon-reload")
    shutil.rmtree("/var/lib/zombiescope", ignore_errors=True)


def test_the_unit_starts_watches_reloads_and_ends(unit: None) -> None:
    systemctl("start", NAME)  # Type=notify: returns when it said READY=1
    assert shown("ActiveState") == "active", said()
    assert shown("StatusText") == "looking"
    process = shown("MainPID")
    first = int(shown("WatchdogTimestampMonotonic"))
    assert wait_for(lambda: int(shown("WatchdogTimestampMonotonic")) > first), "the watchdog hears from it"
    assert wait_for(lambda: len(history().samples) >= 3), said()
    if "5.10" not in os.uname().release:
        began = next(each.detail for each in history().happenings if each.what == "agent-began")
        assert began == "events by bpf", "in its sandbox it may load the ledger"
    CONFIG.write_text(SETTINGS.format(1), encoding="utf-8")
    systemctl("reload", NAME)
    assert wait_for(lambda: "configuration-read" in events()), said()
    subprocess.run(["date", "-s", "@" + str(int(time.time()) - 3600)], check=True, capture_output=True)
    try:
        assert wait_for(lambda: "clock-jumped" in events()), said()
    finally:
        subprocess.run(["date", "-s", "@" + str(int(time.time()) + 3600)], check=True, capture_output=True)
    assert (shown("MainPID"), shown("NRestarts")) == (process, "0")
    systemctl("stop", NAME)
    assert (shown("Result"), shown("ExecMainStatus")) == ("success", "0"), said()
    assert events()[-1] == "agent-ended"
    assert "Traceback" not in said()
