# SPDX-License-Identifier: Apache-2.0
"""A Deployment that loops from the start of the cluster on, until a test sees what goes with its pods."""

from __future__ import annotations

from tests.kubernetes.any_cluster import AnyCluster
from tests.kubernetes.workloads import Object, crashing_deployment, namespace

NAMESPACE, NAME = "depot", "leaving"
MAKER = f"workload:{NAMESPACE}/Deployment/{NAME}"


def begin(cluster: AnyCluster) -> None:
    """Its containers write to an emptyDir on disk, to one in memory, and into their own layers: two each."""
    made = crashing_deployment(NAME, 1, 6)
    made["metadata"]["namespace"] = NAMESPACE
    pod: Object = made["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "memory", "emptyDir": {"medium": "Memory"}})
    for container in pod["containers"][:2]:
        container["volumeMounts"][0]["name"] = "memory"
    for container in pod["containers"][2:4]:
        container["args"][1] = "/"
        del container["volumeMounts"]
    cluster.apply(namespace(NAMESPACE), made)


def restarts(cluster: AnyCluster) -> list[int]:
    pods = cluster.get("pods", "--namespace", NAMESPACE, "--selector", f"app={NAME}")["items"]
    return [each["restartCount"] for pod in pods for each in pod["status"].get("containerStatuses", [])]
