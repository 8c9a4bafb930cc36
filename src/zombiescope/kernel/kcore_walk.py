# SPDX-License-Identifier: Apache-2.0
"""The same walk as with BPF, through /proc/kcore: for kernels before 5.17, and where bpf(2) is refused.

Nothing holds the tree still, so every cgroup is read twice over where it matters: it counts only if its serial number is the
same after the last read as before the first. A place that changed under us ends that branch and is said.
"""

import struct
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import lru_cache

from zombiescope.host.access import Host
from zombiescope.kernel.btf import BtfError
from zombiescope.kernel.kcore import WHAT, FileNames, KcoreError, KernelMemory, Layout, UnreadableError, read_symbols
from zombiescope.kernel.raw import CSS_DYING, CSS_ONLINE, CSS_RELEASED, Clock, PinFlag, RawMemcg, RawPin, RawWalk

_LISTS = ("wb.b_dirty", "wb.b_io", "wb.b_more_io", "wb.b_dirty_time", "wb.b_attached")
_MOST_SUPER_BLOCKS, _MOST_WRITEBACKS, _MOST_INODES = 1 << 16, 1 << 20, 8


def read_writeback(
    memory: KernelMemory, layout: Layout, files: FileNames, super_blocks: int | None, dead: Collection[int]
) -> list[RawPin]:
    if super_blocks is None or not layout.has("wb.css", "wb.node", "bdi.wbs"):
        return []
    found: dict[tuple[int, int, int], RawPin] = {}
    for bdi in set(_devices(memory, layout, super_blocks)) - {0}:
        for link in _links(memory, bdi + layout.at["bdi.wbs"], _MOST_WRITEBACKS):
            with suppress(UnreadableError):
                _take_structure(memory, layout, files, link - layout.at["wb.node"], dead, found)
    return list(found.values())


def _devices(memory: KernelMemory, layout: Layout, super_blocks: int) -> Iterator[int]:
    for link in _links(memory, super_blocks, _MOST_SUPER_BLOCKS):
        with suppress(UnreadableError):
            yield memory.pointer(link - layout.at["sb.list"] + layout.at["sb.bdi"])


def _links(memory: KernelMemory, head: int, most: int) -> Iterator[int]:
    """The entries of a list, as far as it can be followed."""
    try:
        link = memory.pointer(head)
        for _ in range(most):
            if link in (head, 0):
                return
            yield link
            link = memory.pointer(link)
    except UnreadableError:
        return


def _take_structure(
    memory: KernelMemory,
    layout: Layout,
    files: FileNames,
    wb: int,
    dead: Collection[int],
    found: dict[tuple[int, int, int], RawPin],
) -> None:
    if (css := memory.pointer(wb + layout.at["wb.css"])) not in dead:
        return
    flags, before = int(PinFlag.INODE | PinFlag.WRITEBACK), len(found)
    for start in (layout.at[name] for name in _LISTS if name in layout.at):
        for link in _links(memory, wb + start, _MOST_INODES):
            inode = link - layout.at["inode.io"]
            file = files.of(inode)
            found[css, file.device, file.inode] = file._replace(css=css, mapping=inode, flags=flags | file.flags)
    if len(found) == before:
        found[css, 0, 0] = RawPin(css, wb, flags=int(PinFlag.WRITEBACK))


_LRU_LISTS = 5  # inactive and active anon, inactive and active file, unevictable
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
    """The pages of one dead memory cgroup: sizes of its lists, and the folios on them. What cannot be followed is marked as cut."""

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
        for zone in _rows(self._memory.read(per_node + at["node.sizes"], size["node.sizes"]), _LRU_LISTS):
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
        yield from (lruvec + at["lruvec.lists"] + 16 * number for number in range(_LRU_LISTS - 1))
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


_MOST_MEMCGS, _BTF_LIMIT = 1 << 20, 64 << 20
# (folios looked at so far, folios of one zombie): whole zombies while it is cheap, samples when there are many.
_DEPTHS = ((50_000, 1024), (150_000, 64), (1 << 62, 8))
_ATOMIC = 1


# Reading the types is half of a walk's time; a second look finds them read.
_layout = lru_cache(maxsize=1)(Layout)


@dataclass(slots=True)
class _Tree:
    memory: KernelMemory
    layout: Layout
    folios: Folios
    memcgs: list[RawMemcg] = field(default_factory=list)
    broken: int = 0


def walk_kcore(host: Host, nodes: int, wall_clock: Callable[[], float]) -> RawWalk:
    try:
        layout = _layout(host.read(b"/sys/kernel/btf/vmlinux", _BTF_LIMIT))
    except OSError:
        raise BtfError("/sys/kernel/btf/vmlinux cannot be read") from None
    symbols = read_symbols(host, ("root_mem_cgroup", "jiffies_64", "super_blocks"))
    if "root_mem_cgroup" not in symbols:
        raise KcoreError(
            WHAT, "/proc/kallsyms does not list root_mem_cgroup: this kernel is built without CONFIG_KALLSYMS_ALL"
        )
    try:
        with closing(KernelMemory()) as memory:
            return _walk(memory, layout, symbols, nodes, wall_clock)
    except UnreadableError:
        raise KcoreError(WHAT, "the root of the memory cgroups is not where it should be") from None


def _walk(
    memory: KernelMemory, layout: Layout, symbols: dict[str, int], nodes: int, wall_clock: Callable[[], float]
) -> RawWalk:
    files = FileNames(memory, layout)
    tree = _Tree(memory, layout, Folios(memory, layout, files, nodes))
    root = memory.pointer(symbols["root_mem_cgroup"]) + layout.at["css"]
    cgroup = memory.pointer(root + layout.at["css.cgroup"])
    is_v2 = memory.number(memory.pointer(cgroup + layout.at["cgroup.root"]) + layout.at["root.hierarchy"]) == 0
    for css in _tree_order(tree, root):
        _take(tree, css)
    memory.forget()
    dead = {memcg.css for memcg in tree.memcgs if memcg.flags & CSS_DYING}
    writeback = read_writeback(memory, layout, files, symbols.get("super_blocks"), dead) if is_v2 and dead else []
    jiffies = memory.pointer(symbols["jiffies_64"]) if "jiffies_64" in symbols else 0
    clock = Clock(jiffies, time.monotonic(), wall_clock())
    notes = [f"{tree.broken} cgroups changed while they were read and are left out"] if tree.broken else []
    return RawWalk(tree.memcgs, writeback, clock, is_v2, [], notes)


def _tree_order(tree: _Tree, root: int) -> Iterator[int]:
    """Parents before children, siblings in order of birth. No css is followed twice, whatever the links say."""
    memory, at = tree.memory, tree.layout.at
    pending, seen = [root], {root}
    while pending and len(seen) < _MOST_MEMCGS:
        css = pending.pop()
        yield css
        children = []
        try:
            head = css + at["css.children"]
            link = memory.pointer(head)
            while link not in (head, 0):
                child = link - at["css.sibling"]
                if child in seen or memory.pointer(child + at["css.parent"]) != css:
                    tree.broken += 1
                    break
                seen.add(child)
                children.append(child)
                link = memory.pointer(link)
        except UnreadableError:
            tree.broken += 1
        pending.extend(reversed(children))


def _take(tree: _Tree, css: int) -> None:
    try:
        flags = tree.memory.number(css + tree.layout.at["css.flags"])
        if not flags & (CSS_ONLINE | CSS_DYING) or flags & CSS_RELEASED:
            return
        memcg = _read(tree, css, flags)
        if tree.memory.fresh(css + tree.layout.at["css.serial"]) == memcg.serial:
            tree.memcgs.append(memcg)
        else:
            tree.broken += 1
    except UnreadableError:
        tree.broken += 1


def _read(tree: _Tree, css: int, flags: int) -> RawMemcg:
    memory, at, memcg = tree.memory, tree.layout.at, css - tree.layout.at["css"]
    cgroup = memory.pointer(css + at["css.cgroup"])
    kn = memory.pointer(cgroup + at["cgroup.kn"])
    parent = memory.pointer(css + at["css.parent"])
    dead = bool(flags & CSS_DYING)
    limit = next(limit for most, limit in _DEPTHS if tree.folios.looked_at < most)
    kill = tree.layout.oom_kill if "memcg.events" in at else None
    held = tree.folios.of(memcg, css, limit) if dead else Holdings()
    return RawMemcg(
        css=css,
        parent=parent,
        id=memory.pointer(kn + at["kn.id"]),
        serial=memory.pointer(css + at["css.serial"]),
        peak=memory.pointer(memcg + at["memcg.peak"]) if dead else 0,
        oom_kills=memory.pointer(memcg + at["memcg.events"] + 8 * kill) if dead and kill is not None else 0,
        born=memory.pointer(memcg + at["memcg.born"]) if "memcg.born" in at else 0,
        psi_born=0,
        refs=_references(tree, css) if dead else -1,
        swap=memory.number(memcg + at["memcg.swap"]) if dead and "memcg.swap" in at else -1,
        tcp=memory.pointer(memcg + at["memcg.tcp"]) if dead and "memcg.tcp" in at else 0,
        lru_anon=held.lru_anon,
        lru_file=held.lru_file,
        unevictable=held.unevictable,
        shmem=held.shmem,
        anon=held.anon,
        file=held.file,
        bare=held.bare,
        folios=held.folios,
        walked=held.walked,
        flags=flags,
        level=memory.number(cgroup + at["cgroup.level"]),
        name=memory.text(memory.pointer(kn + at["kn.name"])) if parent else b"",
        pins=tuple(held.pins.values()),
    )


def _references(tree: _Tree, css: int) -> int:
    """-1 until the count has moved to one place, without the bias it carries on the way there."""
    memory, at = tree.memory, tree.layout.at
    if not memory.pointer(css + at["css.mode"]) & _ATOMIC:
        return -1
    if tree.layout.has("css.data", "css.count"):
        count = memory.signed(memory.pointer(css + at["css.data"]) + at["css.count"])
    elif tree.layout.has("css.count_inside"):
        count = memory.signed(css + at["css.count_inside"])
    else:
        return -1
    return count if count >= 0 else -1
