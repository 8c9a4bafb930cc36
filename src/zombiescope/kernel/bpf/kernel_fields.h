/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Only the kernel fields we read. The running kernel's BTF gives the offsets when the program is loaded, so order and
 * neighbours here mean nothing; a name after three underscores is another release's shape of the same record. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef short __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;

enum { BPF_F_MMAPABLE = 1024, BPF_MAP_TYPE_ARRAY = 2 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head { struct list_head *next, *prev; };
struct hlist_node { struct hlist_node *next; };
struct hlist_head { struct hlist_node *first; };
struct hlist_bl_node { struct hlist_bl_node **pprev; };
typedef struct { int counter; } atomic_t;
typedef struct { long counter; } atomic_long_t;
struct refcount_struct { atomic_t refs; };

enum cgroup_subsys_id { memory_cgrp_id = 4 };
enum memcg_memory_event { MEMCG_OOM_KILL = 4 };
enum pageflags { PG_writeback = 1, PG_dirty = 4, PG_head = 6, PG_swapbacked = 17 };

struct cgroup;
struct percpu_ref_data { atomic_long_t count; };
struct percpu_ref { unsigned long percpu_count_ptr; struct percpu_ref_data *data; };
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct percpu_ref refcnt;
	struct list_head sibling, children;
	unsigned int flags;
	u64 serial_nr;
	struct cgroup_subsys_state *parent;
};
struct kernfs_node { const char *name; u64 id; };
struct psi_group { u64 avg_last_update; };
struct cgroup_root { int hierarchy_id; };
struct cgroup { int level; struct kernfs_node *kn; struct psi_group *psi; struct cgroup_root *root; };
struct cgroup___embedded_psi { struct psi_group psi; };          /* before 6.1 */
struct css_set { struct cgroup_subsys_state *subsys[1]; };

struct dentry;
struct vfsmount { struct super_block *mnt_sb; };
struct path { struct vfsmount *mnt; };
struct fs_struct { struct path root; };
struct fdtable { unsigned int max_fds; struct file **fd; };
struct files_struct { struct fdtable *fdt; };
struct cgroup_namespace { struct css_set *root_cset; };
struct nsproxy { struct cgroup_namespace *cgroup_ns; };
struct task_struct {
	struct css_set *cgroups;
	struct fs_struct *fs;
	struct list_head tasks;
	struct task_struct *real_parent, *group_leader;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	int tgid, exit_state;
	char comm[16];
};
struct mem_cgroup;
struct sock_common { unsigned short skc_family; };
struct sock { struct sock_common __sk_common; struct mem_cgroup *sk_memcg; };
struct socket { struct sock *sk; };
struct file { struct inode *f_inode; void *private_data; };

struct page_counter { atomic_long_t usage; unsigned long watermark; };
struct mem_cgroup_id { struct refcount_struct ref; };
struct wb_domain { unsigned long dirty_limit_tstamp; };
struct lru_gen_folio { struct list_head folios[1]; long nr_pages[1]; };
struct lru_gen_struct { struct list_head lists[1]; long nr_pages[1]; };            /* 6.1 and 6.2 */
struct lruvec { struct list_head lists[5]; struct lru_gen_folio lrugen; };
struct lruvec___lists { struct lru_gen_struct lrugen; };
struct mem_cgroup_per_node { struct lruvec lruvec; unsigned long lru_zone_size[1]; };
struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct mem_cgroup_id id;
	struct page_counter memory, tcpmem;
	atomic_long_t memory_events_local[1];
	struct wb_domain cgwb_domain;
	struct mem_cgroup_per_node *nodeinfo[1];
};
struct obj_cgroup { struct mem_cgroup *memcg; };

struct address_space;
struct folio {
	unsigned long flags;
	struct list_head lru;
	struct address_space *mapping;
	atomic_t _mapcount;
	unsigned long memcg_data;
	unsigned int _nr_pages;
	atomic_t _large_mapcount;
};
typedef struct { unsigned long f; } memdesc_flags_t;
struct folio___described { memdesc_flags_t flags; };             /* 6.18 */
struct folio___named_count { unsigned int _folio_nr_pages; };    /* 5.17 to 6.14 */
struct folio___first_flags { unsigned long _flags_1; };

struct inode;
struct address_space { struct inode *host; };
struct file_system_type { const char *name; };
struct backing_dev_info { struct list_head wb_list; };
struct super_block {
	struct list_head s_list;
	u32 s_dev;
	struct dentry *s_root;
	struct file_system_type *s_type;
	struct backing_dev_info *s_bdi;
};
struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	unsigned int i_nlink;
	u32 i_rdev;
	struct super_block *i_sb;
	struct hlist_head i_dentry;
	struct list_head i_io_list;
};
struct qstr { const unsigned char *name; };
struct dentry {
	struct dentry *d_parent;
	struct hlist_bl_node d_hash;
	struct qstr d_name;
	struct super_block *d_sb;
	union { struct hlist_node d_alias; } d_u;
};
struct dentry___flat { struct hlist_node d_alias; };
struct bdi_writeback {
	struct list_head bdi_node, b_dirty, b_io, b_more_io, b_dirty_time, b_attached;
	struct cgroup_subsys_state *memcg_css;
};

#pragma clang attribute pop
