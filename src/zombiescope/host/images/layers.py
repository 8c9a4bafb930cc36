# SPDX-License-Identifier: Apache-2.0
"""One layer of an image laid over what is below it: files, links, hard links, whiteouts.

A whiteout speaks of lower layers only, wherever it stands in its own: so a layer is collected first, then laid.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from zombiescope.host.files import READ_LIMIT_BYTES, Entry, Kind
from zombiescope.host.images.memory import MemoryTree, clean
from zombiescope.host.images.tar import Member, Source, Type, members

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
