# SPDX-License-Identifier: Apache-2.0
"""What an API server is sent: a strategic merge of one condition of one node, and events of the core group. Nothing else, ever."""

from __future__ import annotations

from typing import Any

from zombiescope.diagnosis.engine import CONDITION, Condition, ConditionStatus
from zombiescope.presenters.document import rfc3339

COMPONENT = "zombiescope"
RESOLVED = f"{CONDITION}Resolved"


def condition_patch(condition: Condition, at: float, *, is_transition: bool) -> dict[str, Any]:
    """Without a transition the server keeps the time of the last one. Merged by `type`: all other conditions stay."""
    said = {
        "type": CONDITION,
        "status": condition.status.value,
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": rfc3339(at),
    }
    return _patch({**said, "lastTransitionTime": rfc3339(at)} if is_transition else said)


def removal_patch() -> dict[str, Any]:
    return _patch({"type": CONDITION, "$patch": "delete"})


def _patch(condition: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"conditions": [condition]}}


def node_event(node: str, condition: Condition, at: float) -> dict[str, Any]:
    """About the node, as kubelet writes its own: found by `kubectl get events --field-selector reason=...`."""
    is_bad = condition.status is ConditionStatus.TRUE
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{node}.zombiescope.", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": node, "uid": node, "apiVersion": "v1"},
        "type": "Warning" if is_bad else "Normal",
        "reason": CONDITION if is_bad else RESOLVED,
        "message": f"{condition.reason}: {condition.message}",
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
        "firstTimestamp": rfc3339(at),
        "lastTimestamp": rfc3339(at),
        "count": 1,
    }
