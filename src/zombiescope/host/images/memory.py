# SPDX-License-Identifier: Apache-2.0
"""The part of an image that an audit needs, kept in memory: unit files, cron, a few configuration files, and links.

Layers are laid over each other with whiteouts. Names that try to leave the tree are refused; nothing is ever written.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, field

from zombiescope.host.files import READ_LIMIT_BYTES, REFUSALS_KEPT, Entry, Kind, Refusal

KEPT_BYTES = 64 << 20
KEPT_ENTRIES = 200_000
_LONGEST_NAME = 4096
_SYSTEMD = tuple(
    root + b"/systemd/" + name
    for root in (b"/usr/local/lib", b"/usr/lib", b"/lib")
    for name in (b"system/", b"system-preset/", b"system.conf")
)
_FOLDERS = (
    *_SYSTEMD, b"/etc/systemd/", b"/run/systemd/", b"/usr/share/dbus-1/system-services", b"/usr/local/share/dbus-1",
    b"/sbin/init", b"/usr/sbin/init", b"/etc/inittab", b"/etc/init.d", b"/etc/rc", b"/etc/cron",
    b"/etc/anacrontab", b"/var/spool/cron", b"/etc/os-release", b"/usr/lib/os-release",
    b"/etc/supervisor", b"/etc/containers/systemd", b"/usr/share/containers/systemd", b"/etc/kubernetes/", b"/etc/kubelet.d",
    b"/var/lib/rancher/k3s/server/manifests", b"/var/lib/rancher/k3s/agent/pod-manifests",
    b"/var/lib/rancher/rke2/server/manifests", b"/var/lib/rancher/rke2/agent/pod-manifests", b"/etc/pam.d",
    b"/var/lib/containers/storage/overlay-containers/containers.json",
)  # fmt: skip
STREAMED_FOLDERS = (
    b"/etc", b"/usr/lib/systemd/system", b"/usr/lib/systemd/system-preset", b"/usr/lib/systemd/system.conf.d",
    b"/lib/systemd/system", b"/lib/systemd/system-preset", b"/usr/local/lib/systemd", b"/run/systemd",
    b"/usr/share/dbus-1/system-services",
    b"/usr/local/share/dbus-1/system-services", b"/usr/share/containers/systemd", b"/var/spool/cron", b"/var/lib/docker/containers",
    b"/var/lib/rancher/k3s/server/manifests", b"/var/lib/rancher/k3s/agent/pod-manifests",
    b"/var/lib/rancher/rke2/server/manifests", b"/var/lib/rancher/rke2/agent/pod-manifests",
)  # fmt: skip
"""All that is wanted, where folders are asked for one by one and not the whole disk."""
SINGLE_FILES = (
    b"/usr/lib/systemd/system.conf", b"/lib/systemd/system.conf", b"/usr/lib/os-release",
    b"/var/lib/containers/storage/overlay-containers/containers.json", b"/sbin/init",
)  # fmt: skip
_DOCKER = b"/var/lib/docker/containers/"
_OF_A_CONTAINER = re.compile(rb"/var/lib/docker/containers/[^/]+/(config\.v2|hostconfig)\.json")
"""Its logs beside them are large, and nobody asks for them."""
_UNIT = re.compile(rb"\.(service|socket|target|path|timer|slice|mount|automount|swap)$")


@dataclass(slots=True)
class MemoryTree:
    """A tree of entries by absolute path; only wanted ones are kept."""

    wanted_paths: frozenset[bytes] = frozenset()
    """Single files and folders whose presence or text matters."""
    large_paths: frozenset[bytes] = frozenset()
    """Those of them whose text does not: a program may be as large as it likes."""
    refusals: list[Refusal] = field(default_factory=list)
    _entries: dict[bytes, Entry] = field(default_factory=lambda: {b"/": Entry(Kind.FOLDER)})
    _contents: dict[bytes, bytes] = field(default_factory=dict)
    _inside: dict[bytes, set[bytes]] = field(default_factory=dict)
    _bytes: int = 0
    _reserved_entries: int = 0
    _reserved_bytes: int = 0

    def wants(self, path: bytes, kind: Kind) -> bool:
        if path.startswith(_FOLDERS) or path in self.wanted_paths:
            return True
        if kind is Kind.LINK:
            return path.count(b"/") <= 3 or _UNIT.search(path) is not None
        if kind is Kind.FOLDER:
            if path.startswith(_DOCKER):
                return path.count(b"/") == _DOCKER.count(b"/")
            return any(folder.startswith(path + b"/") for folder in (*_FOLDERS, _DOCKER, *self.wanted_paths))
        return _UNIT.search(path) is not None or _OF_A_CONTAINER.fullmatch(path) is not None

    def put(self, path: bytes, entry: Entry, content: bytes = b"") -> None:
        if len(self._entries) >= KEPT_ENTRIES or self._bytes + len(content) > KEPT_BYTES:
            self.refuse(path, "more than an audit keeps in memory: not read")
            return
        old = self._entries.get(path)
        if old is not None and not (old.kind is Kind.FOLDER and entry.kind is Kind.FOLDER):
            self.remove(path)
        self._entries[path] = entry
        if entry.kind is Kind.FILE:
            self._contents[path] = content
            self._bytes += len(content)
        while path != b"/":
            head, _, name = path.rpartition(b"/")
            head = head or b"/"
            self._inside.setdefault(head, set()).add(name)
            if head in self._entries:
                break
            self._entries[head] = Entry(Kind.FOLDER)
            path = head

    def remove(self, path: bytes, *, keep_itself: bool = False) -> None:
        """A path and everything below it."""
        pending = [path]
        while pending:
            here = pending.pop()
            pending += [(b"" if here == b"/" else here) + b"/" + name for name in self._inside.pop(here, ())]
            if here != b"/" and not (keep_itself and here == path):
                self._entries.pop(here, None)
                self._bytes -= len(self._contents.pop(here, b""))
        if path != b"/" and not keep_itself:
            head, _, name = path.rpartition(b"/")
            self._inside.get(head or b"/", set()).discard(name)

    def reserve(self, path: bytes, size: int) -> bool:
        """May one more thing of this size be collected? All layers of an image together are bounded, names and the folders on the
        way to them included."""
        size += len(path) * path.count(b"/")
        if self._reserved_entries >= KEPT_ENTRIES or self._reserved_bytes + size > KEPT_BYTES:
            return False
        self._reserved_entries += 1
        self._reserved_bytes += size
        return True

    def refuse(self, path: bytes, reason: str) -> None:
        if len(self.refusals) < REFUSALS_KEPT:
            self.refusals.append(Refusal(path, reason))

    def unit_links(self) -> list[tuple[bytes, bytes]]:
        """Links that are named as units, and where they lead."""
        links = [(path, entry.target) for path, entry in self._entries.items() if entry.kind is Kind.LINK]
        return sorted((path, target) for path, target in links if _UNIT.search(path))

    def entry(self, path: bytes) -> Entry:
        found = self._entries.get(path)
        if found is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def names(self, path: bytes) -> list[bytes]:
        if self.entry(path).kind is not Kind.FOLDER:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return list(self._inside.get(path, ()))

    def content(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        if self.entry(path).kind is not Kind.FILE:
            raise OSError(errno.EINVAL, "not a regular file", path)
        if path not in self._contents or len(self._contents[path]) > limit:
            raise OSError(errno.EFBIG, "more than is read", path)
        return self._contents[path]


def clean(name: bytes) -> bytes | None:
    """The absolute path a member stands for; None when it tries to leave the tree, or is longer than any path."""
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if b".." in parts or b"\0" in name or len(name) > _LONGEST_NAME:
        return None
    return b"/" + b"/".join(parts)
