# SPDX-License-Identifier: Apache-2.0
"""A cluster's own events as failures and successes: containers out of memory or restarted after a failure, jobs that failed or
ended well. As the API and `kubectl get events -o json` write them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from zombiescope.facts.history import JOB_FAILURE, JOB_SUCCESS, Mark
from zombiescope.facts.names import shown_text


def is_of_cluster(said: Any) -> bool:
    """A list of events or pods, as `kubectl get events -o json` writes it."""
    return isinstance(said, dict) and isinstance(said.get("items"), list) and str(said.get("kind", "")).endswith("List")


_CLUSTER_FAILURES = (
    "OOMKilling", "OOMKilled", "SystemOOM", "BackOff", "Failed", "BackoffLimitExceeded", "DeadlineExceeded", "Evicted",
    "FailedPostStartHook", "NodeNotReady",
)  # fmt: skip
_CLUSTER_SUCCESSES = ("Completed",)


def cluster_marks(said: Any, node: str = "") -> tuple[Mark, ...]:
    """Failures of jobs and containers among a cluster's events, and containers of its pods that ended out of memory. `node`: only
    what happened there, as far as an event says where."""
    marks = []
    for item in said["items"]:
        if isinstance(item, dict):
            marks += (
                _cluster_event(item, node) if "involvedObject" in item or "reason" in item else _ended_pods(item, node)
            )
    return tuple(sorted(set(marks)))


def _cluster_event(event: Mapping[str, Any], node: str) -> list[Mark]:
    reason, words = str(event.get("reason", "")), str(event.get("message") or event.get("note") or "")
    about, source = _inside(event, "involvedObject") or _inside(event, "regarding"), _inside(event, "source")
    host = str(source.get("host") or event.get("reportingInstance") or "") if about.get("kind") != "Job" else ""
    is_pull = reason == "BackOff" and "pulling" in words
    if (node and host and host != node) or is_pull or reason not in (*_CLUSTER_FAILURES, *_CLUSTER_SUCCESSES):
        return []
    what = JOB_SUCCESS if reason in _CLUSTER_SUCCESSES else JOB_FAILURE
    name = f"{about.get('namespace', '')}/{about.get('name', '')}".strip("/")
    series = _inside(event, "series")
    stamps = (
        event.get("firstTimestamp"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    )
    times = {at for stamp in stamps if stamp and (at := moment_of(str(stamp))) is not None}
    return [Mark(at, what, _line(f"{about.get('kind', '')} {name}: {reason}: {words}")) for at in times]


def _ended_pods(pod: Mapping[str, Any], node: str) -> list[Mark]:
    where = _inside(pod, "spec").get("nodeName")
    statuses = _inside(pod, "status").get("containerStatuses")
    if (node and where and where != node) or not isinstance(statuses, list):
        return []
    about, marks = _inside(pod, "metadata"), []
    for status in statuses:
        for state in ("state", "lastState"):
            ended = _inside(_inside(status, state), "terminated") if isinstance(status, dict) else {}
            at = moment_of(str(ended.get("finishedAt", "")))
            if ended.get("reason") == "OOMKilled" and at is not None:
                name = f"{about.get('namespace', '')}/{about.get('name', '')}/{status.get('name', '')}"
                marks.append(Mark(at, JOB_FAILURE, _line(f"container {name}: OOMKilled")))
    return marks


def _inside(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = said.get(name)
    return found if isinstance(found, dict) else {}


def moment_of(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _line(words: str) -> str:
    return shown_text(words.strip().split("\n")[0][:200])
