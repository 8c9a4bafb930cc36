# SPDX-License-Identifier: Apache-2.0
"""The exported unit serves from inside its sandbox, and killed it is there again: systemd restarts it once, the history goes on
where it was, none of its records missing or there twice."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest
from tests.vm.stories.exported_unit import ExportedUnit, history, installed, wait_for

SETTINGS = "[agent]\ninterval_seconds = 1\n"
ADDRESS = "http://127.0.0.1:9753"

# Where everything runs: what a request and a kill do is CI's in the server tier, on the machine that runs the tests.
pytestmark = [pytest.mark.cells.with_args(lambda cell: cell.name == "6.1-v2"), pytest.mark.in_ci()]


@pytest.fixture
def unit() -> Iterator[ExportedUnit]:
    with installed("zombiescope-answers", SETTINGS) as unit:
        yield unit


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


def check_metrics(unit: ExportedUnit) -> None:
    """In both formats, by the client library's own parsers."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open  # noqa: PLC0415
    from prometheus_client.parser import text_string_to_metric_families as parse_classic  # noqa: PLC0415

    kind, body = page("/metrics")
    assert kind.startswith("text/plain"), unit.said()
    classic = {family.name: family for family in parse_classic(body)}
    kind, body = page("/metrics", "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    modern = {family.name: family for family in parse_open(body)}  # type: ignore[no-untyped-call]
    for families in (classic, modern):
        (counted,) = families["zombiescope_memcg_counted"].samples
        assert counted.value > 0
        seen = {each.labels["probe"]: each.value for each in families["zombiescope_probe_success"].samples}
        assert (seen["census"], seen["events"]) == (1, 1), page("/healthz")


def test_it_answers_in_its_sandbox_and_a_kill_loses_nothing(unit: ExportedUnit) -> None:
    unit.systemctl("start", unit.name)
    assert wait_for(lambda: page("/healthz")[1] == "ok\n"), page("/healthz")[1] + unit.said()
    check_metrics(unit)
    assert wait_for(lambda: len(history().samples) >= 3), unit.said()
    told = json.loads(page("/api/v1/history?seconds=3600")[1])
    assert told["samples"] >= 3, "a child may limit its own memory in there"
    seen = subprocess.run(
        [sys.executable, "-m", "zombiescope", "scan", "--json", "--no-bytes"], capture_output=True, check=False
    )
    assert json.loads(page("/api/v1/scan")[1])["memcg"]["source"] == json.loads(seen.stdout)["memcg"]["source"]
    before, process = numbers(), unit.shown("MainPID")
    unit.systemctl("kill", "--signal=KILL", unit.name)
    assert wait_for(lambda: unit.shown("MainPID") not in ("0", process) and page("/healthz")[1] == "ok\n"), unit.said()
    check_metrics(unit)
    assert wait_for(lambda: len(history().samples) >= len(before) + 3), unit.said()
    after = numbers()
    assert after == list(range(1, len(after) + 1)), "none is missing and none is there twice"
    assert after[: len(before)] == before
    assert [each.what for each in history().happenings].count("agent-began") == 2
    assert (unit.shown("NRestarts"), unit.shown("ActiveState")) == ("1", "active"), unit.said()
    assert "Traceback" not in unit.said()
