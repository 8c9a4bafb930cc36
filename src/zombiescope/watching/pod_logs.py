# SPDX-License-Identifier: Apache-2.0
"""kubelet's log folders, read again and again by who watches pods; and which containers have a cgroup."""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.analysis.looping import may_loop
from zombiescope.analysis.maker import container_id_of, pod_uid_of
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import unshown
from zombiescope.facts.pods import Container
from zombiescope.host.access import Host
from zombiescope.host.files import Files, FolderTree
from zombiescope.probes.readers.cgroup_census import read_live_tree
from zombiescope.probes.readers.containers import (
    PODS,
    ContainerLink,
    PodFolder,
    parsed_folders,
    parsed_link,
    read_container,
    read_containers_of,
    read_links,
    read_started,
)

_WALK_SECONDS = 60.0

Key = tuple[str, str]
"""The uid of a pod, and the name of a container."""


class LivePods:
    """Which containers have a cgroup: where pods lie is found by one walk; then only the folders of those asked for are listed."""

    def __init__(self) -> None:
        self._bases: tuple[bytes, ...] = ()
        self._walked_at = float("-inf")

    def ids(self, host: Host, hierarchy: Hierarchy, uids: Iterable[str]) -> set[str] | None:
        """None where nobody can tell."""
        found: set[str] = set()
        missing = {uid for uid in uids if not self._take(host, hierarchy, uid, found)}
        if missing and host.monotonic() - self._walked_at >= _WALK_SECONDS:
            self._walked_at = host.monotonic()
            tree = read_live_tree(host, hierarchy)
            if isinstance(tree, Gap):
                return None
            pods = {path for path in tree.paths if pod_uid_of(path.rpartition(b"/")[2])}
            self._bases = tuple(sorted({path.rpartition(b"/")[0] for path in pods}))
            for uid in missing:
                self._take(host, hierarchy, uid, found)
        return found

    def _take(self, host: Host, hierarchy: Hierarchy, uid: str, found: set[str]) -> bool:
        for base in self._bases:
            above = base.rpartition(b"/")[2].removesuffix(b".slice")
            name = (
                b"%s-pod%s.slice" % (above, uid.replace("-", "_").encode())
                if base.endswith(b".slice")
                else b"pod" + uid.encode()
            )
            try:
                inside = host.subdirectories(hierarchy.place(base + b"/" + name))
            except OSError:
                continue
            found.update(number for each in inside if (number := container_id_of(b"/" + each)))
            return True
        return False


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
        tree = FolderTree(self._root)
        try:
            files = Files(tree)
            names = files.list(PODS)
            if names != self._names:
                self._names, self.folders = names, list(parsed_folders(names))
            known, listed = self._links or {}, read_links(files)
            self._links = {name: known[name] if name in known else parsed_link(name) for name in listed}
            fresh = [name for name in self._links if name not in known]
            if not known or not listed:
                self._read_all(files)
            else:
                self._read_some(files, fresh)
            if fresh or len(self.ids) != len(listed):
                self._take_ids()
            self.trouble = next((each.reason for each in files.refusals), "")
        finally:
            tree.close()
        return self._containers

    def _take_ids(self) -> None:
        uids = {(pod.namespace, pod.name): pod.uid for pod in self.folders}
        self.ids = {
            link.id: (uid, link.container)
            for link in (self._links or {}).values()
            if link and (uid := uids.get((link.namespace, link.pod)))
        }

    def _read_all(self, files: Files) -> None:
        self._containers = {
            (pod.uid, container.name): container for pod in self.folders for container in read_containers_of(files, pod)
        }

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
