# SPDX-License-Identifier: Apache-2.0
"""The node's half of the story on cgroup v2 with the systemd driver, in a machine of the kernel matrix: on demand, by emulation."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.build import ensure
from tests.kubernetes.conftest import PROGRAM
from tests.kubernetes.images import workload_images
from tests.kubernetes.settings import kubelet_settings, runtime_settings
from tests.kubernetes.workloads import container, pod_spec
from tests.vm.build import Store
from tests.vm.cells import cell_named
from tests.vm.machine import Outcome, run_job
from tests.vm.recipe import REPOSITORY

HERE = Path(__file__).parent
RESULTS = REPOSITORY / "build/kubernetes-machine"
CONTAINERS = 2
TIMEOUT_SECONDS = 1500
pytestmark = [
    pytest.mark.on_demand,
    pytest.mark.skipif(not os.environ.get("ZOMBIESCOPE_KUBERNETES_MACHINE"), reason="make test-kubernetes-machine"),
]


def static_pod() -> dict[str, Any]:
    made = [container(f"c{at}", "crash", "/data", "16") for at in range(CONTAINERS)]
    spec = pod_spec(*made, hostNetwork=True)
    del spec["automountServiceAccountToken"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "crashy", "namespace": "shop"}, "spec": spec}


def staged(job: Path) -> Path:
    shutil.rmtree(job, ignore_errors=True)
    (job / "bin").mkdir(parents=True)
    programs = ensure()
    shutil.copy(programs.hyper, job / "bin/kubelet")
    for name in ("bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr", "sbin/runc", "lib/cni/loopback"):
        shutil.copy(programs.root / "usr" / name, job / "bin")
    shutil.copy(PROGRAM, job / "zombiescope")
    shutil.copy(HERE / "machine/run", job / "run")
    workload_images(job / "images")
    (job / "containerd.toml").write_text(
        runtime_settings("/etc/zs", "/job/bin/runc", "/job/bin", systemd=True, snapshotter="native")
    )
    kubelet = {**kubelet_settings(systemd=True), "staticPodPath": "/etc/zs/manifests", "address": "127.0.0.1"}
    kubelet |= {"authorization": {"mode": "AlwaysAllow"}, "authentication": {"webhook": {"enabled": False}}}
    (job / "kubelet.json").write_text(json.dumps(kubelet))
    (job / "crashy.json").write_text(json.dumps(static_pod()))
    (job / "cni.conf").write_text(json.dumps({"cniVersion": "0.4.0", "name": "lo", "type": "loopback"}))
    return job


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    cell = replace(cell_named("6.1-v2"), memory_megabytes=2048, swap_megabytes=0)
    store = Store()
    store.ensure([cell.image], [cell.kernel_part])
    done = run_job(store, cell, staged(RESULTS / "job"), RESULTS / "out", TIMEOUT_SECONDS)
    assert done.status == 0, f"{done.reason}, {done.cost()}\n{done.log()[-4000:]}"
    print(f"machine: {done.cost()}")
    return done


def read(outcome: Outcome, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((outcome.folder / name).read_text())
    return found


def test_the_driver_is_systemds_on_v2(outcome: Outcome) -> None:
    assert read(outcome, "scan.json")["memcg"]["hierarchy"] == "v2"
    assert "/kubepods.slice/kubepods-burstable.slice/" in (outcome.folder / "cgroups").read_text()


def test_the_autopsy_names_the_pod(outcome: Outcome) -> None:
    makers = {each["maker"]: each["zombies"] for each in read(outcome, "autopsy.json")["totals"]["by_maker"]}
    named = [name for name in makers if name.startswith("workload:shop/") and "crashy" in name]
    assert named, makers
    assert makers[named[0]] >= CONTAINERS


def test_the_doctor_names_the_pod_that_loops(outcome: Outcome) -> None:
    findings = {each["id"]: each for each in read(outcome, "doctor.json")["findings"]}
    loop = findings["looping-container"]
    assert (loop["verdict"], "shop/crashy" in loop["summary"]) == ("present", True)
