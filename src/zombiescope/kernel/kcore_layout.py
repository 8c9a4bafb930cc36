# SPDX-License-Identifier: Apache-2.0
"""Which fields the kcore walk reads, under the names that kernels from 5.10 on gave them. Presence decides, never a version."""

from __future__ import annotations

from zombiescope.kernel.btf import Btf, BtfError

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
    bit = btf.enumerator("pageflags", name)
    if bit is None:
        raise BtfError(f"this kernel has no page flag {name}")
    return 1 << bit
