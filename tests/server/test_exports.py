# SPDX-License-Identifier: Apache-2.0
"""What is exported is accepted by those it is for: promtool, a real Prometheus, systemd-analyze."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.server.running import ended, fetch, free_port, wait_for

from zombiescope.facts.metric_names import METRICS, PREFIX, MetricKind
from zombiescope.fleet.server import ASKED, INFORMATION
from zombiescope.presenters.grafana_dashboard import PANELS, render_dashboard
from zombiescope.presenters.prometheus_rules import (
    ALERTS,
    NODE_EXPORTER_FLAGS,
    OTHERS_ALERTS,
    OTHERS_RECORDS,
    RECORDS,
    render_rules,
)
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
    spread = [metric.name for metric in METRICS if metric.kind is MetricKind.HISTOGRAM]
    known = {metric.name for metric in METRICS}
    known |= {f"{name}_{part}" for name in spread for part in ("sum", "count", "bucket")}
    expressions = [each.expression for each in (*RECORDS, *ALERTS, *OTHERS_RECORDS, *OTHERS_ALERTS)]
    expressions += [expression for panel in PANELS for expression, _ in panel.expressions]
    named = {name for text in expressions for name in re.findall(rf"(?<![:\w]){PREFIX}\w+", text)}
    assert named
    assert named <= known


def asked_of(prefix: str) -> set[str]:
    """Names of others' series in rules, panels and what the fleet's view asks for."""
    asked = [each.expression for each in (*OTHERS_RECORDS, *OTHERS_ALERTS)]
    asked += [expression for panel in PANELS for expression, _ in panel.expressions]
    asked += [each.name for each in ASKED] + list(INFORMATION)
    return set(re.findall(rf"(?<![:\w]){prefix}_\w+", " ".join(asked)))


def test_cadvisor_has_what_rules_panels_and_the_fleets_view_ask_it_for() -> None:
    """By the answer of a real kubelet, kept with its origin."""
    lines = (HERE / "cadvisor-names.txt").read_text(encoding="ascii").splitlines()
    had = {line.split(" ")[0]: line.partition(" ")[2].split(",") for line in lines if not line.startswith("#")}
    names = asked_of("container")
    assert len(names) >= 3
    assert names <= set(had)
    assert all({"namespace", "pod", "container", "id"} <= set(had[name]) for name in names)


def test_node_exporter_has_what_rules_panels_and_the_fleets_view_ask_it_for() -> None:
    """By a real one with the flags that the rules file names; cards here have no counters of resets, which only some drivers do."""
    names = asked_of("node") - {"node_ethtool_total_resets"}
    address = f"127.0.0.1:{free_port()}"
    known = [flag for flag in shlex.split(NODE_EXPORTER_FLAGS) if "slabs-include" not in flag]  # since 1.6
    flags = [*known, f"--web.listen-address={address}"]
    process = subprocess.Popen(["prometheus-node-exporter", *flags], stderr=subprocess.DEVNULL, text=True)
    with ended(process):
        _, text = wait_for(lambda: fetch(f"http://{address}/metrics"))
    had = {line.split("{")[0].split(" ")[0] for line in text.decode().splitlines() if not line.startswith("#")}
    if not os.path.exists("/proc/pressure/memory"):
        names -= {name for name in names if name.startswith("node_pressure")}
    if not re.search(r"(?m)^memory\t", Path("/proc/cgroups").read_text(encoding="ascii")):
        names -= {"node_cgroups_cgroups"}
    assert names - {"node_slabinfo_active_objects"} <= had


def test_every_alert_links_to_a_page_of_the_runbook() -> None:
    ours = [alert for alert in (*ALERTS, *OTHERS_ALERTS) if not alert.name.startswith("Zombiescope")]
    assert {alert.page for alert in ours} == {
        "resets", "poll-latency", "softirq-wait", "reclaim", "pressure", "throttling", "sweepers", "major-faults", "growth",
        "stock",
    }  # fmt: skip
    assert all("#" not in alert.page for alert in ours)


def test_a_dashboard_is_whole() -> None:
    dashboard = json.loads(json.dumps(render_dashboard()))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(PANELS)
    assert all(panel["targets"] for panel in dashboard["panels"])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_the_recorders_unit_is_hardened_and_has_no_network(tmp_path: Path) -> None:
    unit = tmp_path / "zombiescope-profile.service"
    unit.write_text(render_unit("/bin/true", "recorder"), encoding="utf-8")
    verified = run("systemd-analyze", "verify", str(unit))
    assert "zombiescope-profile.service" not in verified.stderr, verified.stderr
    scored = run("systemd-analyze", "security", "--offline=true", "--threshold=30", str(unit))
    assert scored.returncode == 0, scored.stdout[-300:] + scored.stderr
    assert "PrivateNetwork=yes" in unit.read_text()


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
