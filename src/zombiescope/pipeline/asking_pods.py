# SPDX-License-Identifier: Apache-2.0
"""Who may be asked about pods beside kubelet's log folders, where a person switched it on by name: a container runtime by its
socket, the API server of the cluster. What they refuse is a gap."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from zombiescope.analysis.pod_owner import PodBook, owner_by_labels, owner_by_name, pods_of_api
from zombiescope.config import load_config
from zombiescope.errors import ObservationError, ZombiescopeError
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown_text
from zombiescope.facts.pods import Container, KnownPods, Pod
from zombiescope.history.log import read_pod_file
from zombiescope.host.access import Host, beside_recording
from zombiescope.host.cluster_api import Api, fetch, pods_path
from zombiescope.host.cri_socket import CriContainer, CriPod, CriSocket
from zombiescope.host.live import LiveHost
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.watching.pods import Asked, Asking, PodsWatch, names_now


def read_known_pods(host: Host, state: str | None = None) -> KnownPods:
    """`state`: an agent's folder; without it the configured one. What is there now counts before what is remembered."""
    now = names_now(host)
    if not isinstance(beside_recording(host), LiveHost):
        return now
    book = PodBook()
    book.load(remembered_in(state))
    pods = {**book.pods, **{uid: pod for uid, pod in now.pods.items() if not _is_known_better(book, uid)}}
    return KnownPods(pods, {**book.containers, **now.containers}, now.node)


def _is_known_better(book: PodBook, uid: str) -> bool:
    known = book.pods.get(uid)
    return known is not None and not known.owner.is_guess


def remembered_in(state: str | None) -> object:
    try:
        folder = load_config(None, {}).text("state") if state is None else state
        text = read_pod_file(os.fsencode(folder)) if folder else b""
        return json.loads(text or b"{}")
    except (ZombiescopeError, OSError, ValueError, RecursionError):
        return {}


_MOST_ENDS = 50
_TELLING = 1


class PodSources(NamedTuple):
    """What a person allowed."""

    cri_socket: str | None = None
    api: Api | None = None
    node: str = ""
    """As the cluster calls it; empty: all pods that the account may see are looked at."""

    def asking(self) -> tuple[Asking, ...]:
        found: list[Asking] = []
        if self.cri_socket:
            path = self.cri_socket
            found.append(lambda: _guarded("pods", lambda: ask_runtime(path)))
        if self.api is not None:
            api, node = self.api, self.node
            found.append(lambda: _guarded("pods", lambda: ask_api(api, node)))
        return tuple(found)


NOBODY_ASKED = PodSources()


def pod_sources(cri_socket: str | None, config: str | None, *, kube_api: bool) -> PodSources:
    """By what was switched on; the configuration names the server, its account and this node."""
    if not kube_api:
        return PodSources(cri_socket)
    known = load_config(config, {})
    return PodSources(
        cri_socket, Api(known.text("kubernetes_api"), known.text("kubernetes_account")), known.text("kubernetes_node")
    )


def watch_pods(host: Host, sources: PodSources) -> PodsWatch | None:
    """None where nothing runs: of a recording a window takes what it kept."""
    return PodsWatch(host, read_memory_hierarchy(host), sources.asking()) if host.is_live else None


def _guarded(fact: str, ask: Asking) -> Asked | Gap:
    try:
        return ask()
    except ObservationError as error:
        return Gap(fact, f"{error.what}: {error.why}", error.hint)


def ask_api(api: Api, node: str) -> Asked:
    pods, ids = pods_of_api(fetch(api, pods_path(node)), node)
    return Asked(tuple(pods), tuple(ids), "the cluster's API", node)


def ask_runtime(path: str) -> Asked:
    runtime = CriSocket(path)
    try:
        sandboxes, containers = runtime.pods(), runtime.containers()
    except ValueError as error:
        what = f"cannot ask the container runtime at {path}"
        raise ObservationError(what, str(error), "is it a CRI socket?") from error
    of_pod: dict[str, list[CriContainer]] = {}
    for each in containers:
        of_pod.setdefault(each.pod_id, []).append(each)
    ends = _MOST_ENDS
    found: dict[str, Pod] = {}
    for sandbox in sorted(sandboxes, key=lambda each: not each.is_ready):
        newest: dict[str, list[CriContainer]] = {}
        for each in sorted(of_pod.get(sandbox.id, ()), key=lambda each: (-each.attempt, -each.created_at)):
            newest.setdefault(each.name, []).append(each)
        inside = []
        for name, lives in newest.items():
            asks = lives[0].attempt >= _TELLING and ends > 0
            ends -= asks
            inside.append(_container(runtime, name, lives, asks=asks))
        found.setdefault(sandbox.uid, _pod(sandbox, tuple(inside)))
    ids = tuple((each.id, shown_text(each.name)) for each in containers)
    return Asked(tuple(pod for uid, pod in found.items() if uid), ids, "the container runtime")


def _pod(sandbox: CriPod, inside: tuple[Container, ...]) -> Pod:
    uid, name = shown_text(sandbox.uid), shown_text(sandbox.name)
    owner = owner_by_labels(uid, name, sandbox.labels) or owner_by_name(uid, name)
    owner = owner._replace(name=shown_text(owner.name) if owner.name != name else name)
    return Pod(uid, shown_text(sandbox.namespace), name, owner, inside)


def _container(runtime: CriSocket, name: str, lives: list[CriContainer], *, asks: bool) -> Container:
    """Its newest life, and how the last one that ended did."""
    now, before = lives[0], lives[1] if len(lives) > 1 else None
    ended = next((each for each in lives if not each.is_running), None)
    end = runtime.end_of(ended.id) if asks and ended else None
    pause = now.created_at - before.created_at if before else None
    return Container(
        shown_text(name),
        now.attempt,
        now.created_at or None,
        pause,
        now.is_running,
        shown_text(end.reason) if end else "",
        end.exit_code if end else None,
    )
