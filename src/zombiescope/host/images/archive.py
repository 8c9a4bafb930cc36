# SPDX-License-Identifier: Apache-2.0
"""An image archive read once from front to back: a root file system, `docker save`, or an OCI layout in a tar.

Which of them it is shows at the end only, so layers found inside are collected by name and laid in the manifest's order.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from zombiescope.facts.names import shown
from zombiescope.host.files import READ_LIMIT_BYTES, Entry, Kind
from zombiescope.host.images.memory import MemoryTree, clean
from zombiescope.host.images.streams import UNPACKING_ERRORS, Allowance, is_packed, opened
from zombiescope.host.images.tar import BLOCK, Member, Source, TarError, Type, members

_WHITEOUT = b".wh."
_TOO_MUCH = "more than an audit keeps in memory: not read"
_OPAQUE = b".wh..wh..opq"
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
    path = clean(member.name)
    if path is None:
        tree.refuse(member.name, "its name leads out of the image: skipped")
        return
    head, _, name = path.rpartition(b"/")
    if name.startswith(_WHITEOUT):
        if not tree.reserve(path, 0):
            tree.refuse(path, _TOO_MUCH)
        elif name == _OPAQUE:
            layer.emptied.append(head or b"/")
        else:
            layer.hidden.append(head + b"/" + name[len(_WHITEOUT) :])
    elif member.type is Type.HARD_LINK:
        _collect_hard_link(member, path, layer, tree)
    else:
        _collect_entry(member, path, layer, tree)


def _collect_hard_link(member: Member, path: bytes, layer: Layer, tree: MemoryTree) -> None:
    target = clean(member.target)
    if target is None:
        tree.refuse(path, "a hard link that leads out of the image: skipped")
    elif tree.wants(path, Kind.FILE) and tree.reserve(path, len(target)):
        layer.hard_links.append((path, target))


def _collect_entry(member: Member, path: bytes, layer: Layer, tree: MemoryTree) -> None:
    kind = _KINDS[member.type]
    if not tree.wants(path, kind):
        return
    if kind is Kind.FILE and member.size > READ_LIMIT_BYTES and path not in tree.large_paths:
        tree.refuse(path, f"{member.size:,} bytes, more than {READ_LIMIT_BYTES:,}: not read")
    is_read = kind is Kind.FILE and member.size <= READ_LIMIT_BYTES
    if not tree.reserve(path, len(member.target) + (member.size if is_read else 0)):
        tree.refuse(path, _TOO_MUCH)
        return
    content = member.content() if is_read else b""
    layer.added[path] = (Entry(kind, member.size, member.target, bool(member.mode & 0o111)), content)


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


_DOCUMENT_LIMIT = 4 << 20
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
        path = clean(member.name)
        if path is None:
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
        if tree.reserve(path, min(member.size, _DOCUMENT_LIMIT)):
            found.documents[path] = first + _document(member)
    elif is_packed(first) or first[257:262] == b"ustar" or not first.strip(b"\0"):
        try:
            found.layers[path] = read_layer(opened(member, first, allowance), tree)
        except (TarError, EOFError, NotImplementedError, *UNPACKING_ERRORS) as error:
            found.damaged[path] = str(error) or "it ends too early"


def _document(member: Member) -> bytes:
    if member.size > _DOCUMENT_LIMIT:
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
        if layer is None and path in found.damaged:
            raise TarError(f"a layer is damaged: {found.damaged[path]}")
        if layer is None:
            raise TarError(f"its manifest names a layer that is not there: {shown(path)}")
        lay(layer, tree)
    return kind


def blob_path(digest: str) -> bytes:
    algorithm, _, value = digest.partition(":")
    if not re.fullmatch(r"[a-z0-9+._-]+", algorithm) or not re.fullmatch(r"[0-9a-f]{32,128}", value):
        raise TarError(f"{digest!r} is not a digest")
    return f"/blobs/{algorithm}/{value}".encode()


def _docker_layers(manifest: bytes) -> list[bytes]:
    images = _json(manifest)
    first = images[0] if isinstance(images, list) and images else None
    layers = first.get("Layers") if isinstance(first, dict) else None
    if not isinstance(layers, list):
        raise TarError("its manifest.json names no layers")
    return [clean(str(layer).encode()) or b"" for layer in layers]


def oci_layers(index: bytes, blob: Callable[[str], bytes | None]) -> list[bytes]:
    """The layers of the first Linux image that an index names, lowest first; an index may name another."""
    document = _json(index)
    for _ in range(4):
        if not isinstance(document, dict):
            break
        layers = document.get("layers")
        if isinstance(layers, list):
            return [blob_path(_digest(layer)) for layer in layers]
        manifests = document.get("manifests")
        if not isinstance(manifests, list) or not manifests:
            break
        data = blob(_digest(_for_linux(manifests)))
        if data is None:
            raise TarError("its index names a manifest that is not there")
        document = _json(data)
    raise TarError("its index leads to no image")


def _for_linux(manifests: list[object]) -> object:
    def is_linux(manifest: object) -> bool:
        platform = manifest.get("platform") if isinstance(manifest, dict) else None
        return isinstance(platform, dict) and platform.get("os") == "linux"

    return next((manifest for manifest in manifests if is_linux(manifest)), manifests[0])


def _digest(descriptor: object) -> str:
    digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
    if not isinstance(digest, str):
        raise TarError("a descriptor without a digest")
    return digest


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TarError("a description that is not JSON") from error
