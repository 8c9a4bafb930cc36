# SPDX-License-Identifier: Apache-2.0
"""Pods as the API tells of them, and what that adds to the log folders: the owner, the reason, the exit code."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.diagnosis.test_workloads import PODS, loop, node
from tests.unit.kube_nodes import STATIC, UID_A

from zombiescope.analysis.looping import why_looping
from zombiescope.analysis.pod_owner import pods_of_api
from zombiescope.facts.pods import Owner
from zombiescope.watching.pods import Asked, joined

ENDED = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-18T12:00:00Z"}}


def pod(state: dict[str, Any], restarts: int = 7, **about: Any) -> dict[str, Any]:
    made = {"uid": UID_A, "namespace": "shop", "name": "crashy-7d4b9c8f6-x2z4k"}
    made["ownerReferences"] = [{"kind": "ReplicaSet", "name": "crashy-7d4b9c8f6", "controller": True}]  # type: ignore[assignment]
    made["labels"] = {"pod-template-hash": "7d4b9c8f6"}  # type: ignore[assignment]
    status = {
        "name": "c0",
        "restartCount": restarts,
        "state": state,
        "lastState": ENDED,
        "containerID": "containerd://abc",
    }
    return {"metadata": {**made, **about}, "spec": {"nodeName": "n1"}, "status": {"containerStatuses": [status]}}


def test_a_container_in_its_back_off_is_a_loop_with_reason_and_exit_code() -> None:
    (found,), ids = pods_of_api({"items": [pod({"waiting": {"reason": "CrashLoopBackOff"}})]}, "n1")
    assert found.owner == Owner("Deployment", "crashy", is_guess=False)
    assert (found.containers[0].reason, found.containers[0].exit_code, found.containers[0].restarts) == (
        "OOMKilled",
        137,
        7,
    )
    assert ids == [("abc", "c0")]
    assert "(OOMKilled, exit code 137)" in why_looping(found.containers[0], 1_795_003_260.0)


def test_one_that_runs_for_long_is_none() -> None:
    (found,), _ = pods_of_api({"items": [pod({"running": {"startedAt": "2026-11-18T12:00:10Z"}})]})
    assert why_looping(found.containers[0], 1_795_003_200.0 + 3600) == ""


def test_a_static_pod_has_the_uid_that_its_cgroup_has() -> None:
    references = [{"kind": "Node", "name": "n1", "controller": True}]
    item = pod({}, annotations={"kubernetes.io/config.hash": STATIC}, name="etcd-n1", ownerReferences=references)
    (found,), _ = pods_of_api({"items": [item]})
    assert (found.uid, found.owner) == (STATIC, Owner("StaticPod", "etcd", is_guess=False))


def test_pods_of_other_nodes_and_rubbish_are_left_out() -> None:
    assert pods_of_api({"items": [pod({})]}, "n2")[0] == []
    assert pods_of_api({"items": [1, {}, {"metadata": {"uid": 3}}, {"metadata": []}]})[0] == []
    assert pods_of_api([])[0] == []


def test_who_was_asked_corrects_what_log_folders_guessed() -> None:
    seen = node(loop(PODS[0], "c0"), loop(PODS[1], "c1"))
    healthy = pods_of_api({"items": [pod({"running": {"startedAt": "2020-11-18T12:00:10Z"}})]})[0]
    found = joined(seen, Asked(tuple(healthy), source="the cluster's API", node="n1"), {})
    assert [(each.pod, each.container) for each in found.loops] == [(PODS[1].called, "c1")], (
        "the first one runs for years"
    )
    rollout = [{"kind": "Rollout", "name": "crashy"}]
    other = pods_of_api({"items": [pod({"waiting": {"reason": "CrashLoopBackOff"}}, ownerReferences=rollout)]})[0]
    found = joined(seen, Asked(tuple(other), source="the cluster's API"), {})
    assert found.loops[0].maker == "workload:shop/Rollout/crashy"
    assert (found.loops[0].reason, found.loops[0].exit_code) == ("OOMKilled", 137)


def test_our_own_restarts_are_nobodys_loop_whoever_tells_of_them() -> None:
    """Also where the one who was asked calls our workload by another name than the log folders did."""
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    others = "3fdb6e76-0d5b-4a3a-8a6a-7b6f0c8e1d2d"
    rollout = [{"kind": "Rollout", "name": "crashy"}]
    told = [pod(waits, ownerReferences=rollout), pod(waits, uid=others, name="web-0", ownerReferences=[], labels={})]
    seen = node(loop(PODS[0], "c0"))._replace(own=PODS[0].maker)
    found = joined(seen, Asked(tuple(pods_of_api({"items": told})[0]), source="the cluster's API"), {})
    assert [each.pod for each in found.loops] == ["shop/web-0"]


WRONG: tuple[object, ...] = (
    None,
    5,
    -1.5,
    True,
    [],
    {},
    "x",
    [1],
    [None],
    {"a": 1},
    "9" * 400,
    float("nan"),
    10**30,
    "0001-01-01T00:00:00Z",
)


def places(said: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    for key in said if isinstance(said, dict) else range(len(said)) if isinstance(said, list) else ():
        yield from places(said[key], (*way, key))


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_whatever_stands_where_something_else_belongs_is_no_crash(wrong: object) -> None:
    """`conditions: null`, `status: []`, a number for a list: in every place of a pod."""
    good = {"kind": "PodList", "metadata": {}, "items": [pod({"running": {"startedAt": "2026-11-18T12:00:10Z"}})]}
    for way in list(places(good))[1:]:
        said = copy.deepcopy(good)
        inside: Any = said
        for key in way[:-1]:
            inside = inside[key]
        inside[way[-1]] = wrong
        pods, ids = pods_of_api(said, "n1")
        joined(node(loop(PODS[0], "c0")), Asked(tuple(pods), tuple(ids), "the cluster's API", "n1"), {})
