# SPDX-License-Identifier: Apache-2.0
"""A Deployment that loops from the start of the cluster on, until a test sees what goes with its pods."""

from __future__ import annotations

from tests.kubernetes.any_cluster import AnyCluster
from tests.kubernetes.workloads import Object, crashing_deployment, namespace

NAMESPACE, NAME = "depot", "leaving"
MAKER = f"workload:{NAMESPACE}/Deployment/{NAME}"


def begin(cluster: AnyCluster) -> None:
    """Half of its containers write to an emptyDir on disk, half to one in memory."""
    made = crashing_deployment(NAME, 1, 4)
    made["metadata"]["namespace"] = NAMESPACE
    pod: Object = made["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "memory", "emptyDir": {"medium": "Memory"}})
    for container in pod["containers"][::2]:
        container["volumeMounts"][0]["name"] = "memory"
    cluster.apply(namespace(NAMESPACE), made)


def restarts(cluster: AnyCluster) -> list[int]:
    pods = cluster.get("pods", "--namespace", NAMESPACE, "--selector", f"app={NAME}")["items"]
    return [each["restartCount"] for pod in pods for each in pod["status"].get("containerStatuses", [])]
