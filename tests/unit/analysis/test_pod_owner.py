# SPDX-License-Identifier: Apache-2.0
"""Which workload a pod belongs to: by the patterns that controllers use, by labels, by owner references."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kube_nodes import STATIC, UID_A, UID_B

from zombiescope.analysis.pod_owner import by_names, node_in, owner_by_labels, owner_by_name, owner_by_references
from zombiescope.facts.pods import Owner, workload_of

SAFE = "bcdfghjklmnpqrstvwxz2456789"


@pytest.mark.parametrize(
    ("name", "kind", "owner"),
    [
        ("crashy-7d4b9c8f6-x2z4k", "Deployment", "crashy"),
        ("my-app-web-5f94c5d4b8-2bq7k", "Deployment", "my-app-web"),
        ("coredns-74ff55c5b-2bq7k", "Deployment", "coredns"),
        ("db-0", "StatefulSet", "db"),
        ("db-main-12", "StatefulSet", "db-main"),
        ("kube-proxy-x9zbt", "DaemonSet", "kube-proxy"),
        ("hello-29384756-b7z5w", "CronJob", "hello"),
        ("hello-1605561600-b7z5w", "CronJob", "hello"),
        ("hello-10000003-b7z5w", "DaemonSet", "hello-10000003"),
        ("steady", "Pod", "steady"),
        ("my-tests", "Pod", "my-tests"),
        ("x-000123", "Pod", "x-000123"),
    ],
)
def test_a_name_tells_its_controller(name: str, kind: str, owner: str) -> None:
    found = owner_by_name(UID_A, name)
    assert (found.kind, found.name, found.is_guess) == (kind, owner, True)


@given(st.integers(0, 2**32 - 1), st.text(SAFE, min_size=5, max_size=5))
def test_every_hash_that_kubernetes_can_make_of_six_digits_or_more_is_known(number: int, tail: str) -> None:
    """`rand.SafeEncodeString(fmt.Sprint(hash))`, written once more."""
    template = "".join(SAFE[ord(digit) % len(SAFE)] for digit in str(number))
    found = owner_by_name(UID_A, f"web-{template}-{tail}")
    assert found == Owner("Deployment", "web") if number >= 100_000 else found.name


def test_a_static_pod_is_known_by_its_uid_and_loses_the_name_of_its_node() -> None:
    assert owner_by_name(STATIC, "kube-apiserver-n1", "n1") == Owner("StaticPod", "kube-apiserver", is_guess=False)
    assert node_in(["etcd-ip-10-0-0-1", "kube-apiserver-ip-10-0-0-1"]) == "ip-10-0-0-1"
    assert node_in(["etcd-n1"]) == ""


def test_two_pods_of_one_name_are_no_daemon_set() -> None:
    found = by_names([(UID_A, "ci", "build-x9zbt"), (UID_B, "ci", "build-b7z5w")])
    assert {pod.owner.kind for pod in found} == {"Job"}
    assert by_names([(UID_A, "ci", "build-x9zbt")])[0].maker == "workload:ci/DaemonSet/build"


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ({"pod-template-hash": "7d4b9c8f6"}, Owner("Deployment", "a", is_guess=False)),
        ({"rollouts-pod-template-hash": "7d4b9c8f6"}, Owner("Rollout", "a", is_guess=False)),
        ({"deploymentconfig": "a"}, Owner("DeploymentConfig", "a", is_guess=False)),
        ({"job-name": "a"}, Owner("Job", "a", is_guess=False)),
        ({"batch.kubernetes.io/job-name": "a-29384756"}, Owner("CronJob", "a")),
        (
            {"statefulset.kubernetes.io/pod-name": "a-7d4b9c8f6-x2z4k"},
            Owner("StatefulSet", "a-7d4b9c8f6", is_guess=False),
        ),
        (
            {"controller-revision-hash": "6f", "pod-template-generation": "1"},
            Owner("DaemonSet", "a-7d4b9c8f6", is_guess=False),
        ),
        ({"app": "a"}, None),
    ],
)
def test_labels_are_surer_than_a_name(labels: dict[str, str], owner: Owner | None) -> None:
    assert owner_by_labels(UID_A, "a-7d4b9c8f6-x2z4k", labels) == owner


def test_owner_references_are_the_surest() -> None:
    about: dict[str, Any] = {"name": "a-7d4b9c8f6-x2z4k", "labels": {"pod-template-hash": "7d4b9c8f6"}}
    about["ownerReferences"] = [{"kind": "ReplicaSet", "name": "a-7d4b9c8f6", "controller": True}]
    assert owner_by_references({"metadata": about}) == Owner("Deployment", "a", is_guess=False)
    argo = {**about, "labels": {"rollouts-pod-template-hash": "7d4b9c8f6"}}
    assert owner_by_references({"metadata": argo}) == Owner("Rollout", "a", is_guess=False)
    about["ownerReferences"] = [{"kind": "Rollout", "name": "a"}]
    assert owner_by_references({"metadata": about}) == Owner("Rollout", "a", is_guess=False)
    about["ownerReferences"] = [{"kind": "ReplicationController", "name": "a-3", "controller": True}]
    shifted = {**about, "labels": {"deploymentconfig": "a"}}
    assert owner_by_references({"metadata": shifted}) == Owner("DeploymentConfig", "a", is_guess=False)
    assert owner_by_references({"metadata": about}) == Owner("ReplicationController", "a-3", is_guess=False)
    about["ownerReferences"] = [{"kind": "Node", "name": "n1", "controller": True}]
    assert owner_by_references({"metadata": {**about, "name": "etcd-n1"}}) == Owner("StaticPod", "etcd", is_guess=False)
    assert owner_by_references({"metadata": {"name": "bare"}}) == Owner("Pod", "bare", is_guess=False)
    assert owner_by_references({"metadata": [1]}) is None


@given(st.text(min_size=1, max_size=80), st.text(max_size=40))
def test_any_name_has_an_owner_and_its_maker_can_be_taken_apart(name: str, node: str) -> None:
    pod = by_names([(UID_A, "ns", name)], node)[0]
    workload = workload_of(pod.maker)
    assert workload is not None
    assert (workload.namespace, workload.kind, workload.name) == ("ns", pod.owner.kind, pod.owner.name)
