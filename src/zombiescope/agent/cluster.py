# SPDX-License-Identifier: Apache-2.0
"""Tells the cluster how this node is, where that is switched on by name: a strategic merge of one condition of one node, and an
event of the core group when it changes. Nothing else, ever.

A short-lived child speaks, so that the agent never loads TLS. Whatever the API server does, the agent goes on: what fails is tried
again later and later, and is shown as a failing probe.
"""

from __future__ import annotations

import json
import math
import random
import re
import selectors
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from zombiescope import host
from zombiescope.config import Config
from zombiescope.diagnosis.engine import CONDITION as CONDITION_TYPE
from zombiescope.diagnosis.engine import Condition, ConditionStatus, HeldCondition
from zombiescope.errors import UsageError
from zombiescope.facts.gap import Gap
from zombiescope.host.children import ShortLived, Tended
from zombiescope.presenters.document import rfc3339

COMPONENT = "zombiescope"
RESOLVED = f"{CONDITION_TYPE}Resolved"
NAME = "cluster"
CONDITION, EVENTS = "condition", "events"
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LOOK_SECONDS = 30.0
_FIRST_BACKOFF, _MOST_BACKOFF = 10.0, 900.0
_REFUSED = {
    401: "the token is not accepted: is the service account mounted?",
    403: "the service account may not: apply the overlay with-node-condition",
    404: "no such node: set kubernetes_node to its name",
}
_GONE = 404
_CHILD_SECONDS, _FAREWELL_SECONDS = 25.0, 5.0


class Settings(NamedTuple):
    words: tuple[str, ...]
    node: str
    address: str
    account: str
    hold_seconds: float
    heartbeat_seconds: float


def settings_of(config: Config, node_name: str) -> Settings | None:
    """None: nothing is told. `node_name`: this host's own."""
    if not (words := tuple(config.words("kubernetes_tell"))):
        return None
    for word in words:
        if word not in {CONDITION, EVENTS}:
            known = f"{CONDITION}, {EVENTS}"
            raise UsageError(
                "cannot use kubernetes_tell", f"{word!r} is not one of {known}", f'kubernetes_tell = "{known}"'
            )
    node = config.text("kubernetes_node") or node_name
    if not _NODE.fullmatch(node):
        raise UsageError("cannot use kubernetes_node", f"{node!r} is not the name of a node", 'kubernetes_node = "n1"')
    return Settings(
        words,
        node,
        config.text("kubernetes_api"),
        config.text("kubernetes_account"),
        config.number("kubernetes_hold_seconds"),
        config.number("kubernetes_heartbeat_seconds"),
    )


class Teller:
    def __init__(
        self,
        settings: Settings | None,
        selector: selectors.BaseSelector,
        judge: Callable[[], Condition],
        report: Callable[[Gap | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._settings, self._selector, self._judge, self._report = settings, selector, judge, report
        self._held = HeldCondition()
        self._told: Condition | None = None
        self._published: Settings | None = None
        """Where our condition stands now, or may stand."""
        self._event: Condition | None = None
        """One that is still to be sent."""
        self._child: Tended | None = None
        self._sent: Condition | None = None
        self._failures, self._not_before, self._heartbeat = 0, 0.0, math.inf
        self.due = 0.0 if settings else math.inf

    def configure(self, settings: Settings | None) -> None:
        """Read again: switched off, the condition goes; of another node or another server, too."""
        self._stop_child()
        self._settings = settings
        if self._published and (settings is None or _place(settings) != _place(self._published)):
            self._withdraw()
        if settings is None:
            self._report(None)
        self.due = 0.0 if settings else math.inf

    def run(self, now: float) -> None:
        if self._child:
            self._child.drop_late(now)
        if now < self.due or self._settings is None:
            return
        settings = self._settings
        self.due = now + min(_LOOK_SECONDS, max(settings.hold_seconds / 2, 1.0))
        condition = self._held.take(self._judge(), now, settings.hold_seconds)
        if self._child or condition is None or now < self._not_before:
            return
        before = self._told.status if self._told else None
        is_new = before is not condition.status
        # Pressure, and its end: that a healthy node is healthy is no event.
        if is_new and EVENTS in settings.words and ConditionStatus.TRUE in (before, condition.status):
            self._event = condition
        if is_new or self._event or now >= self._heartbeat:
            self._begin(settings, condition, is_new=is_new)

    def _begin(self, settings: Settings, condition: Condition, *, is_new: bool) -> None:
        event = self._event
        try:
            self._child = Tended(
                self._selector,
                lambda: _speak(settings, condition, event, is_new=is_new),
                self._clock() + _CHILD_SECONDS,
                self._ended,
            )
        except OSError as error:
            self._failed(f"no process could be started: {error.strerror}")
            return
        self._sent = condition
        if CONDITION in settings.words:
            self._published = settings

    def _ended(self, said: bytearray | None, _: float, is_late: bool) -> None:
        self._child = None
        if not said:
            self._failed("the API server was too slow" if is_late else "the process that spoke ended without an answer")
            return
        outcome = json.loads(said)
        assert self._settings is not None
        is_accepted = outcome["status"] == 200
        if (
            outcome["done"] or is_accepted
        ):  # the condition stands also where its event was refused: the next is no transition
            self._told = self._sent
            self._heartbeat = self._clock() + self._settings.heartbeat_seconds * random.uniform(0.9, 1.1)
        if not is_accepted:
            self._failed(outcome["why"], outcome["status"], outcome["retry_after"])
            return
        self._event, self._failures = None, 0
        skew = outcome["skew"]
        late = f"this host's clock is {abs(skew):,.0f} s {'behind' if skew > 0 else 'ahead of'} the API server's"
        self._report(Gap(NAME, late, "look at its time synchronisation") if skew else None)

    def _failed(self, why: str, status: int = 0, retry_after: float = 0.0) -> None:
        """Later and later, each node at its own moment; what only a person can mend is not asked again soon."""
        self._failures += 1
        if status == _GONE:
            self._told = None  # a node of this name that comes later knows nothing of it
        least = 6 * _FIRST_BACKOFF if status in _REFUSED else 0.0
        pause = max(least, min(_FIRST_BACKOFF * 2 ** min(self._failures - 1, 10), _MOST_BACKOFF))
        self._not_before = self._clock() + max(pause, min(retry_after, _MOST_BACKOFF)) * random.uniform(0.75, 1.25)
        self._report(Gap(NAME, f"the API server was not told: {why}", _REFUSED.get(status, "")))

    def close(self) -> None:
        """Nobody will keep it up to date: the condition goes with the agent."""
        self._stop_child()
        self._withdraw()

    def _stop_child(self) -> None:
        if self._child:
            self._child.stop()
            self._child = None

    def _withdraw(self) -> None:
        """Waits for a few seconds at most. What cannot be withdrawn keeps its last heartbeat, which tells its age."""
        settings, self._published, self._told, self._heartbeat = self._published, None, None, math.inf
        self._held = HeldCondition()
        if settings is None:
            return
        try:
            child = ShortLived(lambda: _unsay(settings))
        except OSError:
            return
        ends = time.monotonic() + _FAREWELL_SECONDS
        with selectors.DefaultSelector() as waiting:
            waiting.register(child.descriptor, selectors.EVENT_READ)
            while (left := ends - time.monotonic()) > 0:
                if waiting.select(left) and child.collect():
                    child.end()
                    return
        child.end(kill=True)


def _place(settings: Settings) -> tuple[object, ...]:
    return CONDITION in settings.words, settings.node, settings.address, settings.account


def _speak(settings: Settings, condition: Condition, event: Condition | None, *, is_new: bool) -> bytes:
    """In the child, which alone loads TLS."""
    asking, wanted = host.cluster_api, []
    if CONDITION in settings.words:
        change = partial(condition_patch, condition, is_transition=is_new)
        wanted.append(asking.Sending("PATCH", _status_of(settings), asking.STRATEGIC, change))
    if event:
        told = partial(node_event, settings.node, event)
        wanted.append(asking.Sending("POST", "/api/v1/namespaces/default/events", asking.PLAIN, told))
    return json.dumps(asking.send(asking.Api(settings.address, settings.account), wanted)._asdict()).encode()


def _unsay(settings: Settings) -> bytes:
    asking, removal = host.cluster_api, _patch({"type": CONDITION_TYPE, "$patch": "delete"})
    gone = asking.Sending("PATCH", _status_of(settings), asking.STRATEGIC, lambda _: removal)
    return json.dumps(asking.send(asking.Api(settings.address, settings.account), [gone])._asdict()).encode()


def condition_patch(condition: Condition, at: float, *, is_transition: bool) -> dict[str, Any]:
    """Without a transition the server keeps the time of the last one. Merged by `type`: all other conditions stay."""
    said = {
        "type": CONDITION_TYPE,
        "status": condition.status.value,
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": rfc3339(at),
    }
    return _patch({**said, "lastTransitionTime": rfc3339(at)} if is_transition else said)


def _status_of(settings: Settings) -> str:
    return f"/api/v1/nodes/{settings.node}/status"


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
        "reason": CONDITION_TYPE if is_bad else RESOLVED,
        "message": f"{condition.reason}: {condition.message}",
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
        "firstTimestamp": rfc3339(at),
        "lastTimestamp": rfc3339(at),
        "count": 1,
    }
