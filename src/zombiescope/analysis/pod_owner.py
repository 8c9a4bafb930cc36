# SPDX-License-Identifier: Apache-2.0
"""Which workload a pod belongs to, told by its name where nobody can be asked, and by labels or owner references where somebody
can.

Controllers name pods in patterns of their own: five characters of a safe alphabet at the end, before them for a Deployment the hash
of its template, which is a number of at most ten digits written in ten characters of the same alphabet. A static pod has a hash for
a uid and the node's name at its end.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from zombiescope.facts.names import shown_text
from zombiescope.facts.pods import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    POD,
    POD_PREFIX,
    STATEFUL_SET,
    STATIC_POD,
    Container,
    Owner,
    Pod,
)

VERSION = 1
"""Of what is kept; before it was stated, it was this one too."""
MOST_PODS = 2048
MOST_CONTAINERS = 2048


class PodBook:
    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        """Those seen longest ago first."""
        self.containers: dict[str, str] = {}
        """Names by the first characters of an id."""
        self.makers: dict[str, str] = {}
        """By uid: what `Makers` asks."""
        self.version = 0
        """Grows with each change that is worth keeping."""

    @property
    def pods(self) -> Mapping[str, Pod]:
        return self._pods

    def take(self, pods: Iterable[Pod], containers: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
        """Makers that have another name from now on: what was `pod:UID`, or a guess that somebody knew better."""
        renamed: dict[str, str] = {}
        for pod in pods:
            known = self._pods.pop(pod.uid, None)
            # What somebody said is worth more than a guess by the name.
            is_said = known is not None and not known.owner.is_guess
            kept = known if known is not None and is_said and pod.owner.is_guess else pod._replace(containers=())
            self._pods[pod.uid] = kept
            maker = kept.maker
            if self.makers.get(pod.uid) != maker:
                if known is None:
                    renamed[POD_PREFIX + pod.uid] = maker
                self.makers[pod.uid] = maker
                self.version += 1
        for number, name in containers:
            short = number[:12]
            if self.containers.pop(short, None) != name:
                self.version += 1
            self.containers[short] = name
        self._forget()
        return renamed

    def still(self, uids: Iterable[str]) -> None:
        """These have zombies still: they are kept before others."""
        for uid in uids:
            pod = self._pods.pop(uid, None)
            if pod is not None:
                self._pods[uid] = pod

    def _forget(self) -> None:
        while len(self._pods) > MOST_PODS:
            uid = next(iter(self._pods))
            del self._pods[uid]
            self.makers.pop(uid, None)
        while len(self.containers) > MOST_CONTAINERS:
            del self.containers[next(iter(self.containers))]

    def to_plain(self) -> dict[str, Any]:
        pods = [[pod.uid, pod.namespace, pod.name, *pod.owner] for pod in self._pods.values()]
        return {"v": VERSION, "pods": pods, "containers": list(self.containers.items())}

    def load(self, plain: Any) -> bool:
        """What `to_plain` gave; nothing of it, where it is anything else."""
        if later_version(plain) is not None:
            return False
        try:
            pods = [_remembered_pod(each) for each in plain["pods"][-MOST_PODS:]]
            containers = [(_text(number), _text(name)) for number, name in plain["containers"][-MOST_CONTAINERS:]]
        except (KeyError, TypeError, ValueError):
            return False
        self.take(pods, containers)
        return True


def later_version(plain: Any) -> object | None:
    """The version of a file that a later program kept; None: it is none such."""
    stated = plain.get("v", VERSION) if isinstance(plain, dict) else VERSION
    return None if stated == VERSION else stated


def _remembered_pod(plain: Sequence[Any]) -> Pod:
    uid, namespace, name, kind, owner, is_guess = plain
    return Pod(_text(uid), _text(namespace), _text(name), Owner(_text(kind), _text(owner), bool(is_guess)))


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 1024:
        raise ValueError("no name")
    return value


_RANDOM = r"[bcdfghjklmnpqrstvwxz2456789]{5}"
"""Kubernetes' `rand.String(5)`: no vowels, nothing that looks like another character."""
_HASH = r"[5-9bcdf][4-9bcdf]{5,9}"
"""`rand.SafeEncodeString` of a 32-bit number in decimal digits: each digit has one character."""
_CRON_JOB = re.compile(rf"(.+)-([0-9]{{8}}|[0-9]{{10}})-{_RANDOM}")
_FORMS = (
    (DEPLOYMENT, re.compile(rf"(.+)-{_HASH}-{_RANDOM}")),
    (STATEFUL_SET, re.compile(r"(.+)-(?:0|[1-9][0-9]{0,4})")),
    (DAEMON_SET, re.compile(rf"(.+)-{_RANDOM}")),
)
_JOB_OF_CRON = re.compile(r"(.+)-([0-9]{8}|[0-9]{10})")
_FIRST_MINUTE, _LAST_MINUTE = 16_000_000, 49_999_999
"""2000 and 2065, in minutes since the epoch: newer controllers name a job by its minute, older ones by its second. No hash begins
with such a digit."""


def owner_by_name(uid: str, name: str, node: str = "") -> Owner:
    if is_static(uid):
        return Owner(STATIC_POD, _without_node(name, node), is_guess=False)
    cron = _CRON_JOB.fullmatch(name)
    if cron and _is_moment(cron[2]):
        return Owner(CRON_JOB, cron[1])
    for kind, form in _FORMS:
        found = form.fullmatch(name)
        if found:
            return Owner(kind, found[1])
    return Owner(POD, name)


def is_static(uid: str) -> bool:
    """A hash of its manifest, where the API server gives others a uid."""
    return re.fullmatch("[0-9a-f]{32}", uid) is not None


def _is_moment(digits: str) -> bool:
    number = int(digits) if len(digits) == 8 else int(digits) // 60
    return _FIRST_MINUTE <= number <= _LAST_MINUTE


def _without_node(name: str, node: str) -> str:
    return name.removesuffix(f"-{node}") if node and name != f"-{node}" else name


def by_names(pods: Iterable[tuple[str, str, str]], node: str = "") -> list[Pod]:
    """Each a uid, a namespace and a name. Two pods of what would be one DaemonSet cannot be: there is one for each node."""
    found = [Pod(uid, namespace, name, owner_by_name(uid, name, node)) for uid, namespace, name in pods]
    together = Counter(pod.maker for pod in found)
    return [
        pod._replace(owner=pod.owner._replace(kind=JOB))
        if pod.owner.kind == DAEMON_SET and together[pod.maker] > 1
        else pod
        for pod in found
    ]


def node_in(names: Sequence[str]) -> str:
    """What the names of static pods end with in common, where there are two: the node's name."""
    if len(names) < 2:
        return ""
    suffix = names[0]
    for name in names[1:]:
        while suffix and not name.endswith(suffix):
            suffix = suffix[1:]
    at = suffix.find("-")
    return suffix[at + 1 :] if at >= 0 else ""


_TEMPLATES = {"pod-template-hash": DEPLOYMENT, "rollouts-pod-template-hash": "Rollout"}
"""Kubernetes' own, and Argo's, which has ReplicaSets too."""
_DEPLOYED, _DEPLOYMENT_CONFIG = "deploymentconfig", "DeploymentConfig"
"""OpenShift's, above a ReplicationController for each version."""


def owner_by_labels(uid: str, name: str, labels: Mapping[str, str], node: str = "") -> Owner | None:
    """Controllers label what they make; a container runtime hands the labels on. None where no label tells."""
    if "statefulset.kubernetes.io/pod-name" in labels:
        return Owner(STATEFUL_SET, name.rpartition("-")[0] or name, is_guess=False)
    for label, kind in _TEMPLATES.items():
        template = labels.get(label)
        if template and f"-{template}-" in name:
            return Owner(kind, name[: name.rindex(f"-{template}-")], is_guess=False)
    if _DEPLOYED in labels:
        return Owner(_DEPLOYMENT_CONFIG, labels[_DEPLOYED], is_guess=False)
    job = labels.get("batch.kubernetes.io/job-name") or labels.get("job-name")
    if job:
        return owner_of_job(job)
    if "pod-template-generation" in labels and "controller-revision-hash" in labels:
        return Owner(DAEMON_SET, name.rpartition("-")[0] or name, is_guess=False)
    return owner_by_name(uid, name, node) if is_static(uid) else None


def owner_of_job(name: str) -> Owner:
    """A job that a CronJob made is named by the moment it was due."""
    cron = _JOB_OF_CRON.fullmatch(name)
    return Owner(CRON_JOB, cron[1]) if cron and _is_moment(cron[2]) else Owner(JOB, name, is_guess=False)


def owner_by_references(pod: Mapping[str, Any]) -> Owner | None:
    """Of a pod as the API writes it: its controller, and a Deployment behind its ReplicaSet."""
    about = pod.get("metadata")
    if not isinstance(about, dict):
        return None
    name = str(about.get("name", ""))
    said = about.get("ownerReferences")
    references = [each for each in said if isinstance(each, dict)] if isinstance(said, list) else []
    controller = next((each for each in references if each.get("controller")), references[0] if references else None)
    if controller is None:
        return Owner(POD, name, is_guess=False)
    kind, owner = str(controller.get("kind", "")), str(controller.get("name", ""))
    labels = _object(about.get("labels"))
    for label, above in _TEMPLATES.items() if kind == "ReplicaSet" else ():
        template = str(labels.get(label, ""))
        if template and owner.endswith(f"-{template}"):
            return Owner(above, owner.removesuffix(f"-{template}"), is_guess=False)
    if kind == "ReplicationController" and labels.get(_DEPLOYED):
        return Owner(_DEPLOYMENT_CONFIG, str(labels[_DEPLOYED]), is_guess=False)
    if kind == JOB:
        return owner_of_job(owner)
    if kind == "Node":
        return Owner(STATIC_POD, _without_node(name, owner), is_guess=False)
    return Owner(kind or POD, owner or name, is_guess=False)


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
    # Kubelet knows a static pod by its hash alone.
    uid = str(notes.get("kubernetes.io/config.hash") or about.get("uid") or "")
    namespace, name = shown_text(str(about.get("namespace", ""))), shown_text(str(about.get("name", "")))
    if not uid or not name:
        return None
    owner = owner_by_references(item) or owner_by_name(uid, name, node)
    owner = owner._replace(name=shown_text(owner.name))
    return Pod(shown_text(uid), namespace, name, owner, tuple(map(_container, statuses_of(item))))


def statuses_of(item: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Of all containers of a pod, those that begin it and those that were put in later among them."""
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
    for status in statuses_of(item):
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
