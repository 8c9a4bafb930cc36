# SPDX-License-Identifier: Apache-2.0
"""Pods and their containers as kubelet's log folders tell of them, without asking anybody; containers that Docker restarted in
place, by its own files; and what else starts programs beside systemd.

`/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log`: N counts the starts of a container in place. `/var/log/containers` has a link for
each container, `POD_NAMESPACE_CONTAINER-ID.log`: one listing tells which were started since the last. Both go with the pod.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from zombiescope.facts.names import shown, shown_text
from zombiescope.facts.pods import Container
from zombiescope.facts.units import RestartingContainer, Schedule
from zombiescope.host.access import Host, names_or_nothing, read_or_nothing
from zombiescope.host.files import Files

PODS, LINKS = b"/var/log/pods", b"/var/log/containers"
_UID = rb"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})"
_FOLDER = re.compile(rb"([^_]+)_(.+)_([0-9A-Za-z-]+)", re.DOTALL)
_LINK = re.compile(rb"([^_]+)_([^_]+)_(.+)-([0-9a-f]{64})\.log", re.DOTALL)
_LOG = re.compile(rb"([0-9]{1,8})\.log")
_MOUNTED = re.compile(rb"/pods/" + _UID + rb"/")
_CGROUP = re.compile(rb"pod" + _UID)
_OF_KUBELET = (b"/etc/hosts", b"/dev/termination-log")


class PodFolder(NamedTuple):
    folder: bytes
    uid: str
    namespace: str
    name: str


class ContainerLink(NamedTuple):
    pod: str
    namespace: str
    container: str
    id: str


def read_pod_folders(files: Files) -> list[PodFolder]:
    """Empty on a node without a kubelet."""
    return list(parsed_folders(files.list(PODS)))


def parsed_folders(names: Iterable[bytes]) -> Iterator[PodFolder]:
    for found in filter(None, map(_FOLDER.fullmatch, names)):
        yield PodFolder(found[0], found[3].decode("ascii"), shown(found[1]), shown(found[2]))


def read_links(files: Files) -> list[bytes]:
    return files.list(LINKS)


def parsed_link(name: bytes) -> ContainerLink | None:
    found = _LINK.fullmatch(name)
    return ContainerLink(shown(found[1]), shown(found[2]), shown(found[3]), found[4].decode("ascii")) if found else None


def read_containers_of(files: Files, pod: PodFolder) -> list[Container]:
    return [read_container(files, pod, name) for name in files.list(PODS + b"/" + pod.folder)]


def read_container(files: Files, pod: PodFolder, name: bytes) -> Container:
    """A folder changes when a log is made in it: that is when the container was started last."""
    folder = PODS + b"/" + pod.folder + b"/" + name
    counts = sorted(int(found[1]) for log in files.list(folder) if (found := _LOG.fullmatch(log)))
    restarts = counts[-1] if counts else 0
    entry = files.entry(folder)
    started = entry.modified_at if entry and counts else None
    before = files.entry(folder + b"/%d.log" % counts[-2]) if started is not None and len(counts) > 1 else None
    ended = before.modified_at if before else None
    pause = max(started - ended, 0.0) if started is not None and ended is not None else None
    return Container(shown(name), restarts, started, pause)


def read_started(files: Files, link: bytes, before: Container | None) -> Container | None:
    """By the link of a container that was started a moment ago: it leads to its log, and was made with it. `before`: its last
    life. None where it leads elsewhere."""
    entry = files.entry(LINKS + b"/" + link)
    parsed = parsed_link(link)
    log = _LOG.fullmatch(entry.target.rpartition(b"/")[2]) if entry else None
    if entry is None or parsed is None or log is None:
        return None
    at, earlier = entry.modified_at, before.restarted_at if before else None
    pause = max(at - earlier, 0.0) if at is not None and earlier is not None else None
    return Container(parsed.container, int(log[1]), at, pause)


_KUBELETS = (b"kubelet", b"k3s", b"k3s-server", b"k3s-agent", b"kubelite", b"rke2", b"k0s")
_NAMED = re.compile(rb"--(?:hostname-override|node-name)[=\0]([A-Za-z0-9.-]+)\0")


def read_node_name(host: Host) -> str:
    """As kubelet was told to call this node; empty where it was told nothing, or cannot be seen."""
    for process in filter(bytes.isdigit, names_or_nothing(host, b"/proc")):
        is_kubelet = read_or_nothing(host, b"/proc/" + process + b"/comm").strip() in _KUBELETS
        if is_kubelet and (found := _NAMED.search(read_or_nothing(host, b"/proc/" + process + b"/cmdline"))):
            return found[1].decode("ascii")
    return ""


def own_pod(mountinfo: bytes, cgroup: bytes) -> str:
    """The uid of the pod that we run in: by what kubelet mounted into it, else by our cgroup; empty outside of one."""
    for line in mountinfo.splitlines():
        words = line.split(b" ")
        found = _MOUNTED.search(words[3]) if len(words) > 4 and words[4] in _OF_KUBELET else None
        if found:
            return found[1].decode("ascii")
    inside = _CGROUP.search(cgroup.replace(b"_", b"-"))
    return inside[1].decode("ascii") if inside else ""


def read_pod_volumes(host: Host) -> dict[str, bytes]:
    """File systems that kubelet mounted for a pod, such as an emptyDir in memory, by device and each with its place: as the machine
    itself has them mounted, for a pod of ours sees its own mounts alone."""
    rows = (line.split(b" ") for line in read_or_nothing(host, b"/proc/1/mountinfo").splitlines())
    return {
        words[2].decode("ascii", "replace"): words[4]
        for words in rows
        if len(words) > 4 and words[3] == b"/" and _MOUNTED.search(words[4])
    }


_DOCKER = b"/var/lib/docker/containers"


def read_containers(files: Files) -> Iterator[RestartingContainer]:
    for name in files.list(_DOCKER):
        path = _DOCKER + b"/" + name + b"/config.v2.json"
        try:
            said = json.loads(files.read(path) or b"{}")
        except (ValueError, RecursionError):
            files.refuse(path, "not JSON: skipped")
            continue
        count = said.get("RestartCount") if isinstance(said, dict) else None
        if isinstance(count, int) and count > 0:
            label = shown_text(str(said.get("Name", "")).lstrip("/")) or shown(name[:12])
            yield _with_state(RestartingContainer("docker", label, count, shown(path)), said.get("State"))


def _with_state(found: RestartingContainer, state: object) -> RestartingContainer:
    if not isinstance(state, dict):
        return found
    code, began, ended = state.get("ExitCode"), _time(state.get("StartedAt")), _time(state.get("FinishedAt"))
    reason = "OOMKilled" if state.get("OOMKilled") is True else ""
    is_running = state.get("Running") is True and state.get("Restarting") is not True
    pause = began - ended if began is not None and ended is not None and began > ended else None
    return replace(
        found,
        restarted_at=max((at for at in (began, ended) if at is not None), default=None),
        pause_seconds=pause,
        is_running=is_running,
        ended=(reason, code if isinstance(code, int) and not is_running else None),
    )


def _time(said: object) -> float | None:
    """RFC 3339 with nanoseconds; the year 1 stands for never."""
    try:
        moment = datetime.fromisoformat(said if isinstance(said, str) else "")
    except ValueError:
        return None
    return moment.timestamp() if moment.year > 1970 and moment.tzinfo else None


_ID = re.compile(rb"-([0-9a-f]{64})\.log")


def read_container_ids(files: Files) -> frozenset[str]:
    """Of containers that kubelet keeps a log of: `/var/log/containers/POD_NS_NAME-ID.log`."""
    return frozenset(found[1].decode() for name in files.list(LINKS) if (found := _ID.search(name)))


_TABLES = (b"/etc/crontab", b"/etc/anacrontab")
_FOLDERS = (b"/etc/cron.d", b"/var/spool/cron/crontabs", b"/var/spool/cron")
_PERIODS = (b"hourly", b"daily", b"weekly", b"monthly", b"yearly")
_LINE = re.compile(rb"\s*(@\w+|(?:[\d*/,A-Za-z-]+\s+){4}[\d*/,A-Za-z-]+)\s+(.*)")
_START = re.compile(rb"S\d\d(.+)")


def read_schedules(files: Files) -> tuple[Schedule, ...]:
    return (*_cron(files), *_scripts(files))


def _cron(files: Files) -> Iterator[Schedule]:
    for path in (*_TABLES, *(folder + b"/" + name for folder in _FOLDERS for name in files.list(folder))):
        name = path.rpartition(b"/")[2]
        lines = [] if name.startswith(b".") else (files.read(path) or b"").splitlines()
        for said in filter(None, map(_LINE.match, lines)):
            yield Schedule("cron", shown(name), shown(path), shown(said[1]), shown(said[2].strip()))
    for period in _PERIODS:
        folder = b"/etc/cron." + period
        for name in files.list(folder):
            entry = files.entry(folder + b"/" + name)
            if entry is not None and entry.executable and not name.startswith(b"."):
                yield Schedule("cron", shown(name), shown(folder + b"/" + name), period.decode())


def _scripts(files: Files) -> Iterator[Schedule]:
    """SysV scripts, with the run levels that start them; without any, nothing starts them."""
    levels: dict[bytes, list[str]] = {}
    for level in (b"2", b"3", b"4", b"5", b"S"):
        for link in files.list(b"/etc/rc" + level + b".d"):
            if said := _START.fullmatch(link):
                levels.setdefault(said[1], []).append(level.decode())
    for name in files.list(b"/etc/init.d"):
        entry = files.entry(b"/etc/init.d/" + name)
        if entry is not None and entry.executable and name not in (b"README", b"skeleton", b"rc", b"rcS"):
            yield Schedule("sysv", shown(name), shown(b"/etc/init.d/" + name), ",".join(levels.get(name, [])))
