# SPDX-License-Identifier: Apache-2.0
"""A live systemd with four units: one crash-loops, one restarts a container-like child inside itself, one restarted once
as it does every night, one is started by a timer. The audit flags exactly the first two."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.vm.cells import Init

pytestmark = [
    pytest.mark.cells.with_args(lambda cell: cell.init is Init.SYSTEMD),
    pytest.mark.in_ci("6.12-v2-numa"),  # of files and systemd's words: the same on every kernel
]
UNITS = Path("/run/systemd/system")
FILES = {
    "zs-crash.service": "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=300ms\n",
    "zs-inside.service": "[Service]\nDelegate=yes\nExecStart=/bin/sh /run/zs-inside.sh\n",
    "zs-nightly.service": "[Service]\nExecStart=/bin/sleep infinity\nRestart=always\nRestartSec=100ms\n",
    "zs-tick.service": "[Service]\nType=oneshot\nExecStart=/bin/true\n",
    "zs-tick.timer": "[Timer]\nOnActiveSec=1s\nOnUnitActiveSec=1s\nAccuracySec=100ms\n",
}
# The supervisor moves itself aside, then makes a new cgroup for each child, as a container runtime does.
INSIDE = """
root=$(awk -F: '$2 == "" || $2 ~ /(^|,)memory(,|$)/ { print $2 ":" $3 }' /proc/self/cgroup | sort -r | head -n 1)
path=${root#*:}
base=/sys/fs/cgroup$path
[ -z "${root%%:*}" ] || base=/sys/fs/cgroup/memory$path
number=0
while :; do
    number=$((number + 1))
    mkdir "$base/child-$number"
    sh -c "echo \\$\\$ > '$base/child-$number/cgroup.procs'; exec sleep 0.6"
    rmdir "$base/child-$number"
done
"""


def _systemctl(*arguments: str) -> str:
    return subprocess.run(["systemctl", *arguments], check=True, capture_output=True, text=True).stdout


def _until(what: str, is_so: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"did not happen: {what}"
        time.sleep(0.2)


def _restarts(unit: str) -> int:
    return int(_systemctl("show", "--value", "-p", "NRestarts", unit))


@pytest.fixture(scope="module")
def units() -> Iterator[None]:
    UNITS.mkdir(parents=True, exist_ok=True)
    Path("/run/zs-inside.sh").write_text(INSIDE)
    for name, text in FILES.items():
        (UNITS / name).write_text(text)
    names = [name for name in FILES if name != "zs-tick.service"]
    _systemctl("daemon-reload")
    _systemctl("start", "--no-block", *names)
    try:
        _until("a night's restart", lambda: "running" in _systemctl("show", "-p", "SubState", "zs-nightly.service"))
        _systemctl("kill", "--signal=KILL", "zs-nightly.service")
        _until("its restart", lambda: _restarts("zs-nightly.service") == 1)
        _until("a crash loop", lambda: _restarts("zs-crash.service") >= 4)
        yield
    finally:
        _systemctl("stop", *names)
        for name in FILES:
            (UNITS / name).unlink()
        _systemctl("daemon-reload")


def _zombiescope(*arguments: str) -> tuple[int, dict[str, Any]]:
    run = subprocess.run([sys.executable, "-m", "zombiescope", *arguments], capture_output=True, text=True, check=False)
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout)


def _audited() -> dict[str, Any]:
    """After a window in which three children were born inside: how many a machine gets done in 24 s, its neighbours say."""
    born: dict[str, int] = {}
    for seconds in (24, 60, 120):
        status, audit = _zombiescope("audit", "--seconds", str(seconds), "--json")
        assert status == 0
        born = {unit["name"]: unit["births"] for unit in audit["units"]}
        if born["zs-inside.service"] >= 3:
            return audit
    raise AssertionError(f"too few children were born even in the longest window: {born}")


def test_exactly_the_two_that_loop_are_flagged(units: None) -> None:
    audit = _audited()
    found = {finding["id"]: finding for finding in audit["findings"]}
    crash, inside = found["crash-looping-unit"], found["looping-container"]
    assert crash["verdict"] != "unknown", audit["gaps"]
    assert [item["fact"] for item in crash["evidence"]] == ["zs-crash.service.restarts"], crash
    assert [item["fact"] for item in inside["evidence"]] == ["zs-inside.service.restarts"], inside
    rows = {unit["name"]: unit for unit in audit["units"]}
    assert rows["zs-crash.service"]["can_loop"] is True
    assert rows["zs-crash.service"]["restarts"] >= 4
    assert rows["zs-inside.service"]["restarts"] == 0
    assert rows["zs-nightly.service"]["state"] == "active"


def test_the_gate_names_them(units: None) -> None:
    status, check = _zombiescope("check", "--json")
    looping = {reason["what"] for reason in check["reasons"] if reason["what"].startswith("looping-unit:")}
    assert "looping-unit:zs-crash.service" in looping, check
    assert not looping & {"looping-unit:zs-nightly.service", "looping-unit:zs-tick.service"}
    assert status == {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}[check["verdict"]] == 1, check
