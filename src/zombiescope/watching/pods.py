# SPDX-License-Identifier: Apache-2.0
"""Watch the pods of a node: their names, their workloads, and which containers are started again and again. By kubelet's log
folders, and by whoever may be asked besides: a container runtime, the cluster's API. A recording keeps what it comes to."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import Any, NamedTuple

from zombiescope.analysis.looping import loops_of, may_loop
from zombiescope.analysis.maker import container_id_of, pod_uid_of
from zombiescope.analysis.pod_owner import by_names, is_static, node_in
from zombiescope.diagnosis.case import Case
from zombiescope.facts.agent import Reading
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown, unshown
from zombiescope.facts.plain import of_outcome, to_outcome
from zombiescope.facts.pods import Container, KnownPods, Pod, PodLoop, PodsSeen, known_pods
from zombiescope.host.access import Host, answers, beside_recording, read_or_nothing
from zombiescope.host.files import Files, FolderTree
from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.cgroup_census import read_live_tree
from zombiescope.probes.readers.containers import (
    PODS,
    ContainerLink,
    PodFolder,
    own_pod,
    parsed_folders,
    parsed_link,
    read_container,
    read_containers_of,
    read_links,
    read_node_name,
    read_pod_folders,
    read_started,
)
from zombiescope.watching.watch import Quiet, Teller

_WALK_SECONDS = 60.0

Key = tuple[str, str]
"""The uid of a pod, and the name of a container."""


class LivePods:
    """Which containers have a cgroup: where pods lie is found by one walk; then only the folders of those asked for are listed."""

    def __init__(self) -> None:
        self._bases: tuple[bytes, ...] = ()
        self._sides: tuple[bytes, ...] = ()
        """Where containers lie outside of their pods: `kubepods-podUID.slice:cri-containerd:ID`, where the runtime's driver is not
        kubelet's."""
        self._walked_at = float("-inf")

    def ids(self, host: Host, hierarchy: Hierarchy, uids: Iterable[str]) -> set[str] | None:
        """None where nobody can tell."""
        found: set[str] = set()
        missing = {uid for uid in uids if not self._take(host, hierarchy, uid, found)}
        if missing and host.monotonic() - self._walked_at >= _WALK_SECONDS:
            self._walked_at = host.monotonic()
            if isinstance(tree := read_live_tree(host, hierarchy), Gap):
                return None
            pods = {path for path in tree.paths if pod_uid_of(path.rpartition(b"/")[2])}
            self._bases = tuple(sorted({path.rpartition(b"/")[0] for path in pods if b":" not in path}))
            self._sides = tuple(sorted({path.rpartition(b"/")[0] for path in pods if b":" in path}))
            for uid in missing:
                self._take(host, hierarchy, uid, found)
        for side in self._sides:
            with suppress(OSError):
                beside = [each for each in host.subdirectories(hierarchy.place(side)) if pod_uid_of(each)]
                found.update(number for each in beside if (number := container_id_of(b"/" + each)))
        return found

    def _take(self, host: Host, hierarchy: Hierarchy, uid: str, found: set[str]) -> bool:
        is_there = False
        for base in self._bases:
            above = base.rpartition(b"/")[2].removesuffix(b".slice")
            name = (
                b"%s-pod%s.slice" % (above, uid.replace("-", "_").encode())
                if base.endswith(b".slice")
                else b"pod" + uid.encode()
            )
            with suppress(OSError):
                inside = host.subdirectories(hierarchy.place(base + b"/" + name))
                found.update(number for each in inside if (number := container_id_of(b"/" + each)))
                is_there = True
        return is_there


class PodLogs:
    """The log folders, read again and again: after the first time only what is new, by one listing of the links."""

    def __init__(self, host: Host) -> None:
        self._root = getattr(host, "root", b"") or b"/"
        self._links: dict[bytes, ContainerLink | None] | None = None
        self._containers: dict[Key, Container] = {}
        self._names: list[bytes] = []
        self._live = LivePods()
        self.ids: dict[str, Key] = {}
        self.folders: list[PodFolder] = []
        self.trouble: str = ""

    def read(self) -> dict[Key, Container]:
        with closing(FolderTree(self._root)) as tree:
            files = Files(tree)
            if (names := files.list(PODS)) != self._names:
                self._names, self.folders = names, list(parsed_folders(names))
            known, listed = self._links or {}, read_links(files)
            self._links = {name: known[name] if name in known else parsed_link(name) for name in listed}
            fresh = [name for name in self._links if name not in known]
            if not known or not listed:
                every = ((pod.uid, each) for pod in self.folders for each in read_containers_of(files, pod))
                self._containers = {(uid, each.name): each for uid, each in every}
            else:
                self._read_some(files, fresh)
            if fresh or len(self.ids) != len(listed):
                uids = {(pod.namespace, pod.name): pod.uid for pod in self.folders}
                known_links = (link for link in self._links.values() if link and (link.namespace, link.pod) in uids)
                self.ids = {link.id: (uids[link.namespace, link.pod], link.container) for link in known_links}
            self.trouble = next((each.reason for each in files.refusals), "")
        return self._containers

    def _read_some(self, files: Files, fresh: Iterable[bytes]) -> None:
        pods = {(pod.namespace, pod.name): pod for pod in self.folders}
        there = {pod.uid for pod in self.folders}
        self._containers = {key: each for key, each in self._containers.items() if key[0] in there}
        for name in fresh:
            link = (self._links or {})[name]
            pod = pods.get((link.namespace, link.pod)) if link else None
            if link and pod:
                key = (pod.uid, link.container)
                found = read_started(files, name, self._containers.get(key))
                self._containers[key] = found or read_container(files, pod, unshown(link.container))

    def with_running(self, host: Host, hierarchy: Hierarchy | Gap, now: float) -> dict[Key, Container]:
        """With whether each runs: looked at only where one may loop."""
        wanted = {key for key, each in self._containers.items() if may_loop(each, now)}
        if not wanted or isinstance(hierarchy, Gap):
            return self._containers
        live = self._live.ids(host, hierarchy, {uid for uid, _ in wanted})
        if live is None:
            return self._containers
        running = {owner for number, owner in self.ids.items() if number in live}
        known = set(self.ids.values())
        return {
            key: each._replace(is_running=key in running) if key in wanted and key in known else each
            for key, each in self._containers.items()
        }


FACT = "pods"
LOG_FOLDERS = "/var/log/pods"
NO_PODS_HERE = Gap(FACT, "no recording kept its pods, and nothing runs in a folder", "run it on the host")
_GARBLED = Gap(FACT, "the recorded pods are not in a form we know", "record the host again")
_MOST_LOOPS, _MOST_KEPT = 200, 4096
_LOOKS_KEPT = 6
"""By the agent: a minute of them. Who waits longer for the next start is known by not running."""


class Asked(NamedTuple):
    """What somebody answered who knows more than names: a runtime, the API."""

    pods: tuple[Pod, ...]
    containers: tuple[tuple[str, str], ...] = ()
    """Ids, each with a name."""
    source: str = ""
    node: str = ""


Asking = Callable[[], Asked | Gap]


class _Kept(NamedTuple):
    """As a recording keeps it."""

    pods: PodsSeen


def read_own_pod(host: Host) -> str:
    """The uid of the pod that this very process runs in. Not of the host it looks at: of itself."""
    here = LiveHost()
    if not host.is_live:
        return ""
    return own_pod(read_or_nothing(here, b"/proc/self/mountinfo"), read_or_nothing(here, b"/proc/self/cgroup"))


def node_name(host: Host, folders: Iterable[PodFolder], told: str = "") -> str:
    """As kubelet was told, or what static pods of this node end with, else the machine's own name."""
    if told:
        return told
    static = static_names(folders)
    name = shown(read_or_nothing(host, b"/proc/sys/kernel/hostname").strip())
    if name and all(each.endswith(f"-{name}") for each in static):
        return name
    return node_in(static) or name


def static_names(folders: Iterable[PodFolder]) -> list[str]:
    """Names of static pods: their uids are hashes."""
    return [folder.name for folder in folders if is_static(folder.uid)]


class PodsWatch(Quiet):
    """The first look is taken when it is made; then `seen`."""

    def __init__(self, host: Host, hierarchy: Hierarchy | Gap, asking: Iterable[Asking] = ()) -> None:
        self._host, self._beside, self._hierarchy = host, beside_recording(host), hierarchy
        self._asking = tuple(asking)
        self._start = host.monotonic()
        self._logs: PodLogs | None = None
        self._before: dict[Key, int] = {}
        self.gaps: tuple[Gap, ...] = ()
        if isinstance(self._beside, LiveHost):
            self._logs = PodLogs(self._beside)
            self._before = {key: each.restarts for key, each in self._logs.read().items()}

    def seen(self) -> PodsSeen | Gap:
        outcome = self._host.experiment(FACT, lambda: to_outcome(self._outcome()))
        return NO_PODS_HERE if outcome is None else checked(outcome)

    def _outcome(self) -> _Kept | Gap:
        if self._logs is None:
            return NO_PODS_HERE
        logs, host = self._logs, self._beside
        logs.read()
        now = host.wall_clock()
        containers = logs.with_running(host, self._hierarchy, now)
        moved = {key: each.restarts - self._before.get(key, each.restarts) for key, each in containers.items()}
        seconds = self._host.monotonic() - self._start
        named = Named.of(host, logs.folders, read_node_name(host) if logs.folders else "")
        loops = loops_in(named, containers, moved, now)
        names = tuple((number, name) for number, (_, name) in sorted(logs.ids.items()))
        pods = tuple(named.pods[:_MOST_KEPT])
        found = PodsSeen(now, seconds, pods, loops, LOG_FOLDERS, named.own, names, named.node)
        for ask in self._asking:
            if isinstance(answer := ask(), Gap):
                self.gaps = (*self.gaps, answer)
            else:
                found = joined(found, answer, moved)
        if found.pods or self._asking or logs.folders:
            return _Kept(found)
        if logs.trouble:
            return Gap(FACT, f"{LOG_FOLDERS} cannot be read: {logs.trouble}", "run as root")
        return Gap(FACT, f"there is no pod on this host: {LOG_FOLDERS} is not there or empty")


def checked(outcome: Mapping[str, Any]) -> PodsSeen | Gap:
    """A recording comes from a stranger."""
    kept = of_outcome(outcome, _Kept, _GARBLED)
    return kept if isinstance(kept, Gap) else kept.pods


class Named(NamedTuple):
    """The pods of some folders; worked out again only when the folders are others."""

    folders: list[PodFolder]
    pods: list[Pod]
    node: str
    own: str

    @classmethod
    def of(cls, host: Host, folders: list[PodFolder], told: str = "") -> "Named":
        node = node_name(host, folders, told)
        pods = by_names(((pod.uid, pod.namespace, pod.name) for pod in folders), node)
        own = read_own_pod(host)
        return cls(folders, pods, node, next((pod.maker for pod in pods if pod.uid == own), ""))


def loops_in(
    named: Named, containers: Mapping[Key, Container], moved: Mapping[Key, int], now: float
) -> tuple[PodLoop, ...]:
    inside: dict[str, list[Container]] = {}
    for (uid, _), container in containers.items():
        if container.restarts:
            inside.setdefault(uid, []).append(container)
    whole = [pod._replace(containers=tuple(inside[pod.uid])) for pod in named.pods if pod.uid in inside]
    return tuple(loop for loop in loops_of(whole, now, moved, LOG_FOLDERS) if loop.maker != named.own)[:_MOST_LOOPS]


def joined(seen: PodsSeen, answer: Asked, moved: Mapping[Key, int]) -> PodsSeen:
    """Who was asked knows the owner and how a container ended; what log folders alone tell stays."""
    told = {pod.uid: pod for pod in answer.pods}
    pods = [told.pop(pod.uid)._replace(containers=()) if pod.uid in told else pod for pod in seen.pods]
    pods += [pod._replace(containers=()) for pod in told.values()]
    makers = {pod.uid: pod.maker for pod in pods}
    own = next((makers[pod.uid] for pod in seen.pods if pod.maker == seen.own and pod.uid in makers), seen.own)
    # Judged by who knows better.
    judged = {(pod.uid, each.name) for pod in answer.pods for each in pod.containers if each.is_running is not None}
    fresh = loops_of(answer.pods, seen.at, moved, answer.source)
    others = (loop for loop in seen.loops if (loop.uid, loop.container) not in judged)
    kept = [loop._replace(maker=makers.get(loop.uid, loop.maker)) for loop in others]
    loops = tuple(loop for loop in (*fresh, *kept) if loop.maker != own)[:_MOST_LOOPS]
    names = dict((*seen.containers, *answer.containers))
    return seen._replace(
        pods=tuple(pods[:_MOST_KEPT]), loops=loops, source=f"{seen.source}, {answer.source}", own=own,
        containers=tuple(sorted(names.items())), node=answer.node or seen.node,
    )  # fmt: skip


def names_now(host: Host) -> KnownPods:
    """Of the pods that are there now; of a recording, of those that it kept."""
    machine = beside_recording(host)
    if not isinstance(machine, LiveHost):
        outcome = host.experiment(FACT, dict)
        seen = NO_PODS_HERE if not outcome else checked(outcome)
        return KnownPods() if isinstance(seen, Gap) else known_pods(seen.pods, seen.containers, seen.node)
    with closing(FolderTree(machine.root or b"/")) as tree:
        files = Files(tree)
        folders = read_pod_folders(files)
        links = [link for name in read_links(files) if (link := parsed_link(name))]
    node = node_name(machine, folders)
    pods = by_names(((pod.uid, pod.namespace, pod.name) for pod in folders), node)
    return known_pods(pods, ((link.id, link.container) for link in links), node)


def has_pods(host: Host) -> bool:
    """A kubelet keeps its logs there as long as it is there."""
    return answers(host.subdirectories, LOG_FOLDERS.encode())


class PodsTeller(Teller):
    """For the agent: names as soon as they are there, for they go with the pod; and what loops."""

    def __init__(self, host: Host, hierarchy: Hierarchy | Gap) -> None:
        self._host, self._hierarchy = host, hierarchy
        self._logs = PodLogs(host)
        self._history: list[tuple[float, dict[Key, int]]] = []
        self._named: Named | None = None
        self._told: dict[str, Key] = {}
        self._seen: PodsSeen | Gap = Gap(FACT, "not looked at yet")

    def read(self) -> Reading | Gap:
        containers = self._logs.read()
        now = self._host.wall_clock()
        before = self._history[0][1] if self._history else {}
        restarts = {key: each.restarts for key, each in containers.items() if each.restarts}
        moved = {key: count - before.get(key, count) for key, count in restarts.items()} if self._history else {}
        self._history = [*self._history[-_LOOKS_KEPT:], (now, restarts)]
        fresh: tuple[Pod, ...] = ()
        if self._named is None or self._named.folders is not self._logs.folders:
            self._named = Named.of(self._host, self._logs.folders)
            fresh = tuple(self._named.pods)  # those that are known are remembered longer
        running = self._logs.with_running(self._host, self._hierarchy, now)
        loops = loops_in(self._named, running, moved, now)
        seconds, pods = now - self._history[0][0], tuple(self._named.pods)
        self._seen = PodsSeen(now, seconds, pods, loops, LOG_FOLDERS, self._named.own, node=self._named.node)
        ids, told = self._logs.ids, self._told
        self._told = ids
        return Reading(pods=fresh, containers=tuple((each, ids[each][1]) for each in ids if each not in told))

    def fill(self, case: Case) -> Case:
        return case._replace(pods=self._seen)
