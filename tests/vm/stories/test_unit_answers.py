# SPDX-License-Identifier: Apache-2.0
"""The exported unit serves from inside its sandbox, and killed it is there again: systemd restarts it once, the history goes on
where it was, none of its records missing or there twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zombiescope.errors import ObservationError
from zombiescope.history.reader import Remembered, remember
from zombiescope.presenters.systemd_unit import render_unit

NAME = "zombiescope-answers.service"
UNITS = Path("/run/systemd/system")
CONFIG = Path("/run/zombiescope-answers.toml")
SETTINGS = "[agent]\ninterval_seconds = 1\n"
ADDRESS = "http://127.0.0.1:9753"

# Where everything runs: what a request and a kill do is CI's in the server tier, on the machine that runs the tests.
pytestmark = [pytest.mark.cells.with_args(lambda cell: cell.name == "6.1-v2"), pytest.mark.in_ci()]


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


def numbers() -> list[int]:
    found = history()
    assert found.gaps == (), "it opens"
    return sorted([*(each.number for each in found.samples), *(each.number for each in found.happenings)])


def page(path: str, accept: str = "*/*") -> tuple[str, str]:
    """Content type and body; nothing where nobody answers."""
    asked = urllib.request.Request(ADDRESS + path, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read().decode()
    except OSError:
        return "", ""


def wait_for(is_so: Callable[[], object], seconds: float = 240) -> bool:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


@pytest.fixture
def unit() -> Iterator[None]:
    CONFIG.write_text(SETTINGS, encoding="utf-8")
    text = render_unit(f"{sys.executable} -m zombiescope").replace(" agent\n", f" agent --config {CONFIG}\n", 1)
    text = text.replace("CPUQuota=20%\n", "")  # a fifth of an emulated core is a hundredth of a real one
    place = f'Environment="PYTHONPATH={os.environ["PYTHONPATH"]}"\n'
    (UNITS / NAME).write_text(text.replace("[Service]\n", "[Service]\n" + place), encoding="utf-8")
    systemctl("daemon-reload")
    yield
    subprocess.run(["systemctl", "stop", NAME], check=False)
    (UNITS / NAME).unlink()
    CONFIG.unlink()
    systemctl("daemon-reload")
    shutil.rmtree("/var/lib/zombiescope", ignore_errors=True)


def check_metrics() -> None:
    """In both formats, by the client library's own parsers."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open  # noqa: PLC0415
    from prometheus_client.parser import text_string_to_metric_families as parse_classic  # noqa: PLC0415

    kind, body = page("/metrics")
    assert kind.startswith("text/plain"), said()
    classic = {family.name: family for family in parse_classic(body)}
    kind, body = page("/metrics", "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    modern = {family.name: family for family in parse_open(body)}  # type: ignore[no-untyped-call]
    for families in (classic, modern):
        (counted,) = families["zombiescope_memcg_counted"].samples
        assert counted.value > 0
        seen = {each.labels["probe"]: each.value for each in families["zombiescope_probe_success"].samples}
        assert (seen["census"], seen["events"]) == (1, 1), page("/healthz")


def test_it_answers_in_its_sandbox_and_a_kill_loses_nothing(unit: None) -> None:
    systemctl("start", NAME)
    assert wait_for(lambda: page("/healthz")[1] == "ok\n"), page("/healthz")[1] + said()
    check_metrics()
    assert wait_for(lambda: len(history().samples) >= 3), said()
    before, process = numbers(), shown("MainPID")
    systemctl("kill", "--signal=KILL", NAME)
    assert wait_for(lambda: shown("MainPID") not in ("0", process) and page("/healthz")[1] == "ok\n"), said()
    check_metrics()
    assert wait_for(lambda: len(history().samples) >= len(before) + 3), said()
    after = numbers()
    assert after == list(range(1, len(after) + 1)), "none is missing and none is there twice"
    assert after[: len(before)] == before
    assert [each.what for each in history().happenings].count("agent-began") == 2
    assert (shown("NRestarts"), shown("ActiveState")) == ("1", "active"), said()
    assert "Traceback" not in said()
