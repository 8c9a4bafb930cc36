# SPDX-License-Identifier: Apache-2.0
"""Containers that their runtime restarted in place: Docker's own files, and kubelet's log folders.

kubelet names a container's log by its restart count (`/var/log/pods/NS_POD_UID/NAME/7.log`): no API is asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from zombiescope.facts.names import shown
from zombiescope.facts.units import RestartingContainer
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
