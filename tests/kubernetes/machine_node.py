# SPDX-License-Identifier: Apache-2.0
"""The node in an emulated machine, as its job: `python3 -m tests.kubernetes.machine_node`.

Beside the API server it has a door of its own: a command by POST, its end by POST /end. Both are led to the host's loopback.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from tests.fleet_real.in_machine import ADDRESS, MASK, bring_up
from tests.kubernetes.node import Parts, start_all
from tests.kubernetes.settings import NODE_ADDRESS, SERVICE_ADDRESS

JOB = Path("/job")
DOOR_PORT = 9478
_MOST_SECONDS = 2400.0
_CONTROLLERS = "deployment,replicaset,daemonset,job,cronjob,namespace,garbagecollector,nodelifecycle"
_CONTROLLERS += ",serviceaccount,serviceaccount-token"
NO_PINGS = {"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "0"}
PATIENT = {
    "etcd": ("--heartbeat-interval", "1000", "--election-timeout", "10000"),
    "kube-apiserver": (
        "--request-timeout=10m",
        "--etcd-compaction-interval=0",
        "--etcd-count-metric-poll-period=0",
        "--enable-priority-and-fairness=false",
    ),
    "kube-controller-manager": (f"--controllers={_CONTROLLERS}", "--node-monitor-grace-period=60m"),
    "kubelet": ("--housekeeping-interval=30s",),
}
"""Under emulation a second is short: nobody is given up for late, and what nobody needs here does not run."""


class PatientParts(Parts):
    """Memory is there, processor time is not; and a connection that is slow is not dead."""

    more_environment = MappingProxyType({"GOGC": "400", **NO_PINGS})


class Door(BaseHTTPRequestHandler):
    """`{"words": [...], "stdin": "..."}` in, how it ended out; GET says whether the node is ready."""

    state: ClassVar[dict[str, str | float]] = {}
    ended = threading.Event()

    def do_GET(self) -> None:
        self._answer(self.state)

    def do_POST(self) -> None:
        if self.path == "/end":
            self._answer({})
            self.ended.set()
            return
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        done = subprocess.run(
            asked["words"], check=False, capture_output=True, text=True, errors="replace", input=asked["stdin"]
        )
        self._answer({"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr})

    def _answer(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 (the name is the library's)
        return


def set_up() -> None:
    for module in (JOB / "modules/order").read_text().split():
        subprocess.run(["/sbin/insmod", str(JOB / "modules" / module)], check=True)
    ends = time.monotonic() + _MOST_SECONDS
    while not (cards := sorted(set(os.listdir("/sys/class/net")) - {"lo"})):
        assert time.monotonic() < ends, "no network card appeared"
        time.sleep(0.2)
    bring_up("lo", "127.0.0.1", "255.0.0.0")
    bring_up("lo:1", NODE_ADDRESS, "255.255.255.255")
    bring_up("lo:2", SERVICE_ADDRESS, "255.255.255.255")
    bring_up(cards[0], ADDRESS, MASK)
    for place in ("/var/lib/kubelet", "/var/log/pods", "/var/log/containers"):
        Path(place).mkdir(parents=True, exist_ok=True)
    (JOB / "node/manifests").mkdir()
    Path("/etc/resolv.conf").touch()


def main() -> None:
    began = time.monotonic()
    set_up()
    threading.Thread(target=ThreadingHTTPServer((ADDRESS, DOOR_PORT), Door).serve_forever, daemon=True).start()
    parts = PatientParts(JOB / "node", JOB / "hyper", JOB / "root", _MOST_SECONDS)
    try:
        start_all(parts, sorted((JOB / "images").glob("*.tar")), PATIENT)
        Door.state["ready"] = round(time.monotonic() - began, 1)
        while not Door.ended.wait(20):
            parts.check()
            print(f"node: {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        Door.state["failed"] = str(error)
        print(f"failed {error}", flush=True)
        Door.ended.wait(30)  # until it was heard
        sys.exit(1)
    finally:
        shutil.copytree(JOB / "node/log", "/out/logs")


if __name__ == "__main__":
    main()
