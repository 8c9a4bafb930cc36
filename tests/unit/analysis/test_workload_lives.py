# SPDX-License-Identifier: Apache-2.0
"""How often a schedule comes round, for lines of cron and of timers; of calendars, systemd itself is asked."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import datetime

import pytest

from zombiescope.analysis.workload_lives import calendar_runs_per_day, cron_runs_per_day, timer_runs_per_day

DAY = 86400.0


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ("* * * * *", 1440), ("*/5 * * * *", 288), ("0 * * * *", 24), ("17 3 * * *", 1), ("@hourly", 24), ("daily", 1),
        ("0,30 8-18 * * 1-5", 22 * 5 / 7), ("@reboot", 0), ("5-59/10 * * * *", 144), ("30 4 * * sun", 1 / 7),
        ("0 0 1 jan *", 1 / 30.4 / 12), ("x * * * *", None), ("* * * *", None), ("61 * * * *", None), ("*/0 * * * *", None),
        ("* * * * * *", None), ("", None),
    ],
)  # fmt: skip
def test_cron(when: str, runs: float | None) -> None:
    assert cron_runs_per_day(when) == (None if runs is None else pytest.approx(runs))


@pytest.mark.parametrize(
    ("elapses", "runs"),
    [
        ("OnBootSec=1min, OnUnitActiveSec=10", 8640), ("OnBootSec=5min", 0), ("OnCalendar=hourly, OnCalendar=daily", 25),
        ("OnUnitInactiveSec=1h", 24), ("OnUnitActiveSec=soon", None), ("", None), ("OnCalendar=*-*-* 9,18:00", 2),
    ],
)  # fmt: skip
def test_timers(elapses: str, runs: float | None) -> None:
    assert timer_runs_per_day(elapses) == (None if runs is None else pytest.approx(runs))


CALENDARS = [
    "minutely", "hourly", "daily", "*:0/10", "*-*-* *:00/15:30", "Mon..Fri 06:30", "Sat,Sun 12:00", "*-*-* 00/6:00", "*:*:0/20",
    "Mon *-*-* 00:00:00", "*-*-* 03,15:07:30", "*-*-* 9..17:00", "06:00 UTC", "*-*-1/2 04:00",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("calendar", CALENDARS)
def test_a_calendar_comes_round_as_often_as_systemd_says(calendar: str) -> None:
    ours = calendar_runs_per_day(calendar)
    assert ours is not None
    times = 1 + int(max(60, min(14 * ours, 400)))
    command = ["systemd-analyze", "calendar", f"--iterations={times}", calendar]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env={"TZ": "UTC", "LC_ALL": "C"}).stdout
    found = re.findall(r"(?:Next elapse|Iter\. #\d+): \w+ (\S+ \S+) UTC", said)
    stamps = [datetime.fromisoformat(stamp).timestamp() for stamp in found]
    assert len(stamps) == times
    whole_days = max(1, int((stamps[-1] - stamps[0]) // DAY // 7 * 7))
    inside = sum(stamp - stamps[0] < whole_days * DAY for stamp in stamps)
    assert ours == pytest.approx(inside / whole_days, rel=0.15) or (
        stamps[-1] - stamps[0] < DAY and ours == pytest.approx((times - 1) * DAY / (stamps[-1] - stamps[0]), rel=0.01)
    )


@pytest.mark.parametrize(
    "calendar", ["", "99:00", "whenever", "*:0/0", "*-*-* 1:2:3:4", "UTC", "*-13-* 00:00", "mon;tue"]
)
def test_what_is_no_calendar(calendar: str) -> None:
    assert calendar_runs_per_day(calendar) is None


def test_one_that_comes_once() -> None:
    assert calendar_runs_per_day("2031-01-01 00:00") == 0
