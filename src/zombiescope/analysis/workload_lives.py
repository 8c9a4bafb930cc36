# SPDX-License-Identifier: Apache-2.0
"""How often a declared workload lives: is it started for ever, how often a day, and does each life leave a cgroup behind?

Delays are those of the starters themselves: Docker doubles from 100 ms to a minute, kubelet from 10 s to 5 minutes, podman
does not wait. supervisord starts its programs inside its own cgroup: they loop, and leave none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from zombiescope.analysis.recurrence import cron_runs_per_day, timer_runs_per_day
from zombiescope.facts.units import Starter, Workload

_DAY = 86400.0
_DOCKER_SECONDS, _KUBELET_SECONDS = 60.0, 300.0
RUNTIMES = re.compile(
    r"(?:^|[/\s\"'])(docker|podman|nerdctl|ctr|runc|crun|crictl|systemd-run|systemd-nspawn|lxc-start|machinectl)(?:\s|$)"
)


class Lives(NamedTuple):
    for_ever: bool | None
    """Started again without end; None: cannot be told."""
    per_day: float | None
    """Of one that fails at once, or by the clock; None: not known."""
    leaves_cgroups: bool | None
    """One memory cgroup per life."""
    why: str


def derive_lives(workload: Workload, *, cron_makes_sessions: bool) -> Lives:
    runs_runtime = RUNTIMES.search(workload.command) is not None
    match workload.starter:
        case Starter.CRON:
            leaves = cron_makes_sessions or runs_runtime
            how = "a session's cgroup per run" if cron_makes_sessions else "its command makes containers"
            why = how if leaves else "runs inside cron's own cgroup"
            return _scheduled(workload, cron_runs_per_day(workload.policy), leaves, why)
        case Starter.TIMER:
            return _scheduled(workload, timer_runs_per_day(workload.policy), True, "a service's cgroup per run")
        case Starter.SYSV:
            return Lives(False, None, False, "started once at boot")
        case Starter.SUPERVISORD:
            return _supervised(workload, runs_runtime)
        case Starter.DOCKER | Starter.COMPOSE:
            return _docker(workload)
        case Starter.PODMAN:
            return _podman(workload)
        case Starter.KUBELET:
            return _pod(workload)


def _scheduled(workload: Workload, per_day: float | None, leaves: bool, how: str) -> Lives:
    rate = "how often could not be told" if per_day is None else f"{per_day:,.4g} runs per day"
    for_ever = True if per_day is not None else (None if leaves else False)
    return Lives(for_ever, per_day, leaves, f"{workload.policy}: {rate}, {how}")


def _supervised(workload: Workload, leaves: bool) -> Lives:
    if workload.policy == "false":
        return Lives(False, None, leaves, "autorestart=false")
    where = "its command makes containers" if leaves else "inside supervisord's own cgroup"
    return Lives(True, None, leaves, f"autorestart={workload.policy}, without a delay; {where}")


def _docker(workload: Workload) -> Lives:
    said = workload.policy or "no"
    if said == "no":
        return Lives(False, None, True, "restart policy: no")
    if said not in ("always", "unless-stopped", "on-failure"):
        return Lives(None, None, True, f"restart policy {said}: not one that Docker knows")
    if said == "on-failure" and workload.retries:
        return Lives(False, None, True, f"restart policy: on-failure, at most {workload.retries} times")
    per_day = _DAY / _DOCKER_SECONDS
    return Lives(True, per_day, True, f"restart policy: {said}, up to {per_day:,.0f} lives per day, a cgroup each")


def _podman(workload: Workload) -> Lives:
    if not workload.policy:
        return Lives(None, None, True, "its restart policy is in podman's database, which is not read")
    lives = _docker(workload)
    if lives.for_ever:
        return Lives(True, None, True, f"restart policy: {workload.policy}, without a delay, a cgroup each")
    return lives


def _pod(workload: Workload) -> Lives:
    if workload.policy.startswith("schedule "):
        runs = cron_runs_per_day(workload.policy.removeprefix("schedule "))
        rate = "how often could not be told" if runs is None else f"{runs:,.4g} runs per day"
        return Lives(None if runs is None else True, runs, True, f"{workload.policy}: {rate}, a pod's cgroups each")
    if workload.policy == "Never" or workload.retries is not None:
        limit = f", at most {workload.retries} retries" if workload.retries is not None else ""
        return Lives(False, None, True, f"restartPolicy: {workload.policy}{limit}")
    if workload.policy not in ("Always", "OnFailure"):
        return Lives(None, None, True, f"restartPolicy {workload.policy}: not one that Kubernetes knows")
    per_day = _DAY / _KUBELET_SECONDS
    word = f"restartPolicy: {workload.policy}, up to {per_day:,.0f} lives per day, a cgroup each"
    return Lives(True, per_day, True, word)
