# SPDX-License-Identifier: Apache-2.0
"""Pods by kubelet's log folders: names and workloads, what restarts now and what did long ago, and never our own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.build import case
from tests.unit.kube_nodes import CRASHY, STATIC, UID_A, UID_B, UID_C, KubeNode, id_of

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.pods import PodsSeen
from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.containers import own_pod
from zombiescope.watching import pods as watching
from zombiescope.watching.pods import PodLogs, PodsTeller, PodsWatch, names_now

V1 = Hierarchy(HierarchyVersion.V1, b"/sys/fs/cgroup/memory", False, "")
NOW = 1_700_000_000.0


class Node(LiveHost):
    """A node whose clock stands still."""

    def wall_clock(self) -> float:
        return NOW


@pytest.fixture
def node(tmp_path: Path) -> KubeNode:
    (tmp_path / "sys/fs/cgroup/memory").mkdir(parents=True)
    return KubeNode(tmp_path, NOW)


def host_of(node: KubeNode) -> Node:
    return Node(str(node.root).encode())


def runs(node: KubeNode, uid: str, number: str) -> None:
    (node.root / f"sys/fs/cgroup/memory/kubepods/pod{uid}/{number}").mkdir(parents=True)


def seen(node: KubeNode, then: object = None) -> PodsSeen:
    watch = PodsWatch(host_of(node), V1)
    if callable(then):
        then()
    found = watch.seen()
    assert isinstance(found, PodsSeen)
    return found


def test_old_restarts_of_a_pod_that_runs_are_no_loop(node: KubeNode) -> None:
    """Fault 3: a pod Running 1/1 with three old restarts was a warning."""
    number = node.container("default", "steady", UID_A, "steady", restarts=3, started_ago=3600, pause=20)
    runs(node, UID_A, number)
    assert seen(node).loops == ()


def test_a_pod_that_healed_a_moment_ago_is_no_loop(node: KubeNode) -> None:
    number = node.container("default", "healed", UID_A, "c", restarts=4, started_ago=15, pause=40)
    runs(node, UID_A, number)
    assert seen(node).loops == ()


def test_old_restarts_of_a_pod_that_does_not_run_are_no_loop_either(node: KubeNode) -> None:
    node.container("default", "done", UID_A, "c", restarts=7, started_ago=7200)
    assert seen(node).loops == ()


@pytest.mark.parametrize("is_running", [False, True])
def test_a_container_between_two_restarts_loops(node: KubeNode, *, is_running: bool) -> None:
    """Waiting for its next start; or started a moment ago, sooner than the last two were apart."""
    number = node.container("shop", CRASHY, UID_A, "c0", restarts=5, started_ago=4, pause=160)
    if is_running:
        runs(node, UID_A, number)
    (loop,) = seen(node).loops
    assert (loop.maker, loop.pod, loop.container, loop.restarts) == (
        "workload:shop/Deployment/crashy",
        f"shop/{CRASHY}",
        "c0",
        5,
    )


@pytest.mark.parametrize(
    "form",
    [
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice/cri-containerd-{id}.scope",
        "kubepods.slice/kubepods-pod{under}.slice/crio-{id}.scope",
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{under}.slice/cri-containerd-{id}.scope",
        "kubepods/besteffort/pod{uid}/crio-{id}",
        "system.slice/k3s.service/kubepods/pod{uid}/{id}",
        "system.slice/containerd.service/kubepods-burstable-pod{under}.slice:cri-containerd:{id}",
    ],
)
def test_a_container_that_runs_is_found_by_either_driver(node: KubeNode, form: str) -> None:
    number = node.container("default", "healed", UID_A, "c", restarts=4, started_ago=15, pause=5)
    lies = form.format(under=UID_A.replace("-", "_"), uid=UID_A, id=number)
    (node.root / "sys/fs/cgroup/memory" / lies).mkdir(parents=True)
    # kubelet's own folder of the pod, where the runtime's driver is another one
    (node.root / "sys/fs/cgroup/memory/kubepods.slice" / f"kubepods-pod{UID_A.replace('-', '_')}.slice").mkdir(
        parents=True, exist_ok=True
    )
    assert seen(node).loops == ()


def test_a_restart_while_we_look_is_a_loop_from_the_third_on(node: KubeNode) -> None:
    node.container("shop", CRASHY, UID_A, "c0", restarts=2)
    node.container("shop", "other", UID_B, "c0", restarts=0)

    def later() -> None:
        runs(node, UID_A, node.container("shop", CRASHY, UID_A, "c0", restarts=3, started_ago=1))
        runs(node, UID_B, node.container("shop", "other", UID_B, "c0", restarts=1, started_ago=1))

    (loop,) = seen(node, later).loops
    assert loop.restarts == 3
    assert "1 of them while we looked" in loop.why


def test_our_own_restarts_are_nobodys_loop(node: KubeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor those of the pod that the DaemonSet had on this node before."""
    node.container("zombiescope", "zombiescope-x9zbt", UID_A, "agent", restarts=5)
    node.container("shop", CRASHY, UID_C, "c0", restarts=5)
    monkeypatch.setattr(watching, "read_own_pod", lambda _: UID_A)
    found = seen(node)
    assert found.own == "workload:zombiescope/DaemonSet/zombiescope"
    assert [loop.maker for loop in found.loops] == ["workload:shop/Deployment/crashy"]


def test_our_own_pod_is_known_by_what_kubelet_mounted() -> None:
    line = f"1 2 8:1 /var/lib/kubelet/pods/{UID_A}/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw"
    assert own_pod(line.encode(), b"0::/") == UID_A
    assert own_pod(b"", f"4:memory:/kubepods/burstable/pod{UID_B}/{'ab' * 32}\n".encode()) == UID_B
    assert own_pod(b"", f"0::/kubepods.slice/kubepods-pod{UID_B.replace('-', '_')}.slice/x".encode()) == UID_B
    assert own_pod(b"garbage\n 1", b"0::/user.slice") == ""


def test_names_workloads_and_containers_are_read_from_folders_alone(node: KubeNode) -> None:
    node.container("shop", CRASHY, UID_A, "c0")
    node.pod("kube-system", "etcd-n1", STATIC)
    (node.root / "var/log/pods/not_a").mkdir()
    (node.root / "var/log/pods/file").write_text("")
    known = names_now(host_of(node))
    assert known.makers == {UID_A: "workload:shop/Deployment/crashy", STATIC: "workload:kube-system/StaticPod/etcd"}
    assert known.containers == {id_of(UID_A, "c0", 0): "c0"}
    assert known.node == "n1"


def test_hostile_names_stay_printable(node: KubeNode) -> None:
    node.container("n\ns", "p\x1b[31m<b>", UID_A, "c\n", restarts=4)
    (loop,) = seen(node).loops
    assert loop.maker == r"workload:n\x0as/Pod/p\x1b[31m<b>"
    assert loop.container == r"c\x0a"


def test_after_the_first_time_only_what_is_new_is_read(node: KubeNode) -> None:
    node.container("shop", CRASHY, UID_A, "c0", restarts=1)
    node.container("shop", "db-0", UID_B, "c0", restarts=0)
    logs = PodLogs(host_of(node))
    assert {key[0]: each.restarts for key, each in logs.read().items()} == {UID_A: 1, UID_B: 0}
    node.container("shop", CRASHY, UID_A, "c0", restarts=2)
    assert {key[0]: each.restarts for key, each in logs.read().items()} == {UID_A: 2, UID_B: 0}
    node.forget("shop", "db-0", UID_B)
    assert {key[0] for key in logs.read()} == {UID_A}


def test_without_a_kubelet_it_is_a_gap_and_a_folder_that_is_refused_says_so(tmp_path: Path) -> None:
    found = PodsWatch(Node(str(tmp_path).encode()), V1).seen()
    assert isinstance(found, Gap)
    assert "no pod" in found.reason


def test_the_agent_is_told_names_and_loops(node: KubeNode) -> None:
    node.container("shop", CRASHY, UID_A, "c0", restarts=5)
    teller = PodsTeller(host_of(node), V1)
    reading = teller.read()
    assert not isinstance(reading, Gap)
    assert [pod.maker for pod in reading.pods] == ["workload:shop/Deployment/crashy"]
    assert reading.containers == ((id_of(UID_A, "c0", 5), "c0"),)
    assert not reading.samples
    judged = teller.fill(case()).pods  # what its doctor and its condition are judged by: fault 6
    assert isinstance(judged, PodsSeen)
    assert [loop.maker for loop in judged.loops] == ["workload:shop/Deployment/crashy"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"kubelet\0--config=x\0--hostname-override=n7\0", "n7"),
        (b"k3s\0server\0--node-name\0n7.example\0", "n7.example"),
        (b"kubelet\0--config=x\0", "n1"),
    ],
)
def test_the_node_is_called_as_kubelet_was_told(node: KubeNode, line: bytes, name: str) -> None:
    node.container("shop", CRASHY, UID_A, "c0")
    (node.root / "proc/70").mkdir()
    (node.root / "proc/70/comm").write_text("kubelet\n")
    (node.root / "proc/70/cmdline").write_bytes(line)
    assert seen(node).node == name
