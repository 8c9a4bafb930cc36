# SPDX-License-Identifier: Apache-2.0
"""Pods as a container runtime or the cluster's API tells of them: owners, restarts, why a container ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from zombiescope.analysis.pod_owner import owner_by_name, owner_by_references
from zombiescope.facts.names import shown_text
from zombiescope.facts.pods import Container, Pod

_HASH = "kubernetes.io/config.hash"


def pods_of_api(said: Any, node: str = "") -> tuple[list[Pod], list[tuple[str, str]]]:
    """A list of pods as `kubectl get pods -o json`, the API and kubelet write it; and ids of containers, each with its name."""
    items = said.get("items") if isinstance(said, dict) else None
    pods, ids = [], []
    for item in items if isinstance(items, list) else ():
        pod = _pod(item, node) if isinstance(item, dict) else None
        if pod is not None:
            pods.append(pod)
            ids += [(number, each) for number, each in _ids(item) if number]
    return pods, ids


def _pod(item: Mapping[str, Any], node: str) -> Pod | None:
    about = _object(item.get("metadata"))
    where = _object(item.get("spec")).get("nodeName")
    if node and where and where != node:
        return None
    notes = _object(about.get("annotations"))
    uid = str(notes.get(_HASH) or about.get("uid") or "")  # kubelet knows a static pod by its hash alone
    namespace, name = shown_text(str(about.get("namespace", ""))), shown_text(str(about.get("name", "")))
    if not uid or not name:
        return None
    owner = owner_by_references(item) or owner_by_name(uid, name, node)
    owner = owner._replace(name=shown_text(owner.name))
    return Pod(shown_text(uid), namespace, name, owner, tuple(map(_container, _statuses(item))))


def _statuses(item: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    status = _object(item.get("status"))
    for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        found = status.get(kind)
        yield from (each for each in (found if isinstance(found, list) else ()) if isinstance(each, dict))


def _container(status: Mapping[str, Any]) -> Container:
    now, before = _object(status.get("state")), _object(status.get("lastState"))
    running, waiting = _object(now.get("running")), _object(now.get("waiting"))
    ended = _object(now.get("terminated")) or _object(before.get("terminated"))
    restarts = status.get("restartCount")
    began, end = _time(running.get("startedAt") or ended.get("startedAt")), _time(ended.get("finishedAt"))
    pause = began - end if running and began is not None and end is not None and began > end else None
    code = ended.get("exitCode")
    return Container(
        shown_text(str(status.get("name", ""))),
        restarts if isinstance(restarts, int) else 0,
        began if running else max((at for at in (began, end) if at is not None), default=None),
        pause,
        bool(running),
        _reason(waiting, ended),
        code if isinstance(code, int) else None,
    )


def _reason(waiting: Mapping[str, Any], ended: Mapping[str, Any]) -> str:
    """Why it ended says more than that it waits; a container that waits in its back-off is known by that."""
    why = str(ended.get("reason") or "")
    waits = str(waiting.get("reason") or "")
    return shown_text(waits if waits == "CrashLoopBackOff" and why in ("", "Error", "Completed") else why or waits)


def _ids(item: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for status in _statuses(item):
        name = shown_text(str(status.get("name", "")))
        ended = _object(_object(status.get("lastState")).get("terminated"))
        for said in (status.get("containerID"), ended.get("containerID")):
            yield str(said or "").rpartition("/")[2], name


def _object(said: Any) -> Mapping[str, Any]:
    return said if isinstance(said, dict) else {}


def _time(said: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(said)).timestamp() if said else None
    except (ValueError, OverflowError):
        return None
