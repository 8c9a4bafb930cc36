# SPDX-License-Identifier: Apache-2.0
"""What is started beside systemd's units, as declared: containers, pods, supervised programs, cron jobs; and what runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.gap import Gap


class Starter(StrEnum):
    """Who starts it, and starts it again."""

    CRON = "cron"
    TIMER = "timer"
    SYSV = "sysv"
    SUPERVISORD = "supervisord"
    DOCKER = "docker"
    PODMAN = "podman"
    COMPOSE = "compose"
    KUBELET = "kubelet"


@dataclass(frozen=True, slots=True)
class Workload:
    """One program or container that somebody declared."""

    starter: Starter
    name: str
    """Unique and printable: `docker/web`, `daemonset/monitoring/node/scraper`."""
    path: str
    """The file that declares it."""
    policy: str = ""
    """The restart policy in the starter's own word; empty: it has none. For schedules, when it runs."""
    retries: int | None = None
    """How often it is started again at most, where that is limited."""
    command: str = ""
    image: str = ""
    variables: Mapping[str, bool] = field(default_factory=dict)
    """Names of its environment, and whether each has a value. Values are not kept: they hold secrets."""
    container_id: str = ""
    is_sidecar: bool = False
    is_stopped: bool = False
    """Declared, and told not to run: no replicas, stopped by hand, suspended."""

    @property
    def is_pod(self) -> bool:
        return self.starter is Starter.KUBELET

    @property
    def is_container(self) -> bool:
        return self.starter in (Starter.DOCKER, Starter.PODMAN, Starter.COMPOSE, Starter.KUBELET)


class Declared(NamedTuple):
    workloads: tuple[Workload, ...] = ()
    gaps: tuple[Gap, ...] = ()
    """What declares something and could not be read."""
    cron_makes_sessions: bool = False
    """cron's PAM stack opens a session of logind for every job: a scope, and so a cgroup, per run."""


@dataclass(frozen=True, slots=True)
class Running:
    """What runs on a live host, by where its cgroup says that it belongs."""

    containers: Mapping[str, str] = field(default_factory=dict)
    """Container id to its cgroup."""
    outside: Mapping[str, int] = field(default_factory=dict)
    """Programs in no unit, container or session, with how many processes."""
    cgroups: frozenset[str] = frozenset()
    """Names of cgroups on the way to a process: `kubepods.slice`."""
