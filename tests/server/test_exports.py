# SPDX-License-Identifier: Apache-2.0
"""What is exported is accepted by those it is for: promtool, a real Prometheus, systemd-analyze."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from zombiescope.facts.metric_names import METRICS, PREFIX
from zombiescope.presenters.grafana_dashboard import PANELS, render_dashboard
from zombiescope.presenters.prometheus_rules import ALERTS, OTHERS_ALERTS, OTHERS_RECORDS, RECORDS, render_rules
from zombiescope.presenters.systemd_unit import render_unit

HERE = Path(__file__).parent


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_promtool_accepts_the_rules_and_their_tests_hold(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(render_rules(), encoding="utf-8")
    shutil.copy(HERE / "rules_test.yml", tmp_path)
    checked = run("promtool", "check", "rules", str(tmp_path / "rules.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = run("promtool", "test", "rules", str(tmp_path / "rules_test.yml"))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_metric_of_ours_in_rules_and_dashboard_exists() -> None:
    known = {metric.name for metric in METRICS} | {f"{PREFIX}stat_sweep_seconds_{part}" for part in ("sum", "count")}
    expressions = [each.expression for each in (*RECORDS, *ALERTS, *OTHERS_RECORDS, *OTHERS_ALERTS)]
    expressions += [expression for panel in PANELS for expression, _ in panel.expressions]
    named = {name for text in expressions for name in re.findall(rf"(?<![:\w]){PREFIX}\w+", text)}
    assert named
    assert named <= known


def test_a_dashboard_is_whole() -> None:
    dashboard = json.loads(json.dumps(render_dashboard()))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(PANELS)
    assert all(panel["targets"] for panel in dashboard["panels"])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_the_unit_is_hardened_and_cannot_loop(tmp_path: Path) -> None:
    unit = tmp_path / "zombiescope.service"
    unit.write_text(render_unit("/bin/true"), encoding="utf-8")
    verified = run("systemd-analyze", "verify", str(unit))
    assert "zombiescope.service" not in verified.stderr, verified.stderr
    scored = run("systemd-analyze", "security", "--offline=true", "--threshold=30", str(unit))
    assert scored.returncode == 0, scored.stdout[-300:] + scored.stderr
    found = re.search(r"exposure level.*?: ([0-9.]+)", scored.stdout)
    assert found
    assert float(found[1]) <= 3.0
    values = dict(re.findall(r"^(\w+)=(\d+)$", unit.read_text(), re.MULTILINE))
    # It ends at once, it never gets ready, it falls silent: the limit trips each time.
    starting, silent = int(values["TimeoutStartSec"]), int(values["WatchdogSec"]) + int(values["TimeoutStopSec"])
    for lasted in (0, starting + int(values["TimeoutStopSec"]), silent):
        between = int(values["RestartSec"]) + lasted
        assert int(values["StartLimitBurst"]) * between < int(values["StartLimitIntervalSec"]), lasted
