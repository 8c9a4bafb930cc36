# SPDX-License-Identifier: Apache-2.0
"""A small real fleet: two machines of the kernel matrix in which a unit loops, two agents on this host, a real Prometheus over all
four. `make test-fleet-real`. Commands and page name the two; what four nodes cannot tell is said so."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright
from tests.browser.conftest import CHROMIUM
from tests.fleet_real.machines import machine, told
from tests.server.running import PROGRAM, ended, fetch, free_port, running_agent, wait_for
from tests.server.test_fleet_rules import prometheus
from tests.vm.machine import STOP

from zombiescope.presenters.prometheus_rules import render_fleet_rules

MACHINES = {"machine-61": ("6.1-v1", "img-2024"), "machine-612": ("6.12-v2-numa", "img-2024")}
HOSTS = {"host-a": "img-2025", "host-b": "img-2026"}
PATIENCE_SECONDS = 1800.0
"""Emulated machines beside whatever else runs here."""
GROWS = "zombie-growth"
"""What the agent finds where a unit loops and leaves files behind. This host must not leak by itself meanwhile."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("fleet")
    with ExitStack() as stack:
        stack.callback(STOP.clear)
        addresses: dict[str, str] = {}
        for name, (cell, image) in MACHINES.items():
            addresses[name] = stack.enter_context(machine(folder / name, cell, image, looping=True))
        for name, image in HOSTS.items():
            place = folder / name
            place.mkdir()
            settings = f'[agent]\ninterval_seconds = 5\nimage = "{image}"\n'
            address, _ = stack.enter_context(running_agent(place, settings))
            addresses[name] = address.removeprefix("http://")
        for name in MACHINES:
            health = f"http://{addresses[name]}/healthz"
            answers = wait_for(partial(fetch, health), PATIENCE_SECONDS, 2.0)
            assert answers, told(folder / name)
        targets = [
            {"targets": [address], "labels": {"node": name, "kind": "machine" if name in MACHINES else "host"}}
            for name, address in addresses.items()
        ]
        patient = {"scrape_interval": "15s", "scrape_timeout": "15s"}
        scrapes = json.dumps([{"job_name": "zombiescope", **patient, "static_configs": targets}])
        found = stack.enter_context(prometheus(folder, scrapes, render_fleet_rules(("kind", "image"))))
        growing = f'count(zombiescope_finding{{id="{GROWS}",kind="machine"}}) == 2'
        assert wait_for(lambda: found.query(growing), PATIENCE_SECONDS, 2.0), [told(folder / name) for name in MACHINES]
        restarts = 'count(increase(zombiescope_unit_restarts_total{kind="machine"}[10m]) > 0) == 2'
        assert wait_for(lambda: found.query(restarts), PATIENCE_SECONDS, 2.0)
        assert not found.query(f'zombiescope_finding{{id="{GROWS}",kind="host"}}'), "this host leaks by itself"
        yield found.address


def ask(server: str, *words: str) -> subprocess.CompletedProcess[str]:
    source = ["--prometheus", server, "--node-label", "node"]
    return subprocess.run([*PROGRAM, "fleet", *words, *source], capture_output=True, text=True, check=True)


def document(server: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ask(server, *words, "--json").stdout)
    return found


def test_the_fleet_is_diagnosable(server: str) -> None:
    assert document(server, "doctor")["verdict"].startswith("diagnosable")


def test_nodes_lists_the_two_that_loop_first(server: str) -> None:
    print(ask(server, "nodes").stdout)

    def everybody() -> list[dict[str, Any]]:
        """A scrape that failed makes its node unknown until the next one."""
        nodes: list[dict[str, Any]] = document(server, "nodes")["nodes"]
        return [] if any(node["zombies"] is None for node in nodes) else nodes

    found = {node["node"]: node for node in wait_for(everybody, PATIENCE_SECONDS, 5.0)}
    assert set(found) == {*MACHINES, *HOSTS}
    for name in MACHINES:
        assert GROWS in found[name]["findings"], found[name]
        assert found[name]["restarts"] > 0
        assert found[name]["growth_per_hour"] > 100
        assert found[name]["severity"] in ("warning", "critical")
        assert found[name]["labels"]["image"] == "img-2024"
    kernels = {found[name]["labels"]["kernel"] for name in MACHINES}
    assert len(kernels) == 2
    for name in HOSTS:
        assert GROWS not in found[name]["findings"]


def test_cohorts_says_what_four_nodes_can_tell_and_what_they_cannot(server: str) -> None:
    print(ask(server, "cohorts", "--sick", GROWS).stdout)

    def compared() -> dict[str, Any]:
        found = document(server, "cohorts", "--sick", GROWS)
        return found if found["nodes_sick"] == 2 else {}

    found = wait_for(compared, PATIENCE_SECONDS, 5.0)
    assert (found["nodes"], found["causes"]) == (4, 0)
    assert found["verdict"].startswith("2 of 4 nodes are sick: too few nodes to tell what sets them apart")
    assert "all sick nodes and no others have image img-2024 and kind machine, which may be chance" in found["verdict"]
    assert found["too_small"][0] == {"labels": {"image": "img-2024"}, "nodes": 2, "sick": 2}


def test_the_page_says_so_and_leads_to_the_agent_in_the_machine(server: str, tmp_path: Path) -> None:
    command = [*PROGRAM, "fleet", "serve", "--prometheus", server, "--node-label", "node", "--sick", GROWS]
    command += ["--listen", f"127.0.0.1:{free_port()}"]
    with (
        ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as serving,
        sync_playwright() as playwright,
    ):
        assert serving.stdout is not None
        address = serving.stdout.readline().strip()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.goto(f"{address}#/fleet?n=machine-61&by=kind")
        page.wait_for_selector("#app[data-ready=true] #node")
        assert page.inner_text("h1") == "2 of 4 nodes are sick: too few nodes to tell what sets them apart."
        assert "have image img-2024 and kind machine, which may be chance" in page.inner_text("#verdict")
        assert GROWS in page.inner_text("#node")
        page.screenshot(path=str(tmp_path / "fleet.png"), full_page=True)
        print(f"picture: {tmp_path / 'fleet.png'}")
        page.click(".nodepage")
        page.wait_for_selector("#app[data-ready=true] #verdict")
        assert "unused-agent.service" in page.inner_text("main"), page.inner_text("main")
        page.screenshot(path=str(tmp_path / "node.png"), full_page=True)
        browser.close()
