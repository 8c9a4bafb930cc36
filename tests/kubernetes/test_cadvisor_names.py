# SPDX-License-Identifier: Apache-2.0
"""The names of cAdvisor's series in our rules, panels and fleet view are those that a running kubelet serves."""

from __future__ import annotations

import re

from tests.kubernetes.any_cluster import TOP
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.settings import NODE
from tests.kubernetes.workloads import SHOP, container, healed_pod, namespace, pod_spec

KEPT = TOP / "tests/server/cadvisor-names.txt"
THROTTLED = "container_cpu_cfs_periods_total"


def served(cluster: Cluster) -> set[str]:
    text = cluster.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/metrics/cadvisor")
    return set(re.findall(r"(?m)^([a-z]\w+)[{ ]", text))


def test_what_we_keep_of_cadvisors_names_is_what_kubelet_serves(cluster: Cluster) -> None:
    limited = container("main", "heal", "/data", "2", "0")
    limited["resources"]["limits"]["cpu"] = "100m"
    pod = healed_pod("limited")
    pod["spec"] = pod_spec(limited)
    cluster.apply(namespace(), pod)
    try:
        names = cluster.wait("a limit is served", lambda: (found := served(cluster)) and THROTTLED in found and found)
        kept = {line.split(" ")[0] for line in KEPT.read_text(encoding="ascii").splitlines() if line[0] != "#"}
        assert {name for name in kept if name.startswith("container_cpu")} <= names
        assert len(kept & names) >= 0.9 * len(kept)
    finally:
        cluster.kubectl("delete", "pod", "limited", "--namespace", SHOP, "--wait=false")
