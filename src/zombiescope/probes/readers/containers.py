# SPDX-License-Identifier: Apache-2.0
"""Containers that their runtime restarted in place: Docker's own files, and kubelet's log folders.

kubelet names a container's log by its restart count (`/var/log/pods/NS_POD_UID/NAME/7.log`): no API is asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from zombiescope.facts.names import shown
from zombiescope.facts.units import RestartingContainer, Schedule
from zombiescope.host.access import Host
from zombiescope.host.files import Files

_DOCKER = b"/var/lib/docker/containers"
_PODS = b"/var/log/pods"


def read_containers(files: Files) -> tuple[RestartingContainer, ...]:
    return (*_docker(files), *_pods(files))


def _docker(files: Files) -> Iterator[RestartingContainer]:
    for name in files.list(_DOCKER):
        path = _DOCKER + b"/" + name + b"/config.v2.json"
        try:
            said = json.loads(files.read(path) or b"{}")
        except (ValueError, RecursionError):
            files.refuse(path, "not JSON: skipped")
            continue
        count = said.get("RestartCount") if isinstance(said, dict) else None
        if isinstance(count, int) and count > 0:
            label = str(said.get("Name", "")).lstrip("/").encode("utf-8", "surrogateescape") or name[:12]
            yield RestartingContainer("docker", shown(label), count, shown(path))


def _pods(files: Files) -> Iterator[RestartingContainer]:
    for pod in files.list(_PODS):
        for container in files.list(_PODS + b"/" + pod):
            logs = files.list(_PODS + b"/" + pod + b"/" + container)
            counts = [int(log[:-4]) for log in logs if log.endswith(b".log") and log[:-4].isdigit() and len(log) < 12]
            if counts and max(counts) > 0:
                namespace, _, rest = pod.partition(b"_")
                label = namespace + b"/" + rest.rpartition(b"_")[0] + b"/" + container
                yield RestartingContainer("kubelet", shown(label), max(counts), shown(_PODS + b"/" + pod))


_CONTAINER_LOGS = b"/var/log/containers"
_ID = re.compile(rb"-([0-9a-f]{64})\.log")


def read_container_ids(files: Files) -> frozenset[str]:
    """Of containers that kubelet keeps a log of: `/var/log/containers/POD_NS_NAME-ID.log`."""
    return frozenset(found[1].decode() for name in files.list(_CONTAINER_LOGS) if (found := _ID.search(name)))


_LOGS = b"/var/log/pods"


def read_pod_names(host: Host) -> dict[str, str]:
    """`uid -> namespace/name`; empty on a node without a kubelet. A pod whose logs are gone keeps only its uid."""
    try:
        folders = host.subdirectories(_LOGS)
    except OSError:
        return {}
    names = {}
    for folder in folders:
        namespace, _, rest = folder.partition(b"_")
        name, separator, uid = rest.rpartition(b"_")
        if separator and namespace and name and uid:
            names[shown(uid)] = f"{shown(namespace)}/{shown(name)}"
    return names


_TABLES = (b"/etc/crontab", b"/etc/anacrontab")
_FOLDERS = (b"/etc/cron.d",)
_PERIODS = (b"hourly", b"daily", b"weekly", b"monthly", b"yearly")
_SPOOLS = (b"/var/spool/cron/crontabs", b"/var/spool/cron")
_LINE = re.compile(rb"\s*(@\w+|(?:[\d*/,A-Za-z-]+\s+){4}[\d*/,A-Za-z-]+)\s+(.*)")
_START = re.compile(rb"S\d\d(.+)")


def read_schedules(files: Files) -> tuple[Schedule, ...]:
    return (*_cron(files), *_scripts(files))


def _cron(files: Files) -> Iterator[Schedule]:
    for path in (*_TABLES, *(folder + b"/" + name for folder in (*_FOLDERS, *_SPOOLS) for name in files.list(folder))):
        name = path.rpartition(b"/")[2]
        if name.startswith(b"."):
            continue
        for line in (files.read(path) or b"").splitlines():
            said = None if line.lstrip().startswith(b"#") else _LINE.match(line)
            if said:
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
            said = _START.fullmatch(link)
            if said:
                levels.setdefault(said[1], []).append(level.decode())
    for name in files.list(b"/etc/init.d"):
        entry = files.entry(b"/etc/init.d/" + name)
        if entry is not None and entry.executable and name not in (b"README", b"skeleton", b"rc", b"rcS"):
            yield Schedule("sysv", shown(name), shown(b"/etc/init.d/" + name), ",".join(levels.get(name, [])))
