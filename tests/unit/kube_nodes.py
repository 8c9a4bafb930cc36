# SPDX-License-Identifier: Apache-2.0
"""Nodes of a cluster as kubelet lays them out on disk: log folders of pods, links of containers, times as they were."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

UID_A = "0fdb6e76-0d5b-4a3a-8a6a-7b6f0c8e1d2a"
UID_B = "1fdb6e76-0d5b-4a3a-8a6a-7b6f0c8e1d2b"
UID_C = "2fdb6e76-0d5b-4a3a-8a6a-7b6f0c8e1d2c"
STATIC = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"
CRASHY = "crashy-7d4b9c8f6-x2z4k"


def id_of(uid: str, container: str, start: int) -> str:
    """The id of a container, another one for each start."""
    return hashlib.sha256(f"{uid} {container} {start}".encode()).hexdigest()


class KubeNode:
    def __init__(self, root: Path, now: float) -> None:
        self.root, self.now = root, now
        for folder in ("var/log/pods", "var/log/containers", "proc/sys/kernel"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "proc/sys/kernel/hostname").write_text("n1\n")

    def pod(self, namespace: str, name: str, uid: str) -> Path:
        folder = self.root / "var/log/pods" / f"{namespace}_{name}_{uid}"
        folder.mkdir(exist_ok=True)
        return folder

    def container(
        self,
        namespace: str,
        pod: str,
        uid: str,
        name: str,
        *,
        restarts: int = 0,
        started_ago: float = 5.0,
        pause: float = 20.0,
    ) -> str:
        """Its id. `pause`: between its last two starts."""
        folder = self.pod(namespace, pod, uid) / name
        folder.mkdir(exist_ok=True)
        for log in folder.iterdir():
            log.unlink()
        started = self.now - started_ago
        for count in range(max(restarts - 1, 0), restarts + 1):
            log = folder / f"{count}.log"
            log.write_bytes(b"")
            at = started if count == restarts else started - pause
            os.utime(log, (at, at))
        os.utime(folder, (started, started))
        number = id_of(uid, name, restarts)
        link = self.root / "var/log/containers" / f"{pod}_{namespace}_{name}-{number}.log"
        if not link.is_symlink():
            link.symlink_to(f"/var/log/pods/{namespace}_{pod}_{uid}/{name}/{restarts}.log")
        return number

    def forget(self, namespace: str, name: str, uid: str) -> None:
        """The pod is deleted, and its logs with it."""
        folder = self.root / "var/log/pods" / f"{namespace}_{name}_{uid}"
        for inside in sorted(folder.rglob("*"), reverse=True):
            inside.rmdir() if inside.is_dir() else inside.unlink()
        folder.rmdir()
        for link in (self.root / "var/log/containers").glob(f"{name}_{namespace}_*"):
            link.unlink()
