# SPDX-License-Identifier: Apache-2.0
"""Fault 12: names of pods, namespaces, workloads and containers are taken out of a recording, everyday words too, and it still fits
together."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.kube_nodes import CRASHY, UID_A, UID_B, KubeNode

from zombiescope.facts.plain import to_plain
from zombiescope.facts.pods import Owner, Pod, PodLoop, PodsSeen
from zombiescope.host.known_names import read_known_names
from zombiescope.host.live import LiveHost
from zombiescope.host.scrub import Scrubber
from zombiescope.watching.pods import checked

PODS = (
    Pod(UID_A, "shop", CRASHY, Owner("Deployment", "crashy")),
    Pod(UID_B, "default", "memory", Owner("Pod", "memory")),
)


def outcome() -> dict[str, object]:
    loop = PodLoop(UID_A, f"shop/{CRASHY}", "checkout", PODS[0].maker, 5, "restarted 5 times", "/var/log/pods")
    seen = PodsSeen(1.0, 2.0, PODS, (loop,), "/var/log/pods", containers=(("ab" * 32, "checkout"),))
    return {"pods": to_plain(seen, PodsSeen)}


def scrubber(tmp_path: Path, *, keeps_names: bool = False) -> Scrubber:
    node = KubeNode(tmp_path, 1e9)
    node.container("shop", CRASHY, UID_A, "checkout")
    node.container("default", "memory", UID_B, "steady")
    return Scrubber(read_known_names(LiveHost(str(tmp_path).encode())), keeps_names=keeps_names)


def test_no_name_of_a_pod_stays_and_makers_still_fit(tmp_path: Path) -> None:
    scrub = scrubber(tmp_path)
    clean = scrub.outcome("pods", outcome())
    text = json.dumps(clean)
    for name in ("shop", "crashy", "7d4b9c8f6", "x2z4k", "memory", "checkout", UID_A):
        assert name not in text, name
    found = checked(clean)
    assert isinstance(found, PodsSeen)
    remains = scrub.outcome("remains", {"makers": [[PODS[0].maker, 3], [PODS[1].maker, 1]]})
    assert [maker for maker, _ in remains["makers"]] == [pod.maker for pod in found.pods]
    assert found.loops[0].maker == found.pods[0].maker
    assert found.loops[0].pod == found.pods[0].called
    assert found.pods[1].namespace == "default", "everybody has that one"
    assert found.pods[0].owner.kind == "Deployment"
    path = scrub.path(f"/kubepods/burstable/pod{UID_A}/{'ab' * 32}".encode()).decode()
    assert f"pod{found.pods[0].uid}" in path


def test_an_everyday_word_is_a_name_only_where_a_name_is_meant(tmp_path: Path) -> None:
    scrub = scrubber(tmp_path)
    assert scrub.path(b"/sys/fs/cgroup/memory") == b"/sys/fs/cgroup/memory"


def test_names_stay_where_a_person_asked_for_that(tmp_path: Path) -> None:
    scrub = scrubber(tmp_path, keeps_names=True)
    scrub.learn([CRASHY.encode(), b"shop", b"checkout"])
    scrub.learn_outcome("remains", [PODS[0].maker])
    assert PODS[0].maker in json.dumps(scrub.outcome("pods", outcome()))


def test_the_name_of_the_node_in_its_cluster_is_a_hosts_name(tmp_path: Path) -> None:
    (tmp_path / "proc/70").mkdir(parents=True)
    (tmp_path / "proc/70/cmdline").write_bytes(b"kubelet\0--hostname-override=ip-10-0-0-7.ec2.internal\0")
    scrub = scrubber(tmp_path)
    assert scrub.outcome("pods", {"pods": ["ip-10-0-0-7.ec2.internal"]})["pods"][0].startswith("host")
