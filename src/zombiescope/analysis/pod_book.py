# SPDX-License-Identifier: Apache-2.0
"""What is remembered of pods beyond their lives: the log folder that names one goes with it, its zombies stay. Bounded: who was
seen longest ago is forgotten first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zombiescope.facts.pods import POD_PREFIX, Owner, Pod

VERSION = 1
"""Of what is kept; before it was stated, it was this one too."""
MOST_PODS = 2048
MOST_CONTAINERS = 2048
_ID_SHOWN = 12
_LONGEST_NAME = 1024


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
            kept = pod._replace(containers=()) if known is None or not _is_better(known, pod) else known
            self._pods[pod.uid] = kept
            maker = kept.maker
            if self.makers.get(pod.uid) != maker:
                if known is None:
                    renamed[POD_PREFIX + pod.uid] = maker
                self.makers[pod.uid] = maker
                self.version += 1
        for number, name in containers:
            short = number[:_ID_SHOWN]
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
            pods = [_pod(each) for each in plain["pods"][-MOST_PODS:]]
            containers = [(_text(number), _text(name)) for number, name in plain["containers"][-MOST_CONTAINERS:]]
        except (KeyError, TypeError, ValueError):
            return False
        self.take(pods, containers)
        return True


def later_version(plain: Any) -> object | None:
    """The version of a file that a later program kept; None: it is none such."""
    stated = plain.get("v", VERSION) if isinstance(plain, dict) else VERSION
    return None if stated == VERSION else stated


def _is_better(known: Pod, fresh: Pod) -> bool:
    """What somebody said is worth more than a guess by the name."""
    return fresh.owner.is_guess and not known.owner.is_guess


def _pod(plain: Sequence[Any]) -> Pod:
    uid, namespace, name, kind, owner, is_guess = plain
    return Pod(_text(uid), _text(namespace), _text(name), Owner(_text(kind), _text(owner), bool(is_guess)))


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        raise ValueError("no name")
    return value
