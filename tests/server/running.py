# SPDX-License-Identifier: Apache-2.0
"""A real agent and a real Prometheus on free loopback ports, for as long as a test needs them."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.product import PRODUCT

PROGRAM = list(PRODUCT)
PATIENCE_SECONDS = 180.0
"""Only a test that fails waits so long: no machine is too slow, nor too busy."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch(address: str, accept: str = "") -> tuple[str, bytes]:
    request = urllib.request.Request(address, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        return answer.headers["Content-Type"], answer.read()


def wait_for(is_so: Callable[[], Any], seconds: float = PATIENCE_SECONDS, step: float = 0.5) -> Any:
    end = time.monotonic() + seconds
    while True:
        try:
            found = is_so()
        except (OSError, urllib.error.URLError, KeyError, IndexError):
            found = None
        if found or time.monotonic() > end:
            return found
        time.sleep(step)


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def running_agent(
    folder: Path, settings: str = "", state: Path | None = None, program: Sequence[str] = PROGRAM
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    port = free_port()
    config = folder / "agent.toml"
    config.write_text(settings or "[agent]\ninterval_seconds = 1\n", encoding="utf-8")
    arguments = ["--listen", f"127.0.0.1:{port}", "--state", str(state or folder / "state"), "--config", str(config)]
    with open(folder / "agent.err", "w", encoding="utf-8") as errors:
        process = subprocess.Popen([*program, "agent", *arguments], stderr=errors, text=True)
    with ended(process):
        address = f"http://127.0.0.1:{port}"
        assert wait_for(lambda: fetch(address + "/healthz")[1].startswith(b"ok\n")), (folder / "agent.err").read_text()
        yield address, process


class Prometheus:
    def __init__(self, address: str) -> None:
        self.address = address

    def query(self, expression: str) -> list[dict[str, Any]]:
        _, body = fetch(f"{self.address}/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        answer = json.loads(body)
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def firing(self) -> set[str]:
        _, body = fetch(f"{self.address}/api/v1/alerts")
        return {each["labels"]["alertname"] for each in json.loads(body)["data"]["alerts"] if each["state"] == "firing"}


@contextmanager
def running_prometheus(folder: Path, target: str, rules: str) -> Iterator[Prometheus]:
    (folder / "rules.yml").write_text(rules, encoding="utf-8")
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\nscrape_configs:\n"
        f"- job_name: zombiescope\n  static_configs: [{{targets: ['{target.removeprefix('http://')}']}}]\n",
        encoding="utf-8",
    )
    address = f"127.0.0.1:{free_port()}"
    arguments = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    with open(folder / "prometheus.err", "w", encoding="utf-8") as errors:
        process = subprocess.Popen(["prometheus", *arguments], stderr=errors, text=True)
    with ended(process):
        server = Prometheus(f"http://{address}")
        assert wait_for(lambda: fetch(f"http://{address}/-/ready")), (folder / "prometheus.err").read_text()[-2000:]
        yield server
