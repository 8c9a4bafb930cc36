# SPDX-License-Identifier: Apache-2.0
"""A cluster's events as failures and successes for the doctor's test of what follows what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zombiescope.analysis.event_file import cluster_marks, is_of_cluster, parse_events
from zombiescope.facts.history import JOB_FAILURE, JOB_SUCCESS

AT = "2026-11-18T12:00:00Z"
EPOCH = 1_795_003_200.0


def event(reason: str, message: str = "m", **more: Any) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "shop", "name": "crashy-x"}
    return {"reason": reason, "message": message, "involvedObject": about, "lastTimestamp": AT, **more}


def listed(*items: dict[str, Any], kind: str = "EventList") -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "v1", "items": list(items)}


def test_failures_are_told_from_what_is_none() -> None:
    said = listed(
        event("BackOff", "Back-off restarting failed container"),
        event("BackOff", "Back-off pulling image x", lastTimestamp="2026-11-18T12:00:01Z"),
        event("Pulled"),
        event("OOMKilling", lastTimestamp="2026-11-18T12:00:02.5Z"),
        event("Completed", involvedObject={"kind": "Job", "name": "etl"}, lastTimestamp="2026-11-18T12:00:03Z"),
    )
    assert [(mark.at - EPOCH, mark.what) for mark in cluster_marks(said)] == [
        (0.0, JOB_FAILURE),
        (2.5, JOB_FAILURE),
        (3.0, JOB_SUCCESS),
    ]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Failed", 'Failed to pull image "x": not found'),
        ("Failed", "Error: ErrImagePull"),
        ("Failed", "Error: ImagePullBackOff"),
        ("BackOff", 'Back-off pulling image "x"'),
    ],
)
def test_an_image_that_cannot_be_pulled_is_no_failed_job(reason: str, words: str) -> None:
    assert cluster_marks(listed(event(reason, words))) == ()
    assert len(cluster_marks(listed(event("BackOff", "Back-off restarting failed container pulling-worker")))) == 1


@pytest.mark.parametrize(
    "reason", ["BackoffLimitExceeded", "PodFailurePolicy", "FailedIndexes", "MaxFailedIndexesExceeded"]
)
def test_every_way_in_which_a_job_fails(reason: str) -> None:
    (mark,) = cluster_marks(listed(event(reason, involvedObject={"kind": "Job", "name": "etl"})))
    assert mark.what == JOB_FAILURE


def test_events_as_the_newer_api_writes_them() -> None:
    """`kubectl get events.events.k8s.io -o json`, of an event that kubelet made: its time has an older name there."""
    about = {"kind": "Pod", "namespace": "shop", "name": "crashy-x"}
    made: dict[str, Any] = {"reason": "BackOff", "note": "Back-off restarting failed container", "regarding": about}
    made |= {"eventTime": None, "deprecatedLastTimestamp": AT, "deprecatedSource": {"host": "n2"}}
    (mark,) = cluster_marks(listed(made))
    assert (mark.at, mark.what) == (EPOCH, JOB_FAILURE)
    assert cluster_marks(listed(made), "n1") == ()


def test_of_another_node_nothing_is_taken_but_jobs_have_none() -> None:
    far = event("BackOff", source={"component": "kubelet", "host": "n2"})
    near = event("BackOff", source={"component": "kubelet", "host": "n1"})
    job = event("BackoffLimitExceeded", involvedObject={"kind": "Job", "name": "etl"}, reportingInstance="controller-0")
    assert len(cluster_marks(listed(far), "n1")) == 0
    assert len(cluster_marks(listed(near, job), "n1")) == 2


def test_an_event_that_repeats_is_two_moments() -> None:
    found = cluster_marks(listed(event("BackOff", firstTimestamp="2026-11-18T11:00:00Z", count=40)))
    assert [mark.at for mark in found] == [EPOCH - 3600, EPOCH]


def test_pods_that_ended_out_of_memory_are_failures() -> None:
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": AT}}
    pod = {
        "metadata": {"namespace": "shop", "name": "p"},
        "spec": {"nodeName": "n1"},
        "status": {"containerStatuses": [{"name": "c", "state": {"waiting": {}}, "lastState": ended}]},
    }
    (mark,) = cluster_marks(listed(pod, kind="PodList"), "n1")
    assert (mark.at, mark.detail) == (EPOCH, "container shop/p/c: OOMKilled")
    assert cluster_marks(listed(pod, kind="PodList"), "n2") == ()
    first = {**pod, "status": {"initContainerStatuses": [{"name": "prepare", "lastState": ended}]}}
    assert [each.detail for each in cluster_marks(listed(first))] == ["container shop/p/prepare: OOMKilled"]


def test_restarts_of_our_own_agents_are_no_failure_of_a_job() -> None:
    ended = {"terminated": {"reason": "OOMKilled", "finishedAt": AT}}
    status = {"containerStatuses": [{"name": "agent", "lastState": ended}]}

    def of(name: str) -> dict[str, Any]:
        return listed(
            event("BackOff", involvedObject={"kind": "Pod", "namespace": "ops", "name": name}),
            {"metadata": {"namespace": "ops", "name": name}, "status": status},
        )

    assert cluster_marks(of("zombiescope-x7v2p")) == ()
    assert cluster_marks(listed(event("Failed", involvedObject={"kind": "DaemonSet", "name": "zombiescope"}))) == ()
    assert len(cluster_marks(of("zombiescope-report"))) == 2
    assert len(cluster_marks(of("zombiescope-7d4b9c8f6-x7v2p"))) == 2


def test_a_file_of_kubectl_is_taken_as_it_is() -> None:
    text = json.dumps(listed(event("BackOff"), kind="List"), indent=2).encode()
    assert len(parse_events(text, "events.json")) == 1


@pytest.mark.parametrize(
    "item", [{}, {"reason": 3}, {"reason": "BackOff", "lastTimestamp": 7, "involvedObject": []}, {"status": 1}]
)
def test_rubbish_in_a_list_is_no_event(item: dict[str, Any]) -> None:
    assert cluster_marks(listed(item)) == ()


@pytest.mark.parametrize(
    "stamp",
    ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "1960-01-01T00:00:00Z", "nan", "inf", "1e300", "soon"],
)
def test_a_time_beyond_the_calendar_is_none(stamp: str) -> None:
    """Go's zero time is the year 1."""
    ended = {"terminated": {"reason": "OOMKilled", "finishedAt": stamp}}
    pod = {"metadata": {}, "status": {"containerStatuses": [{"state": ended}]}}
    assert cluster_marks(listed(event("Failed", lastTimestamp=stamp), pod)) == ()


def test_hostile_words_stay_one_printable_line() -> None:
    (mark,) = cluster_marks(listed(event("Failed", "a\nb\x1b[31m")))
    assert "\n" not in mark.detail
    assert "\x1b" not in mark.detail


def test_what_is_a_list() -> None:
    assert is_of_cluster(listed())
    assert not is_of_cluster([1])
    assert not is_of_cluster({"items": [], "kind": "Pod"})
