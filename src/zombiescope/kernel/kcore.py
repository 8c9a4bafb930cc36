# SPDX-License-Identifier: Apache-2.0
"""The running kernel's memory through /proc/kcore, its symbols, and which fields are read there, under the names that kernels
from 5.10 on gave them (presence decides, never a version): read only, and every address checked before it is followed. And the
names of files: inode, file system and the way up to its root.

There is no lock: what is read may change or be freed under our feet. Each reader bounds its loops and doubts what it gets.
"""

import errno
import os
import re
import struct
from functools import cache

from zombiescope.errors import ObservationError
from zombiescope.host.access import Host
from zombiescope.kernel.btf import Btf, BtfError
from zombiescope.kernel.raw import PinFlag, RawPin

_BLOCK = 4096
"""What is read and kept at once: never more than a page, whose neighbours may not be mapped."""
_MOST_PAGES, _MOST_SEGMENTS, _SYMBOLS_LIMIT = 8192, 65536, 64 << 20
_LOAD = 1
WHAT = "cannot read the kernel's memory"
_SYMBOL = re.compile(rb"([0-9a-f]{1,16}) [A-Za-z]")


class UnreadableError(Exception):
    """An address that is not the kernel's memory: the structure it came from has changed or gone."""


class KcoreError(ObservationError):
    """/proc/kcore or /proc/kallsyms is not available."""


class KernelMemory:
    """Keeps whole pages for a while, so that neighbours are read together; `fresh` and `forget` look again."""

    def __init__(self, path: str = "/proc/kcore") -> None:
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _refused(path, error) from None
        try:
            self._segments = _segments(self._descriptor)
        except (OSError, struct.error) as error:
            os.close(self._descriptor)
            raise KcoreError(WHAT, f"{path} has no table of memory ({error})") from None
        self._pages: dict[int, bytes] = {}

    def close(self) -> None:
        os.close(self._descriptor)

    def forget(self) -> None:
        self._pages.clear()

    def read(self, address: int, size: int) -> bytes:
        number, start = divmod(address, _BLOCK)
        page = self._pages.get(number) or self._page(number)
        if start + size <= _BLOCK:
            return page[start : start + size]
        return page[start:] + self.read((number + 1) * _BLOCK, start + size - _BLOCK)

    def fresh(self, address: int) -> int:
        """A pointer or number as it is now, whatever was kept."""
        self._pages.pop(address // _BLOCK, None)
        return self.pointer(address)

    def pointer(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")

    def signed(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little", signed=True)

    def number(self, address: int) -> int:
        return int.from_bytes(self.read(address, 4), "little")

    def text(self, address: int, limit: int = 256) -> bytes:
        """Up to NUL; at most `limit` bytes."""
        room = _BLOCK - address % _BLOCK
        found = self.read(address, min(limit, room))
        if b"\0" not in found and limit > room:
            found += self.read(address + room, limit - room)
        return found.partition(b"\0")[0]

    def _page(self, number: int) -> bytes:
        address = number * _BLOCK
        place = next((offset + address - low for low, high, offset in self._segments if low <= address < high), None)
        if place is None:
            raise UnreadableError
        try:
            page = os.pread(self._descriptor, _BLOCK, place)
        except (OSError, OverflowError):
            raise UnreadableError from None
        if len(page) != _BLOCK:
            raise UnreadableError
        if len(self._pages) >= _MOST_PAGES:
            self._pages.clear()
        self._pages[number] = page
        return page


def read_symbols(host: Host, names: tuple[str, ...]) -> dict[str, int]:
    """Addresses by name; those that the kernel does not list are left out."""
    try:
        table = b"\n" + host.read(b"/proc/kallsyms", _SYMBOLS_LIMIT)
    except OSError as error:
        raise _refused("/proc/kallsyms", error) from None
    found = {}
    for name in names:
        place = table.find(b" " + name.encode() + b"\n")
        match = _SYMBOL.fullmatch(table[table.rfind(b"\n", 0, place) + 1 : place]) if place >= 0 else None
        if match and int(match[1], 16):
            found[name] = int(match[1], 16)
    if not found and table.count(b"\n0000000000000000 ", 0, 4096) > 3:
        raise KcoreError(WHAT, "/proc/kallsyms hides the addresses", "run as root; see kernel.kptr_restrict")
    return found


def _segments(descriptor: int) -> list[tuple[int, int, int]]:
    header = os.pread(descriptor, 64, 0)
    if header[:5] != b"\x7fELF\x02":
        raise struct.error("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    rows = os.pread(descriptor, size * min(count, _MOST_SEGMENTS), table)
    headers = (struct.unpack_from("<IIQQQ8xQ", rows, place) for place in range(0, len(rows) - 55, max(size, 56)))
    segments = (
        (address, address + length, offset)
        for kind, _, offset, address, _, length in headers
        if kind == _LOAD and length
    )
    # The direct map is the largest, and most of what we follow lies in it.
    return sorted(segments, key=lambda segment: segment[0] - segment[1])


def _refused(path: str, error: OSError) -> KcoreError:
    words = {
        errno.ENOENT: ("this kernel is built without it", ""),
        errno.EPERM: ("not permitted: CAP_SYS_RAWIO is missing, or lockdown forbids it", "run as root"),
        errno.EACCES: ("not permitted", "run as root"),
    }
    why, hint = words.get(error.errno or 0, ((error.strerror or "cannot be opened").lower(), ""))
    return KcoreError(WHAT, f"{path}: {why}", hint)


# our name: the kernel's, the first that exists
_REQUIRED = {
    "css": ("mem_cgroup.css",),
    "css.cgroup": ("cgroup_subsys_state.cgroup",),
    "css.parent": ("cgroup_subsys_state.parent",),
    "css.sibling": ("cgroup_subsys_state.sibling",),
    "css.children": ("cgroup_subsys_state.children",),
    "css.flags": ("cgroup_subsys_state.flags",),
    "css.serial": ("cgroup_subsys_state.serial_nr",),
    "css.mode": ("cgroup_subsys_state.refcnt.percpu_count_ptr",),
    "cgroup.kn": ("cgroup.kn",),
    "cgroup.level": ("cgroup.level",),
    "cgroup.root": ("cgroup.root",),
    "root.hierarchy": ("cgroup_root.hierarchy_id",),
    "kn.name": ("kernfs_node.name",),
    "kn.id": ("kernfs_node.id",),
    "memcg.peak": ("mem_cgroup.memory.watermark",),
    "memcg.nodes": ("mem_cgroup.nodeinfo",),
    "node.lruvec": ("mem_cgroup_per_node.lruvec",),
    "node.sizes": ("mem_cgroup_per_node.lru_zone_size",),
    "lruvec.lists": ("lruvec.lists",),
    "page.flags": ("page.flags",),
    "page.lru": ("page.lru",),
    "page.mapping": ("page.mapping",),
    "page.mapcount": ("page._mapcount",),
    "page.memcg": ("page.memcg_data", "folio.memcg_data", "page.mem_cgroup"),
    "mapping.host": ("address_space.host",),
    "inode.number": ("inode.i_ino",),
    "inode.links": ("inode.i_nlink",),
    "inode.rdevice": ("inode.i_rdev",),
    "inode.sb": ("inode.i_sb",),
    "inode.dentry": ("inode.i_dentry",),
    "inode.io": ("inode.i_io_list",),
    "sb.device": ("super_block.s_dev",),
    "sb.root": ("super_block.s_root",),
    "sb.type": ("super_block.s_type",),
    "sb.list": ("super_block.s_list",),
    "sb.bdi": ("super_block.s_bdi",),
    "type.name": ("file_system_type.name",),
    "dentry.parent": ("dentry.d_parent",),
    "dentry.name": ("dentry.d_name.name",),
    "dentry.hash": ("dentry.d_hash.pprev",),
    "dentry.alias": ("dentry.d_u.d_alias", "dentry.d_alias"),
}
_OPTIONAL = {
    "css.count": ("percpu_ref_data.count",),
    "css.data": ("cgroup_subsys_state.refcnt.data",),
    "css.count_inside": ("cgroup_subsys_state.refcnt.count",),
    "memcg.swap": ("mem_cgroup.id.ref",),
    "memcg.events": ("mem_cgroup.memory_events_local", "mem_cgroup.memory_events"),
    "memcg.tcp": ("mem_cgroup.tcpmem.usage",),
    "memcg.born": ("mem_cgroup.cgwb_domain.dirty_limit_tstamp",),
    "objcg.memcg": ("obj_cgroup.memcg",),
    "lruvec.generations": ("lruvec.lrugen",),
    "generations.lists": ("lru_gen_folio.folios", "lru_gen_struct.lists"),
    "generations.sizes": ("lru_gen_folio.nr_pages", "lru_gen_struct.nr_pages"),
    "folio.count": ("folio._nr_pages", "folio._folio_nr_pages"),
    "folio.order": ("folio._flags_1",),
    "page.tail_count": ("page.compound_nr",),
    "folio.mapcount": ("folio._large_mapcount",),
    "wb.css": ("bdi_writeback.memcg_css",),
    "wb.node": ("bdi_writeback.bdi_node",),
    "wb.b_dirty": ("bdi_writeback.b_dirty",),
    "wb.b_io": ("bdi_writeback.b_io",),
    "wb.b_more_io": ("bdi_writeback.b_more_io",),
    "wb.b_dirty_time": ("bdi_writeback.b_dirty_time",),
    "wb.b_attached": ("bdi_writeback.b_attached",),
    "bdi.wbs": ("backing_dev_info.wb_list",),
}
_SIZES = {
    "node.sizes": ("mem_cgroup_per_node.lru_zone_size",),
    "generations.lists": ("lru_gen_folio.folios", "lru_gen_struct.lists"),
    "generations.sizes": ("lru_gen_folio.nr_pages", "lru_gen_struct.nr_pages"),
    "page": ("page",),
    "css": ("cgroup_subsys_state",),
}
_FLAGS = ("PG_dirty", "PG_writeback", "PG_head", "PG_swapbacked")


class Layout:
    """Offsets by our names; `has` for those that not every kernel knows."""

    def __init__(self, content: bytes) -> None:
        names = {
            path.partition(".")[0]
            for table in (_REQUIRED, _OPTIONAL, _SIZES)
            for paths in table.values()
            for path in paths
        }
        btf = Btf(content, names | {"pageflags", "memcg_memory_event"})
        self.at: dict[str, int] = {}
        for table in (_REQUIRED, _OPTIONAL):
            for name, paths in table.items():
                found = next((offset for offset in map(btf.offset, paths) if offset is not None), None)
                if found is not None:
                    self.at[name] = found
                elif table is _REQUIRED:
                    raise BtfError(f"this kernel has no field {paths[0]}")
        self.size = {name: next((size for size in map(btf.size, paths) if size), 0) for name, paths in _SIZES.items()}
        self.bit = {name: _flag(btf, name) for name in _FLAGS}
        self.oom_kill = btf.enumerator("memcg_memory_event", "MEMCG_OOM_KILL")

    def has(self, *names: str) -> bool:
        return all(name in self.at for name in names)


def _flag(btf: Btf, name: str) -> int:
    if (bit := btf.enumerator("pageflags", name)) is None:
        raise BtfError(f"this kernel has no page flag {name}")
    return 1 << bit


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
