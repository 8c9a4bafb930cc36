# SPDX-License-Identifier: Apache-2.0
"""Which workload a pod belongs to, told by its name where nobody can be asked, and by labels or owner references where somebody
can.

Controllers name pods in patterns of their own: five characters of a safe alphabet at the end, before them for a Deployment the hash
of its template, which is a number of at most ten digits written in ten characters of the same alphabet. A static pod has a hash for
a uid and the node's name at its end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zombiescope.facts.pods import CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, POD, STATEFUL_SET, STATIC_POD, Owner, Pod

_RANDOM = r"[bcdfghjklmnpqrstvwxz2456789]{5}"
"""Kubernetes' `rand.String(5)`: no vowels, nothing that looks like another character."""
_HASH = r"[5-9bcdf][4-9bcdf]{5,9}"
"""`rand.SafeEncodeString` of a 32-bit number in decimal digits: each digit has one character."""
_DEPLOYMENT = re.compile(rf"(.+)-{_HASH}-{_RANDOM}")
_CRON_JOB = re.compile(rf"(.+)-([0-9]{{8}}|[0-9]{{10}})-{_RANDOM}")
_ORDINAL = re.compile(r"(.+)-(?:0|[1-9][0-9]{0,4})")
_ONE_PER_NODE = re.compile(rf"(.+)-{_RANDOM}")
_STATIC_UID = re.compile(r"[0-9a-f]{32}")
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
    for kind, form in ((DEPLOYMENT, _DEPLOYMENT), (STATEFUL_SET, _ORDINAL), (DAEMON_SET, _ONE_PER_NODE)):
        found = form.fullmatch(name)
        if found:
            return Owner(kind, found[1])
    return Owner(POD, name)


def is_static(uid: str) -> bool:
    """A hash of its manifest, where the API server gives others a uid."""
    return _STATIC_UID.fullmatch(uid) is not None


def _is_moment(digits: str) -> bool:
    number = int(digits) if len(digits) == 8 else int(digits) // 60
    return _FIRST_MINUTE <= number <= _LAST_MINUTE


def _without_node(name: str, node: str) -> str:
    return name.removesuffix(f"-{node}") if node and name != f"-{node}" else name


def by_names(pods: Iterable[tuple[str, str, str]], node: str = "") -> list[Pod]:
    """Each a uid, a namespace and a name. Two pods of what would be one DaemonSet cannot be: there is one for each node."""
    listed = list(pods)
    found = [Pod(uid, namespace, name, owner_by_name(uid, name, node)) for uid, namespace, name in listed]
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


def owner_by_labels(uid: str, name: str, labels: Mapping[str, str], node: str = "") -> Owner | None:
    """Controllers label what they make; a container runtime hands the labels on. None where no label tells."""
    if "statefulset.kubernetes.io/pod-name" in labels:
        return Owner(STATEFUL_SET, name.rpartition("-")[0] or name, is_guess=False)
    template = labels.get("pod-template-hash")
    if template and f"-{template}-" in name:
        return Owner(DEPLOYMENT, name[: name.rindex(f"-{template}-")], is_guess=False)
    job = labels.get("batch.kubernetes.io/job-name") or labels.get("job-name")
    if job:
        return owner_of_job(job)
    if "pod-template-generation" in labels and "controller-revision-hash" in labels:
        return Owner(DAEMON_SET, name.rpartition("-")[0] or name, is_guess=False)
    return owner_by_name(uid, name, node) if is_static(uid) else None


def owner_of_job(name: str) -> Owner:
    """A job that a CronJob made is named by the moment it was due."""
    cron = _JOB_OF_CRON.fullmatch(name)
    if cron and _is_moment(cron[2]):
        return Owner(CRON_JOB, cron[1])
    return Owner(JOB, name, is_guess=False)


def owner_by_references(pod: Mapping[str, Any]) -> Owner | None:
    """Of a pod as the API writes it: its controller, and a Deployment behind its ReplicaSet."""
    about = pod.get("metadata")
    if not isinstance(about, dict):
        return None
    name = str(about.get("name", ""))
    references = [each for each in about.get("ownerReferences") or [] if isinstance(each, dict)]
    controller = next((each for each in references if each.get("controller")), references[0] if references else None)
    if controller is None:
        return Owner(POD, name, is_guess=False)
    kind, owner = str(controller.get("kind", "")), str(controller.get("name", ""))
    labels = about.get("labels") if isinstance(about.get("labels"), dict) else {}
    assert isinstance(labels, dict)
    template = str(labels.get("pod-template-hash", ""))
    if kind == "ReplicaSet" and template and owner.endswith(f"-{template}"):
        return Owner(DEPLOYMENT, owner.removesuffix(f"-{template}"), is_guess=False)
    if kind == JOB:
        return owner_of_job(owner)
    if kind == "Node":
        return Owner(STATIC_POD, _without_node(name, owner), is_guess=False)
    return Owner(kind or POD, owner or name, is_guess=False)
