# SPDX-License-Identifier: Apache-2.0
"""Pods of a node: which workload each belongs to, how that is known, and how its containers fare."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

PREFIX = "workload:"
POD_PREFIX = "pod:"
DEPLOYMENT, DAEMON_SET, STATEFUL_SET, JOB, CRON_JOB = "Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob"
POD, STATIC_POD = "Pod", "StaticPod"
_CALLED = {STATIC_POD: "static pod", POD: "pod"}
"""What people call a kind, where it is another word than Kubernetes'."""


class Owner(NamedTuple):
    kind: str
    """As Kubernetes writes it: Deployment, or any other controller's; StaticPod and Pod for those that have none."""
    name: str
    is_guess: bool = True
    """By the pattern of the pod's name alone."""


class Container(NamedTuple):
    name: str
    restarts: int
    restarted_at: float | None = None
    """When it was started last, in seconds since the epoch."""
    pause_seconds: float | None = None
    """Between its last two starts."""
    is_running: bool | None = None
    """None: nobody could tell."""
    reason: str = ""
    """Why it ended last: OOMKilled, Error; or why it waits: CrashLoopBackOff."""
    exit_code: int | None = None


class Pod(NamedTuple):
    uid: str
    namespace: str
    name: str
    owner: Owner
    containers: tuple[Container, ...] = ()

    @property
    def maker(self) -> str:
        return f"{PREFIX}{self.namespace}/{self.owner.kind}/{self.owner.name}"

    @property
    def called(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodLoop(NamedTuple):
    """A container that is started again and again, now."""

    uid: str
    pod: str
    """namespace/name."""
    container: str
    maker: str
    restarts: int
    why: str
    source: str
    every_seconds: float | None = None
    reason: str = ""
    exit_code: int | None = None


class PodsSeen(NamedTuple):
    at: float
    seconds: float
    """How long was watched."""
    pods: tuple[Pod, ...]
    """Without their containers, which only loops tell of."""
    loops: tuple[PodLoop, ...]
    source: str
    """Where restarts are known from."""
    own: str = ""
    """The workload that we run in ourselves: never anybody's loop."""
    containers: tuple[tuple[str, str], ...] = ()
    """Ids of containers, each with its name."""
    node: str = ""
    """As the cluster calls it; empty where that is not known."""


class KnownPods(NamedTuple):
    """What names can be given to: pods by uid, and containers by id."""

    pods: Mapping[str, Pod] = {}
    containers: Mapping[str, str] = {}
    node: str = ""

    @property
    def makers(self) -> dict[str, str]:
        return {uid: pod.maker for uid, pod in self.pods.items()}


def known_pods(pods: Iterable[Pod], containers: Iterable[tuple[str, str]] = (), node: str = "") -> KnownPods:
    return KnownPods({pod.uid: pod for pod in pods}, dict(containers), node)


class WorkloadName(NamedTuple):
    """A maker `workload:NAMESPACE/KIND/NAME`, taken apart."""

    namespace: str
    kind: str
    name: str

    @property
    def called(self) -> str:
        return f"{_CALLED.get(self.kind, self.kind)} {self.namespace}/{self.name}"


def workload_of(maker: str) -> WorkloadName | None:
    parts = maker.removeprefix(PREFIX).split("/", 2)
    return WorkloadName(*parts) if maker.startswith(PREFIX) and len(parts) == 3 else None
