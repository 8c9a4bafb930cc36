# SPDX-License-Identifier: Apache-2.0
"""On cgroup v2 with the systemd driver, in machines of the kernel matrix: on demand, by emulation. One has no API server: pods are
static, and the cluster is told nothing. The other has a whole cluster, in which test_story.py tells its story."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.build import PROGRAM, ensure
from tests.kubernetes.images import workload_images
from tests.kubernetes.machine_cluster import MachineCluster
from tests.kubernetes.settings import NODE, kubelet_settings, runtime_settings
from tests.kubernetes.workloads import container, pod_spec
from tests.vm.build import Store
from tests.vm.cells import cell_named
from tests.vm.machine import Outcome, run_job
from tests.vm.recipe import REPOSITORY
from tools.image.__main__ import write_image

from zombiescope import __version__

HERE = Path(__file__).parent
RESULTS = REPOSITORY / "build/kubernetes-machine"
MANIFESTS = REPOSITORY / "deploy/kubernetes"
CONTAINERS = 2
CLUSTER = "prod-eu-1"
CRASHY = "workload:shop/StaticPod/crashy"
TIMEOUT_SECONDS = 2400
pytestmark = [
    pytest.mark.on_demand,
    pytest.mark.skipif(not os.environ.get("ZOMBIESCOPE_KUBERNETES_MACHINE"), reason="make test-kubernetes-machine"),
]


def static_pod() -> dict[str, Any]:
    made = [container(f"c{at}", "crash", "/data", "16") for at in range(CONTAINERS)]
    spec = pod_spec(*made, hostNetwork=True)
    del spec["automountServiceAccountToken"]
    spec["volumes"] = [{"name": "data", "hostPath": {"path": "/var/data", "type": "DirectoryOrCreate"}}]  # outlives it
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "crashy", "namespace": "shop"}, "spec": spec}


def agent_pod() -> dict[str, Any]:
    """Of our DaemonSet, as a static pod: without what only a cluster can give it."""
    daemon_set = yaml.safe_load((MANIFESTS / "base/daemonset.yaml").read_text())
    spec = daemon_set["spec"]["template"]["spec"]
    for name in ("serviceAccountName", "automountServiceAccountToken", "priorityClassName", "nodeSelector"):
        del spec[name]
    agent = spec["containers"][0]
    agent["image"] = f"zombiescope:{__version__}"
    agent["env"].append({"name": "ZOMBIESCOPE_AGENT_KUBERNETES_CLUSTER", "value": CLUSTER})
    for probe in ("readinessProbe", "livenessProbe"):
        del agent[probe]  # an emulated machine is slow, and nobody asks
    spec["hostNetwork"] = True
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "zombiescope", "namespace": "ours"}, "spec": spec}


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
    write_image(PROGRAM.parent, job / "images/zombiescope.tar", ["x86_64"])
    (job / "containerd.toml").write_text(
        runtime_settings("/etc/zs", "/job/bin/runc", "/job/bin", systemd=True, snapshotter="native")
    )
    kubelet = {**kubelet_settings(systemd=True), "staticPodPath": "/etc/zs/manifests", "address": "127.0.0.1"}
    kubelet |= {"authorization": {"mode": "AlwaysAllow"}, "authentication": {"webhook": {"enabled": False}}}
    (job / "kubelet.json").write_text(json.dumps(kubelet))
    for name, pod in (("crashy", static_pod()), ("agent", agent_pod())):
        (job / f"{name}.json").write_text(json.dumps(pod))
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


@pytest.mark.parametrize("name", ["autopsy.json", "autopsy-after.json"])
def test_the_autopsy_names_the_pod_also_when_it_is_gone(outcome: Outcome, name: str) -> None:
    """On the node itself nobody remembered: there a pod that is gone has its uid."""
    makers = {each["maker"]: each["zombies"] for each in read(outcome, name)["totals"]["by_maker"]}
    wanted = CRASHY if name == "autopsy.json" else "pod:"
    assert sum(zombies for maker, zombies in makers.items() if maker.startswith(wanted)) >= CONTAINERS, makers


@pytest.mark.parametrize("name", ["doctor.json", "page-doctor.json"])
def test_the_doctor_and_the_page_name_the_pod_that_loops(outcome: Outcome, name: str) -> None:
    findings = {each["id"]: each for each in read(outcome, name)["findings"]}
    loop = findings["looping-container"]
    assert (loop["verdict"], "shop/crashy" in loop["summary"]) == ("present", True)
    assert "zombiescope" not in loop["summary"]


def test_the_pod_that_is_gone_loops_no_more(outcome: Outcome) -> None:
    findings = {each["id"]: each for each in read(outcome, "page-doctor-after.json")["findings"]}
    assert "shop/crashy" not in findings["looping-container"]["summary"]


@pytest.mark.parametrize("name", ["metrics", "metrics-after"])
def test_the_metrics_of_the_agent_in_its_pod_name_it_also_when_it_is_gone(outcome: Outcome, name: str) -> None:
    lines = (outcome.folder / name).read_text().splitlines()
    makers = [line for line in lines if line.startswith("zombiescope_memcg_maker_zombies")]
    named = [float(line.rsplit(" ", 1)[1]) for line in makers if f'maker="{CRASHY}' in line]
    assert named, makers
    assert named[0] >= CONTAINERS
    (about,) = (line for line in lines if line.startswith("zombiescope_node_info"))
    assert f'cluster="{CLUSTER}"' in about
    assert 'hierarchy="v2"' in about


def test_the_page_is_served(outcome: Outcome) -> None:
    assert 'id="app"' in (outcome.folder / "page.html").read_text()
    assert read(outcome, "page-doctor.json")["host"]["name"] == NODE


def test_a_whole_cluster_is_on_v2_with_systemds_driver_too(machine_cluster: MachineCluster) -> None:
    said = machine_cluster.run(machine_cluster.program, "scan", "--json").stdout
    assert json.loads(said)["memcg"]["hierarchy"] == "v2"
    found = machine_cluster.run("find", "/sys/fs/cgroup", "-type", "d", "-path", "*kubepods*").stdout
    assert "/kubepods.slice" in found
