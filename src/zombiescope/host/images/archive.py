# SPDX-License-Identifier: Apache-2.0
"""An image archive read once from front to back: a root file system, `docker save`, or an OCI layout in a tar. Which of them it is
shows at the end only, so layers found inside are collected by name and laid over each other in the manifest's order.

What comes out, of any image, is a tree in memory of what an audit needs: unit files, cron, a few configuration files, and links.
Names that try to leave the tree are refused; nothing is ever written.
"""

import errno
import json
import os
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from zombiescope.facts.names import shown
from zombiescope.host.files import READ_LIMIT_BYTES, REFUSALS_KEPT, Entry, Kind, Refusal
from zombiescope.host.images.streams import UNPACKING_ERRORS, Allowance, is_packed, opened
from zombiescope.host.images.tar import BLOCK, Member, Source, TarError, Type, members

KEPT_BYTES, KEPT_ENTRIES = 64 << 20, 200_000
_LONGEST_NAME = 4096
TOO_MUCH = "more than an audit keeps in memory: not read"
_SYSTEMD = tuple(
    root + b"/systemd/" + name
    for root in (b"/usr/local/lib", b"/usr/lib", b"/lib")
    for name in (b"system/", b"system.conf")
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
    b"/etc", b"/usr/lib/systemd/system", b"/usr/lib/systemd/system.conf.d",
    b"/lib/systemd/system", b"/usr/local/lib/systemd", b"/run/systemd",
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
            self.refuse(path, TOO_MUCH)
            return
        old = self._entries.get(path)
        if old is not None and not (old.kind is Kind.FOLDER and entry.kind is Kind.FOLDER):
            self.remove(path)
        self._entries[path] = entry
        if entry.kind is Kind.FILE:
            self._contents[path] = content
            self._bytes += len(content)
        while path != b"/":
            head, name = _parted(path)
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
            head, name = _parted(path)
            self._inside.get(head, set()).discard(name)

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
        units = ((path, entry) for path, entry in self._entries.items() if _UNIT.search(path))
        return sorted((path, entry.target) for path, entry in units if entry.kind is Kind.LINK)

    def entry(self, path: bytes) -> Entry:
        if path not in self._entries:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._entries[path]

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


def _parted(path: bytes) -> tuple[bytes, bytes]:
    """The folder that holds it, and its name there."""
    head, _, name = path.rpartition(b"/")
    return head or b"/", name


def clean(name: bytes) -> bytes | None:
    """The absolute path a member stands for; None when it tries to leave the tree, or is longer than any path."""
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    is_wild = b".." in parts or b"\0" in name or len(name) > _LONGEST_NAME
    return None if is_wild else b"/" + b"/".join(parts)


_WHITEOUT, _OPAQUE = b".wh.", b".wh..wh..opq"
_KINDS = {Type.FILE: Kind.FILE, Type.FOLDER: Kind.FOLDER, Type.LINK: Kind.LINK, Type.OTHER: Kind.OTHER}


@dataclass(slots=True)
class Layer:
    added: dict[bytes, tuple[Entry, bytes]] = field(default_factory=dict)
    hidden: list[bytes] = field(default_factory=list)
    emptied: list[bytes] = field(default_factory=list)
    hard_links: list[tuple[bytes, bytes]] = field(default_factory=list)


def read_layer(source: Source, tree: MemoryTree) -> Layer:
    """What the tree wants of one layer. Raises TarError and EOFError."""
    layer = Layer()
    for member in members(source):
        collect(member, layer, tree)
    return layer


def collect(member: Member, layer: Layer, tree: MemoryTree) -> None:
    if (path := clean(member.name)) is None:
        tree.refuse(member.name, "its name leads out of the image: skipped")
        return
    head, _, name = path.rpartition(b"/")
    if name.startswith(_WHITEOUT):
        if not tree.reserve(path, 0):
            tree.refuse(path, TOO_MUCH)
        elif name == _OPAQUE:
            layer.emptied.append(head or b"/")
        else:
            layer.hidden.append(head + b"/" + name[len(_WHITEOUT) :])
    elif member.type is not Type.HARD_LINK:
        _collect_entry(member, path, layer, tree)
    elif (target := clean(member.target)) is None:
        tree.refuse(path, "a hard link that leads out of the image: skipped")
    elif tree.wants(path, Kind.FILE) and tree.reserve(path, len(target)):
        layer.hard_links.append((path, target))


def _collect_entry(member: Member, path: bytes, layer: Layer, tree: MemoryTree) -> None:
    kind = _KINDS[member.type]
    if not tree.wants(path, kind):
        return
    is_read = kind is Kind.FILE and member.size <= READ_LIMIT_BYTES
    if kind is Kind.FILE and not is_read and path not in tree.large_paths:
        tree.refuse(path, f"{member.size:,} bytes, more than {READ_LIMIT_BYTES:,}: not read")
    if not tree.reserve(path, len(member.target) + (member.size if is_read else 0)):
        tree.refuse(path, TOO_MUCH)
        return
    entry = Entry(kind, member.size, member.target, bool(member.mode & 0o111))
    layer.added[path] = (entry, member.content() if is_read else b"")


def lay(layer: Layer, tree: MemoryTree) -> None:
    for path in layer.emptied:
        tree.remove(path, keep_itself=True)
    for path in layer.hidden:
        tree.remove(path)
    for path, (entry, content) in layer.added.items():
        tree.put(path, entry, content)
    for path, target in layer.hard_links:
        try:
            tree.put(path, tree.entry(target), tree.content(target))
        except OSError:
            tree.refuse(path, "a hard link to something that was not read: skipped")


DOCUMENT_LIMIT = 4 << 20
_DOCUMENTS = (b"/manifest.json", b"/index.json", b"/oci-layout")
_LAYER = re.compile(rb"(?:/layer\.tar|/blobs/sha256/[0-9a-f]{64}|/[0-9a-f]{64}\.tar)$")


@dataclass(slots=True)
class _Found:
    root: Layer = field(default_factory=Layer)
    layers: dict[bytes, Layer] = field(default_factory=dict)
    links: dict[bytes, bytes] = field(default_factory=dict)
    documents: dict[bytes, bytes] = field(default_factory=dict)
    damaged: dict[bytes, str] = field(default_factory=dict)
    """Things that look like layers and are none: an error only if the manifest names them."""


def read_archive(source: Source, tree: MemoryTree, allowance: Allowance) -> str:
    """Fill the tree; says which kind of archive it was. Raises TarError and EOFError."""
    found = _Found()
    for member in members(source):
        if (path := clean(member.name)) is None:
            tree.refuse(member.name, "its name leads out of the image: skipped")
        elif path in _DOCUMENTS and member.type is Type.FILE:
            found.documents[path] = _document(member)
        elif _LAYER.search(path) and member.type is Type.FILE:
            _read_blob(member, path, found, (tree, allowance))
        elif _LAYER.search(path):
            found.links[path] = clean(posixpath.normpath(posixpath.dirname(path) + b"/" + member.target)) or b""
        else:
            collect(member, found.root, tree)
    return _assemble(found, tree)


def _read_blob(member: Member, path: bytes, found: _Found, bounds: tuple[MemoryTree, Allowance]) -> None:
    tree, allowance = bounds
    first = member.read(BLOCK)
    if first[:1] in (b"{", b"["):
        if tree.reserve(path, min(member.size, DOCUMENT_LIMIT)):
            found.documents[path] = first + _document(member)
    elif is_packed(first) or first[257:262] == b"ustar" or not first.strip(b"\0"):
        try:
            found.layers[path] = read_layer(opened(member, first, allowance), tree)
        except (TarError, EOFError, NotImplementedError, *UNPACKING_ERRORS) as error:
            found.damaged[path] = str(error) or "it ends too early"


def _document(member: Member) -> bytes:
    if member.size > DOCUMENT_LIMIT:
        raise TarError(f"a description of {member.size:,} bytes")
    return member.content()


def _assemble(found: _Found, tree: MemoryTree) -> str:
    if b"/index.json" in found.documents and b"/oci-layout" in found.documents:
        order = oci_layers(found.documents[b"/index.json"], lambda digest: found.documents.get(blob_path(digest)))
        kind = "OCI archive"
    elif b"/manifest.json" in found.documents and (found.layers or found.links):
        order = _docker_layers(found.documents[b"/manifest.json"])
        kind = "Docker archive"
    else:
        lay(found.root, tree)
        return "root file system"
    for path in order:
        layer = found.layers.get(found.links.get(path, path))
        if layer is None:
            why = found.damaged.get(path)
            raise TarError(
                f"a layer is damaged: {why}" if why else f"its manifest names a layer that is not there: {shown(path)}"
            )
        lay(layer, tree)
    return kind


def blob_path(digest: str) -> bytes:
    algorithm, _, value = digest.partition(":")
    if not re.fullmatch(r"[a-z0-9+._-]+", algorithm) or not re.fullmatch(r"[0-9a-f]{32,128}", value):
        raise TarError(f"{digest!r} is not a digest")
    return f"/blobs/{algorithm}/{value}".encode()


def _docker_layers(manifest: bytes) -> list[bytes]:
    match _json(manifest):
        case [{"Layers": [*layers]}, *_]:
            return [clean(str(layer).encode()) or b"" for layer in layers]
        case _:
            raise TarError("its manifest.json names no layers")


def oci_layers(index: bytes, blob: Callable[[str], bytes | None]) -> list[bytes]:
    """The layers of the first Linux image that an index names, lowest first; an index may name another."""
    data: bytes | None = index
    for _ in range(4):
        if data is None:
            raise TarError("its index names a manifest that is not there")
        match _json(data):
            case {"layers": [*layers]}:
                return [blob_path(_digest(layer)) for layer in layers]
            case {"manifests": [first, *_] as manifests}:
                data = blob(_digest(next(filter(_is_for_linux, manifests), first)))
            case _:
                break
    raise TarError("its index leads to no image")


def _is_for_linux(manifest: object) -> bool:
    match manifest:
        case {"platform": {"os": "linux"}}:
            return True
        case _:
            return False


def _digest(descriptor: object) -> str:
    match descriptor:
        case {"digest": str(digest)}:
            return digest
        case _:
            raise TarError("a descriptor without a digest")


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TarError("a description that is not JSON") from error
