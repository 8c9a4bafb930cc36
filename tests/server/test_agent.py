# SPDX-License-Identifier: Apache-2.0
"""The agent as others meet it: a real Prometheus scrapes it, alerts fire for a leak and clear after the cure; signals, textfile."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.error
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_classic
from tests.server.calm import named
from tests.server.running import PATIENCE_SECONDS, PROGRAM, fetch, running_agent, running_prometheus, wait_for

from zombiescope.facts.metric_names import METRICS, MOST_SERIES
from zombiescope.presenters.grafana_dashboard import PANELS
from zombiescope.presenters.prometheus_rules import render_rules

QUICK = "[agent]\ninterval_seconds = 1\n[thresholds]\ngrowth_least_seconds = 10\n"
RUN = f"server-{os.getpid()}"
RUN_FOLDED = "server-*"
MAKER = "leaky-for-prometheus"


def lab(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*PROGRAM, "lab", *arguments], stdout=subprocess.DEVNULL, text=True)


def test_an_alert_fires_for_a_leak_and_clears_after_the_cure(tmp_path: Path) -> None:
    rules = render_rules().replace("for: 2m", "for: 1s")
    with running_agent(tmp_path, QUICK) as (address, _), running_prometheus(tmp_path, address, rules) as server:
        assert wait_for(lambda: server.query("zombiescope_memcg_counted"))
        for panel in PANELS:
            for expression, _ in panel.expressions:
                server.query(expression.replace("$instance", ".*"))
        assert "ZombiescopeAgentDown" not in server.firing()
        busy = lab("churn", "--rate", "100", "--seconds", "600", "--name", f"{RUN}-busy")
        leak = lab("leak", "--maker", MAKER, "--per-minute", "300", "--seconds", "600", "--name", RUN)
        try:
            query = f'zombiescope_memcg_maker_zombies{{maker="unit:{MAKER}.service"}}'
            assert wait_for(lambda: float(server.query(query)[0]["value"][1]) >= 20)
            assert wait_for(lambda: "ZombieMemcgGrowing" in server.firing()), fetch(address + "/api/v1/doctor")
            ours = f"unit:{MAKER}.service"
            assert wait_for(lambda: ours in named(address)[1]), named(address)
            assert not [maker for maker in named(address)[1] if f"/{RUN_FOLDED}-busy/" in maker]
        finally:
            for each in (leak, busy):
                each.send_signal(signal.SIGTERM)
                each.wait(PATIENCE_SECONDS)
            lab("clean", "--name", RUN).wait(PATIENCE_SECONDS)
        # On a shared host somebody else may leak: then the alert is theirs.
        assert wait_for(lambda: ours not in named(address)[1])
        assert wait_for(lambda: "ZombieMemcgGrowing" not in server.firing() or named(address)[1])
        assert float(server.query("zombiescope_events_lost_total")[0]["value"][1]) == 0


def test_both_text_formats_parse_and_stay_within_the_series_budget(tmp_path: Path) -> None:
    with running_agent(tmp_path) as (address, process):
        wait_for(lambda: b"memcg_maker_zombies" in fetch(address + "/metrics")[1], 20)
        kind, classic = fetch(address + "/metrics")
        assert kind.startswith("text/plain; version=")
        checked = subprocess.run(["promtool", "check", "metrics"], input=classic, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        samples = [sample for family in parse_classic(classic.decode()) for sample in family.samples]
        names = {(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples}
        assert len(names) == len(samples) <= MOST_SERIES
        known = {metric.name for metric in METRICS}
        assert {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name, _ in names} <= known
        kind, opened = fetch(address + "/metrics", "application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        assert {family.name for family in parse_openmetrics(opened.decode())}  # type: ignore[no-untyped-call]
        for page in ("scan", "doctor", "ledger", "config", "history"):
            kind, body = fetch(f"{address}/api/v1/{page}")
            assert kind == "application/json"
            found = json.loads(body)
            assert found["schema"] == f"zombiescope.{page}/1"
            if page == "config":
                assert set(found["threshold_origins"].values()) == {"default"}
                assert found["threshold_origins"].keys() == found["thresholds"].keys()
        with pytest.raises(urllib.error.HTTPError, match="400"):
            fetch(f"{address}/api/v1/history?seconds=lots")
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        assert peak <= 40 * 1024


def test_signals_the_textfile_and_what_systemd_hears(tmp_path: Path) -> None:
    hearing = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    hearing.bind(str(tmp_path / "notify"))
    hearing.settimeout(PATIENCE_SECONDS)
    config = tmp_path / "a.toml"
    config.write_text("[agent]\ninterval_seconds = 1\n", encoding="utf-8")
    textfile = tmp_path / "out.prom"
    arguments = ["--listen", "", "--state", "", "--textfile", str(textfile), "--config", str(config)]
    surroundings = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000000"}
    process = subprocess.Popen([*PROGRAM, "agent", *arguments], env=surroundings, stderr=subprocess.PIPE, text=True)
    try:
        heard = [hearing.recv(4096) for _ in range(3)]
        assert b"READY=1\nSTATUS=looking" in heard
        assert b"WATCHDOG=1" in heard
        assert wait_for(textfile.exists)
        assert {family.name for family in parse_classic(textfile.read_text())}
        config.write_text("[agent]\nintervall_seconds = 1\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        config.write_text('[agent]\ninterval_seconds = 2\nimage = "ami-1"\n', encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        assert wait_for(lambda: 'image="ami-1"' in textfile.read_text())
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0
        assert "read again" in said
    finally:
        process.kill()
        hearing.close()
    assert not list(tmp_path.glob("out.prom.*"))
