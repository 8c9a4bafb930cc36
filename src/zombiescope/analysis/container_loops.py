# SPDX-License-Identifier: Apache-2.0
"""Which containers are started again and again, now. A count of restarts alone says nothing: it is kept for the life of a pod, and
three restarts of last month are no loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zombiescope.analysis.looping_units import RESTARTS_TELLING
from zombiescope.facts.pods import Container, Pod, PodLoop

KUBELET_PAUSE_SECONDS = 300.0
"""Kubelet's longest back-off between two starts; ten minutes without a failure end it."""
DOCKER_PAUSE_SECONDS = 60.0
_SLACK_SECONDS = 60.0
_SETTLES_SECONDS = 10.0
"""Of running: kubelet's shortest back-off."""
_WAITING = ("CrashLoopBackOff",)


def why_looping(container: Container, now: float, moved: int = 0, longest_pause: float = KUBELET_PAUSE_SECONDS) -> str:
    """In words; empty for one that is not. `moved`: restarts that were seen while we looked."""
    if container.restarts < RESTARTS_TELLING:
        return ""
    so_far = f"restarted {container.restarts:,} times"
    if moved:
        return f"{so_far}, {moved:,} of them while we looked{_ended(container)}"
    if container.reason in _WAITING:
        return f"{so_far}, and waits for the next start{_ended(container)}"
    if container.restarted_at is None:
        return ""
    age = max(now - container.restarted_at, 0.0)
    if age > longest_pause + _SLACK_SECONDS:
        return ""
    if container.is_running is False:
        return f"{so_far}, the last {age:.0f} s ago, and is not running{_ended(container)}"
    # One that runs may have healed: only right after its start nobody can say that yet.
    settles = _SETTLES_SECONDS if container.is_running else longest_pause
    if container.pause_seconds is not None and age < min(container.pause_seconds, settles):
        last = f"the last {age:.0f} s ago, and {container.pause_seconds:.0f} s after the one before"
        return f"{so_far}, {last}{_ended(container)}"
    return ""


def may_loop(container: Container, now: float) -> bool:
    """Whether it is worth finding out if it runs."""
    at = container.restarted_at
    is_recent = at is not None and now - at <= KUBELET_PAUSE_SECONDS + _SLACK_SECONDS
    return container.restarts >= RESTARTS_TELLING and is_recent


def ended_words(reason: str, exit_code: int | None) -> str:
    """How it ended last: `OOMKilled, exit code 137`; empty where nobody said."""
    code = "" if exit_code is None else f"exit code {exit_code}"
    return ", ".join(filter(None, (reason, code)))


def _ended(container: Container) -> str:
    told = ended_words(container.reason, container.exit_code)
    return f" ({told})" if told else ""


def loops_of(pods: Iterable[Pod], now: float, moved: Mapping[tuple[str, str], int], source: str) -> list[PodLoop]:
    """`moved`: by pod and container, restarts in the window."""
    found = []
    for pod in pods:
        for container in pod.containers:
            why = why_looping(container, now, moved.get((pod.uid, container.name), 0))
            if why:
                found.append(
                    PodLoop(
                        pod.uid, pod.called, container.name, pod.maker, container.restarts, why, source,
                        container.pause_seconds, container.reason, container.exit_code,
                    )
                )  # fmt: skip
    return sorted(found, key=lambda loop: (-loop.restarts, loop.pod, loop.container))
