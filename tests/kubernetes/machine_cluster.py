# SPDX-License-Identifier: Apache-2.0
"""The whole cluster in a machine of the kernel matrix: cgroup v2, systemd's driver. kubectl runs here, through a port.

`python -m tests.kubernetes.machine_cluster IMAGE.tar ...` starts one and waits: to look around by hand.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from tests.kubernetes.any_cluster import MOST_SECONDS, TOP, AnyCluster, ClusterError, said
from tests.kubernetes.build import PROGRAM, Programs, ensure
from tests.kubernetes.images import workload_images
from tests.kubernetes.machine_node import DOOR_PORT, JOB, NO_PINGS
from tests.kubernetes.settings import API_PORT, kubeconfig, plain_kubeconfig, write_settings
from tests.server.running import free_port
from tests.vm.build import Store
from tests.vm.cells import cell_named
from tests.vm.machine import CARD, STOP, Outcome, run_job
from tests.vm.modules import kernel_modules

CELL = "6.1-v2"
RESULTS = TOP / "build/kubernetes-machine/cluster"
_CARRIED = ("kubernetes/machine_node.py", "kubernetes/node.py", "kubernetes/settings.py", "fleet_real/in_machine.py")
_PROGRAMS = ("bin/etcd", "bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr", "sbin/runc")
_PLUGINS = ("lib/cni/bridge", "lib/cni/host-local", "lib/cni/loopback")
_MODULES = (*CARD, "veth", "bridge", "overlay")
_RUN = """#!/bin/sh
cd /job/checkout && exec python3 -m tests.kubernetes.machine_node
"""
_MOST_PROCESSOR_SECONDS = 3600.0
_PATIENCE = 8.0
_TRIES = 8
_TOO_SLOW = ("(Timeout)", "timed out", "handshake timeout", "deadline exceeded", "connection reset", "unexpected EOF")
_LEAST_LEFT_SECONDS = 600.0


class MachineCluster(AnyCluster):
    """`with MachineCluster.started() as cluster`."""

    patience = _PATIENCE
    program = str(JOB / "zombiescope")
    to_apply = ("apply", "--validate=false", "--openapi-patch=false")
    """Else the whole description of the API is asked for each time: half a minute there."""

    def __init__(self, programs: Programs, job: Path, ports: tuple[int, int], running: Future[Outcome]) -> None:
        self.programs, self._running = programs, running
        api_port, self._door_port = ports
        self._direct = job.with_name("direct.kubeconfig")
        self._direct.write_text(json.dumps(kubeconfig(job / "node/pki", "admin", api_port)))
        self.kubeconfig = job.with_name("admin.kubeconfig")
        self._proxy: subprocess.Popen[bytes] | None = None
        self.outcome: Outcome | None = None

    @classmethod
    def started(cls, images: Sequence[Path] = ()) -> Self:
        ports, store = (free_port(), free_port()), Store()
        forwarded = (ports[0], API_PORT), (ports[1], DOOR_PORT)
        cell = replace(cell_named(CELL), cpus=1, memory_megabytes=3584, swap_megabytes=0, forwarded=forwarded)
        store.ensure([cell.image], [cell.kernel_part])
        programs = ensure()
        job = staged(RESULTS / "job", programs, images, kernel_modules(store, cell.kernel_part, _MODULES, CARD[:1]))
        machines = ThreadPoolExecutor(1)
        running = machines.submit(run_job, store, cell, job, RESULTS / "out", _MOST_PROCESSOR_SECONDS)
        machines.shutdown(wait=False)
        cluster = cls(programs, job, ports, running)
        try:
            cluster.wait("the node is ready", cluster._is_ready, 4 * MOST_SECONDS)
            cluster._begin_proxy()
        except BaseException:
            STOP.set()
            raise
        return cluster

    def _begin_proxy(self) -> None:
        """One kubectl keeps a connection, and the others go through it: each TLS handshake would be seconds there."""
        port = free_port()
        words = [str(self.programs.kubectl), "--kubeconfig", str(self._direct), "proxy", f"--port={port}"]
        self._proxy = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *words, "--reject-paths=^$"],
            env={**os.environ, **NO_PINGS},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.kubeconfig.write_text(json.dumps(plain_kubeconfig(port)))
        self.wait("the proxy listens", lambda: listens_at(port))

    def _is_ready(self) -> bool:
        if self._running.done():
            raise ClusterError(f"{self._running.result().reason}\n{self._running.result().log()[-4000:]}")
        try:
            told = self._asked_door("/")
        except OSError:
            return False
        if "failed" in told:
            raise ClusterError(told["failed"])
        self.seconds_to_ready = told.get("ready", 0.0)
        return bool(self.seconds_to_ready)

    def _asked_door(self, path: str, order: dict[str, Any] | None = None, seconds: float = 30.0) -> dict[str, Any]:
        body = None if order is None else json.dumps(order).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self._door_port}{path}", body, seconds) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Its results are read, and its parts' logs lie beside them."""
        if self._proxy:
            self._proxy.kill()
            self._proxy.wait()
        try:
            self._asked_door("/end", {})
            self.outcome = self._running.result(_LEAST_LEFT_SECONDS)
        except BaseException:
            STOP.set()
            raise
        if self.outcome.status:
            raise ClusterError(f"{self.outcome.reason}\n{self.outcome.log()[-4000:]}")

    def run(self, *words: str, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
        order = {"words": words, "stdin": more.get("input")}
        told = self._asked_door("/run", order, MOST_SECONDS * self.patience)
        return said(subprocess.CompletedProcess(words, told["code"], told["stdout"], told["stderr"]), check=check)

    def kubectl_done(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Asked again where the API server was too slow: all that we ask of it may be asked twice."""
        done = self._kubectl_once(*words, **more)
        for _ in range(_TRIES - 1):
            if not (done.returncode and any(each in done.stderr for each in _TOO_SLOW)):
                break
            time.sleep(_PATIENCE)
            done = self._kubectl_once(*words, **more)
        return done

    def _kubectl_once(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.programs.kubectl), *words],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MOST_SECONDS * self.patience,
            env=self.environment,
            **more,
        )

    def answer(self, pod: dict[str, Any], path: str) -> str:
        """By way of the API server, which reaches the pod."""
        about = pod["metadata"]
        return self.kubectl(
            "get", "--raw", f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}:9753/proxy{path}"
        )


def listens_at(port: int) -> bool:
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0


def staged(job: Path, programs: Programs, images: Sequence[Path], modules: Sequence[Path]) -> Path:
    shutil.rmtree(job, ignore_errors=True)
    for name in _CARRIED:
        (job / "checkout/tests" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / "tests" / name, job / "checkout/tests" / name)
    for name in (*_PROGRAMS, *_PLUGINS):
        (job / "root/usr" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(programs.root / "usr" / name, job / "root/usr" / name)
    shutil.copy(programs.hyper, job / "hyper")
    shutil.copy(PROGRAM, job / "zombiescope")
    write_settings(job / "node", JOB / "node", JOB / "root", systemd=True, status_seconds=30)
    for image in (*workload_images(job / "images"), *images):
        if image.parent != job / "images":
            shutil.copy(image, job / "images")
    (job / "images/workload").unlink()
    (job / "modules").mkdir()
    for module in modules:
        shutil.copy(module, job / "modules")
    (job / "modules/order").write_text("\n".join(module.name for module in modules))
    (job / "run").write_text(_RUN)
    (job / "run").chmod(0o755)
    return job


def main() -> None:
    began = time.monotonic()
    with MachineCluster.started([Path(name).absolute() for name in sys.argv[1:]]) as cluster:
        print(f"ready after {cluster.seconds_to_ready:.1f} s, seen after {time.monotonic() - began:.1f} s:\n")
        print(f"  export KUBECONFIG={cluster.kubeconfig} PATH={cluster.programs.kubectl.parent}:$PATH")
        print("\nEnter, or the end of standard input, stops it.", flush=True)
        sys.stdin.readline()
    assert cluster.outcome
    print(cluster.outcome.cost())


if __name__ == "__main__":
    main()
