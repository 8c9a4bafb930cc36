# SPDX-License-Identifier: Apache-2.0
"""The pages of one dead memory cgroup: sizes of its lists, the folios on them, and the names of the files these belong to: inode,
file system and the way up to its root. What cannot be followed is marked as cut."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from zombiescope.kernel.kcore import KernelMemory, Layout, UnreadableError
from zombiescope.kernel.raw import PinFlag, RawPin

_MOST_FOLDERS = 512


class FileNames:
    """A pin of a file, without pages and without a cgroup yet. Remembers inodes by address for one walk: many zombies are pinned by
    the same library."""

    def __init__(self, memory: KernelMemory, layout: Layout) -> None:
        self._memory, self._at = memory, layout.at
        self.of = cache(self._read)

    def _read(self, inode: int) -> RawPin:
        memory, at = self._memory, self._at
        sb = memory.pointer(inode + at["inode.sb"])
        fstype = memory.text(memory.pointer(memory.pointer(sb + at["sb.type"]) + at["type.name"]), 16)
        alias = memory.pointer(inode + at["inode.dentry"])
        names, flags = (
            (b"", 0) if not alias else self._climb(alias - at["dentry.alias"], memory.pointer(sb + at["sb.root"]))
        )
        return RawPin(
            inode=memory.pointer(inode + at["inode.number"]),
            device=memory.number(sb + at["sb.device"]),
            rdevice=memory.number(inode + at["inode.rdevice"]),
            nlink=memory.number(inode + at["inode.links"]),
            flags=flags,
            names=names,
            fstype=fstype,
        )

    def _climb(self, dentry: int, top: int) -> tuple[bytes, int]:
        memory, at = self._memory, self._at
        names: list[bytes] = []
        try:
            flags = 0 if memory.pointer(dentry + at["dentry.hash"]) else int(PinFlag.UNHASHED)
            for _ in range(_MOST_FOLDERS):
                if dentry == top:
                    return b"".join(names), flags | PinFlag.ROOTED
                names.append(memory.text(memory.pointer(dentry + at["dentry.name"])) + b"\0")
                if (above := memory.pointer(dentry + at["dentry.parent"])) == dentry:
                    return b"".join(names), flags | PinFlag.PSEUDO
                dentry = above
        except UnreadableError:
            flags = 0
        return b"".join(names), flags | PinFlag.CUT


_LISTS = 5  # inactive and active anon, inactive and active file, unevictable
_GENERATIONS, _MOST_PINS = 4, 16
_ANON_MAPPING, _MAPPING_BITS = 1, 3


@dataclass(slots=True)
class Holdings:
    lru_anon: int = 0
    lru_file: int = 0
    unevictable: int = 0
    shmem: int = 0
    anon: int = 0
    file: int = 0
    bare: int = 0
    folios: int = 0
    walked: int = 1
    pins: dict[int, RawPin] = field(default_factory=dict)


class Folios:
    def __init__(self, memory: KernelMemory, layout: Layout, files: FileNames, nodes: int) -> None:
        self._memory, self._layout, self._files, self._nodes = memory, layout, files, nodes
        self.looked_at = 0

    def of(self, memcg: int, css: int, limit: int) -> Holdings:
        """At most `limit` folios are followed; beyond, or where a list breaks off, the look is partial."""
        found, at, memory = Holdings(), self._layout.at, self._memory
        for node in range(self._nodes):
            if not (per_node := memory.pointer(memcg + at["memcg.nodes"] + 8 * node)):
                continue
            before = found.lru_anon + found.lru_file
            self._sizes(per_node, found)
            if found.lru_anon + found.lru_file == before:
                continue
            try:
                for page, raw in self._pages(per_node + at["node.lruvec"], memcg, limit):
                    self._count(found, css, page, raw)
                    if found.folios >= limit:
                        found.walked = 0
                        break
            except UnreadableError:
                found.walked = 0
        self.looked_at += found.folios
        return found

    def _sizes(self, per_node: int, found: Holdings) -> None:
        at, size = self._layout.at, self._layout.size
        for zone in _rows(self._memory.read(per_node + at["node.sizes"], size["node.sizes"]), _LISTS):
            found.lru_anon += zone[0] + zone[1]
            found.lru_file += zone[2] + zone[3]
            found.unevictable += zone[4]
        if not self._layout.has("lruvec.generations", "generations.sizes"):
            return
        place = per_node + at["node.lruvec"] + at["lruvec.generations"] + at["generations.sizes"]
        zones = size["generations.sizes"] // 8 // _GENERATIONS // 2
        for number, row in enumerate(_rows(self._memory.read(place, size["generations.sizes"]), zones)):
            pages = sum(count for count in row if count > 0)
            if number & 1:
                found.lru_file += pages
            else:
                found.lru_anon += pages

    def _pages(self, lruvec: int, memcg: int, limit: int) -> Iterator[tuple[int, bytes]]:
        """Every page on a list and its 64 bytes, while it is this memcg's. The fifth classic list is poisoned."""
        at, memory = self._layout.at, self._memory
        for head in self._heads(lruvec):
            link, steps = memory.pointer(head), 0
            while link not in (head, 0) and steps <= limit:
                page = link - at["page.lru"]
                raw = memory.read(page, 64)
                if not self._belongs(raw, memcg):
                    raise UnreadableError
                yield page, raw
                link, steps = _word(raw, at["page.lru"]), steps + 1

    def _heads(self, lruvec: int) -> Iterator[int]:
        at, size = self._layout.at, self._layout.size
        yield from (lruvec + at["lruvec.lists"] + 16 * number for number in range(_LISTS - 1))
        if self._layout.has("lruvec.generations", "generations.lists"):
            first = lruvec + at["lruvec.generations"] + at["generations.lists"]
            yield from range(first, first + size["generations.lists"], 16)

    def _belongs(self, raw: bytes, memcg: int) -> bool:
        data = _word(raw, self._layout.at["page.memcg"]) & ~7
        if data == memcg or not data or not self._layout.has("objcg.memcg"):
            return data == memcg
        return self._memory.pointer(data + self._layout.at["objcg.memcg"]) == memcg

    def _count(self, found: Holdings, css: int, page: int, raw: bytes) -> None:
        at, bit = self._layout.at, self._layout.bit
        flags, mapping = _word(raw, at["page.flags"]), _word(raw, at["page.mapping"])
        count = self._page_count(page, flags)
        if mapping & _ANON_MAPPING:
            nature, mapping = int(PinFlag.ANON), 1
            found.anon += count
        elif not mapping or mapping & _MAPPING_BITS:
            nature = int(PinFlag.BARE)
            found.bare += count
        elif flags & bit["PG_swapbacked"]:
            nature = int(PinFlag.INODE | PinFlag.SWAPBACKED)
            found.shmem += count
        else:
            nature = int(PinFlag.INODE)
            found.file += count
        found.folios += 1
        pin = found.pins.get(mapping)
        if pin is None:
            if len(found.pins) >= _MOST_PINS:
                return
            pin = self._pin(css, mapping, nature)
        dirty = count if flags & (bit["PG_dirty"] | bit["PG_writeback"]) else 0
        mapped = count if self._is_mapped(page, flags, raw) else 0
        found.pins[mapping] = pin._replace(
            pages=pin.pages + count, folios=pin.folios + 1, dirty=pin.dirty + dirty, mapped=pin.mapped + mapped
        )

    def _pin(self, css: int, mapping: int, nature: int) -> RawPin:
        if not nature & PinFlag.INODE:
            return RawPin(css, mapping, flags=nature)
        file = self._files.of(self._memory.pointer(mapping + self._layout.at["mapping.host"]))
        return file._replace(css=css, mapping=mapping, flags=nature | file.flags)

    def _page_count(self, page: int, flags: int) -> int:
        layout, memory = self._layout, self._memory
        if not flags & layout.bit["PG_head"]:
            return 1
        if layout.has("folio.count"):
            return memory.number(page + layout.at["folio.count"]) or 1
        if layout.has("page.tail_count"):
            return memory.number(page + layout.size["page"] + layout.at["page.tail_count"]) or 1
        if layout.has("folio.order"):
            return 1 << (memory.number(page + layout.at["folio.order"]) & 31)
        return 1

    def _is_mapped(self, page: int, flags: int, raw: bytes) -> bool:
        layout = self._layout
        if flags & layout.bit["PG_head"] and layout.has("folio.mapcount"):
            return self._memory.number(page + layout.at["folio.mapcount"]) < 1 << 31
        return bool(struct.unpack_from("<i", raw, layout.at["page.mapcount"])[0] >= 0)


def _word(raw: bytes, place: int) -> int:
    return int.from_bytes(raw[place : place + 8], "little")


def _rows(raw: bytes, width: int) -> Iterator[tuple[int, ...]]:
    whole = len(raw) // (8 * width) * 8 * width if width else 0
    return struct.iter_unpack(f"<{width}q", raw[:whole]) if whole else iter(())
