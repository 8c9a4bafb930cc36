# SPDX-License-Identifier: Apache-2.0
"""The overlays that the story does not run: each starts on the node as it is, answers, and goes without a trace. Both at once, in
namespaces of their own, because a pod's start is mostly waiting."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.kubernetes import asking
from tests.kubernetes.asking import OURS, OVERLAYS
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.settings import NODE

METRICS_ONLY, WITH_PROFILES = BOTH = "metrics-only", "with-profiles"
CAPTURES = "/captures"
CLUSTER = "prod-eu-1"
Object = dict[str, Any]


def rendered(cluster: Cluster, overlay: str) -> list[Object]:
    """In a namespace of its own. Only the profiles' segments are shorter than an operator would have them."""
    objects = [each for each in yaml.safe_load_all(cluster.kubectl("kustomize", str(OVERLAYS / overlay))) if each]
    for each in objects:
        if each["kind"] == "Namespace":
            each["metadata"]["name"] = overlay
        elif "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = overlay
        if each["kind"] == "DaemonSet":
            agent, *more = each["spec"]["template"]["spec"]["containers"]
            agent["readinessProbe"]["periodSeconds"] = 1
            agent["env"].append({"name": "ZOMBIESCOPE_AGENT_KUBERNETES_CLUSTER", "value": CLUSTER})
            for container in more:
                container["args"] += ["--segment", "2"]
    return objects


class Running:
    """Both, from their start to their end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._objects = [each for overlay in BOTH for each in rendered(cluster, overlay)]
        self.pods: dict[str, Object] = {}

    def start(self) -> None:
        self._cluster.apply(*self._objects)
        self.pods = self._cluster.wait("both overlays are ready", self._ready)

    def _ready(self) -> dict[str, Object]:
        pods = {overlay: asking.agent_pod(self._cluster, overlay) for overlay in BOTH}
        return pods if all(map(asking.is_ready, pods.values())) else {}

    def says(self, overlay: str, container: str, *words: str) -> Any:
        pod = self.pods[overlay]["metadata"]["name"]
        where = ("exec", "--namespace", overlay, pod, "--container", container, "--", "/usr/local/bin/zombiescope")
        return json.loads(self._cluster.kubectl(*where, *words, "--json"))

    def remove(self) -> None:
        """DaemonSets first: a namespace that still has pods waits for their longest time to end."""
        first = [each for each in self._objects if each["kind"] == "DaemonSet"]
        for objects, how in ((first, "foreground"), (self._objects, "background")):
            words = ("delete", "--ignore-not-found", f"--cascade={how}", "-f", "-")
            self._cluster.kubectl(*words, stdin=asking.as_list(objects))


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[Running]:
    started = Running(cluster)
    started.start()
    yield started
    started.remove()


def test_both_are_ready_and_their_metrics_answer(running: Running, cluster: Cluster) -> None:
    for pod in running.pods.values():
        found = asking.metrics(cluster, pod)
        assert found["zombiescope_memcg_counted"] > found["zombiescope_memcg_live"] > 1
        (about,) = (name for name in found if name.startswith("zombiescope_node_info"))
        assert f'cluster="{CLUSTER}"' in about
        assert all(each["restartCount"] == 0 for each in pod["status"]["containerStatuses"])


def test_metrics_alone_take_no_capability_and_no_user_0(running: Running, cluster: Cluster) -> None:
    pod = running.pods[METRICS_ONLY]
    number = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    (place,) = cluster.run("find", "/sys/fs/cgroup/memory/kubepods", "-type", "d", "-name", number).stdout.split()
    process = cluster.run("cat", f"{place}/cgroup.procs").stdout.split()[0]
    lines = cluster.run("cat", f"/proc/{process}/status").stdout.splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert int(status["CapEff"], 16) == 0
    assert set(status["Uid"].split()) == {"65532"}
    assert not any("maker_zombies" in name for name in asking.metrics(cluster, pod))


def test_profiles_are_kept(running: Running, cluster: Cluster) -> None:
    """As its recorder says: nothing in the image could draw them, or list files."""
    pod = running.pods[WITH_PROFILES]["metadata"]["name"]
    told = ("logs", "--namespace", WITH_PROFILES, pod, "--container", "profiles")
    stored = f"stored {CAPTURES}/"
    cluster.wait("two segments are stored", lambda: cluster.kubectl(*told).count(stored) >= 2, 60)
    after = asking.agent_pod(cluster, WITH_PROFILES)
    assert [each["restartCount"] for each in after["status"]["containerStatuses"]] == [0, 0]


def test_a_document_names_the_node_and_its_cluster(running: Running) -> None:
    host = running.says(WITH_PROFILES, "agent", "scan", "--root", "/host", "--no-bytes")["host"]
    assert (host["name"], host["cluster"]) == (NODE, CLUSTER)


def test_they_go_without_a_trace(running: Running, cluster: Cluster) -> None:
    running.remove()
    assert [left for name in (OURS, *BOTH) for left in asking.left_of_ours(cluster, name)] == []
