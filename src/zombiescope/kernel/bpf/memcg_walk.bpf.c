// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* Every memory cgroup of the host, dying ones included, and what pins the dead.
 *
 * walk_memcg: pre-order over css->children/sibling from the root of the current task's memory css: one tree, whatever
 * the hierarchy (v1, v2). One run is one chunk: it ends at max_records, when its buffers are nearly full, or after run_ns.
 * The next run goes on from a place (a css), if that is still the one we saw and still linked: below it, with the children
 * born after `after`; with itself again; or beyond it, with its next sibling.
 * walk_writeback: dead groups' writeback structures, by super block and backing device, and the inodes on them.
 *
 * Never attached: BPF_PROG_TEST_RUN holds the RCU read lock, under which no css, inode or dentry that we can reach is
 * freed. All reads go through bpf_probe_read_kernel and cannot fault. Needs BTF and bpf_loop (5.17). */
#include "kernel_fields.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "kernel_reads.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { RECORDS = 1024, PINS = 4096, ARENA = 1 << 20, NAME = 256, SLACK = 65536, STEPS = 1 << 22 };
enum { CSS_ONLINE = 2, CSS_RELEASED = 4, CSS_DYING = 16 };
enum { START = 0, BELOW = 1, AGAIN = 2, BEYOND = 3 };                  /* how to go on from a place */
enum { MORE = 0, DONE = 1, LOST = 2, NO_MEMCG = 3, RUNNING = 4 };      /* status */
enum { VISIT, UP, SEARCH };
enum { WALKED = 1 };                                                   /* record: every list was followed to its end */
enum { ANON = 1, INODE = 2, BARE = 4, SWAPBACKED = 8, PSEUDO = 16, UNHASHED = 32, ROOTED = 64, WRITEBACK = 128, CUT = 256 };

struct record {
	u64 css, parent, id, serial, peak, oom_kills, born, psi_born;
	s64 refs, swap;                          /* refs: -1 unless exact; swap: -1 or entries that carry the id */
	u64 tcp, lru_anon, lru_file, unevictable;      /* pages, by counter and by list */
	u32 shmem, anon, file, bare;             /* pages of the folios that were looked at, by nature */
	u32 folios, walked, flags, level;
	u32 name, name_size, first_pin, pins;
};

struct pin {
	u64 css, mapping, inode;
	u32 device, rdevice, nlink, flags;
	u32 pages, folios, dirty, mapped;
	u32 path, path_size;                     /* leaf first, each name ended by NUL */
	char fstype[16];
};

struct state {
	/* asked */
	u64 position, position_serial, after, run_ns;
	u32 how, max_records, max_pins, max_folios, nodes, skip;
	/* answered */
	u64 position_parent, ran_ns, jiffies, monotonic_ns, seen;
	u32 status, records, pins, arena, steps, hierarchy;
	/* of this run */
	u64 started, root, at, memcg, css, list, end, dentry, top, wb;
	u32 mode, last_css_pins, broken, path_flags, late, pad;
	u64 heads[160];
	u64 zones[64];
	u64 page[8];
};

struct state state;

struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(map_flags, BPF_F_MMAPABLE); __uint(max_entries, RECORDS);
	__type(key, u32); __type(value, struct record); } records SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(map_flags, BPF_F_MMAPABLE); __uint(max_entries, PINS);
	__type(key, u32); __type(value, struct pin); } pins SEC(".maps");
struct arena { char bytes[ARENA + NAME]; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(map_flags, BPF_F_MMAPABLE); __uint(max_entries, 1);
	__type(key, u32); __type(value, struct arena); } arena SEC(".maps");

#define HAS(type, field) bpf_core_field_exists(((struct type *)0)->field)
#define SIZE(type, field) bpf_core_field_size(((struct type *)0)->field)
#define BIT(name) (1UL << bpf_core_enum_value(enum pageflags, name))

/* Appends a name to the arena; its size with the NUL, or 0. */
static __always_inline u32 keep_name(u64 address)
{
	u32 zero = 0, offset = state.arena;
	struct arena *a = bpf_map_lookup_elem(&arena, &zero);
	if (!a || offset > ARENA - NAME)
		return 0;
	offset &= ARENA - 1;
	long size = bpf_probe_read_kernel_str(a->bytes + offset, NAME, (void *)address);
	if (size <= 0 || size > NAME)
		return 0;
	state.arena = offset + size;
	return size;
}

static long climb_dentry(u32 i, void *ctx)
{
	u64 d = state.dentry;
	if (d == state.top) {
		state.path_flags |= ROOTED;
		return 1;
	}
	u32 size = keep_name(load(d + OFFSET(dentry, d_name) + OFFSET(qstr, name)));
	if (!size) {
		state.path_flags |= CUT;
		return 1;
	}
	u64 up = load(d + OFFSET(dentry, d_parent));
	if (!up || up == d) {
		state.path_flags |= PSEUDO;
		return 1;
	}
	state.dentry = up;
	return 0;
}

static __always_inline void name_inode(struct pin *p, u64 inode)
{
	u64 sb = load(inode + OFFSET(inode, i_sb));
	p->inode = load(inode + OFFSET(inode, i_ino));
	p->nlink = load32(inode + OFFSET(inode, i_nlink));
	p->rdevice = load32(inode + OFFSET(inode, i_rdev));
	p->device = load32(sb + OFFSET(super_block, s_dev));
	bpf_probe_read_kernel_str(p->fstype, sizeof p->fstype,
				  (void *)load(load(sb + OFFSET(super_block, s_type)) + OFFSET(file_system_type, name)));
	state.path_flags = 0;
	p->path = state.arena;
	u64 alias = load(inode + OFFSET(inode, i_dentry.first));
	if (alias) {
		state.dentry = alias - (HAS(dentry___flat, d_alias) ? OFFSET(dentry___flat, d_alias) : OFFSET(dentry, d_u.d_alias));
		state.top = load(sb + OFFSET(super_block, s_root));
		if (!load(state.dentry + OFFSET(dentry, d_hash.pprev)))
			state.path_flags |= UNHASHED;
		bpf_loop(512, climb_dentry, 0, 0);
		if (!(state.path_flags & (ROOTED | PSEUDO)))
			state.path_flags |= CUT;
	}
	p->path_size = state.arena - p->path;
	p->flags |= state.path_flags;
}

static __always_inline struct pin *new_pin(u64 css, u64 mapping, u32 flags)
{
	u32 i = state.pins;
	struct pin *p = bpf_map_lookup_elem(&pins, &i);
	if (!p)
		return 0;
	state.pins = i + 1;
	p->css = css;
	p->mapping = mapping;
	p->flags = flags;
	p->inode = p->device = p->rdevice = p->nlink = p->pages = p->folios = p->dirty = p->mapped = p->path = p->path_size = 0;
	__builtin_memset(p->fstype, 0, sizeof p->fstype);
	return p;
}

/* state.page holds the first 64 bytes of the folio. */
#define PAGE(field) (*(u64 *)((char *)state.page + OFFSET(folio, field)))

static __always_inline u64 folio_flags(void)
{
	if (HAS(folio___described, flags))
		return *(u64 *)((char *)state.page + OFFSET(folio___described, flags));
	return PAGE(flags);
}

static __always_inline u32 folio_pages(u64 folio, u64 flags)
{
	if (!(flags & BIT(PG_head)))
		return 1;
	u32 count = 0;
	if (HAS(folio, _nr_pages))
		count = load32(folio + OFFSET(folio, _nr_pages));
	else if (HAS(folio___named_count, _folio_nr_pages))
		count = load32(folio + OFFSET(folio___named_count, _folio_nr_pages));
	else if (HAS(folio___first_flags, _flags_1))
		count = 1 << (load(folio + OFFSET(folio___first_flags, _flags_1)) & 31);
	return count ? count : 1;
}

static __always_inline bool folio_mapped(u64 folio, u64 flags)
{
	if ((flags & BIT(PG_head)) && HAS(folio, _large_mapcount))
		return (s32)load32(folio + OFFSET(folio, _large_mapcount)) >= 0;
	return *(s32 *)((char *)state.page + OFFSET(folio, _mapcount)) >= 0;
}

/* From 7.1 a folio is charged to an obj_cgroup, which leads to the memcg of the moment. */
static __always_inline bool charged_here(u64 data)
{
	data &= ~7ULL;
	return data == state.memcg || (data && load(data + OFFSET(obj_cgroup, memcg)) == state.memcg);
}

static __always_inline struct pin *known_pin(u64 mapping, u32 back)
{
	u32 i = state.pins - back;
	if (state.pins < state.last_css_pins + back)
		return 0;
	struct pin *p = bpf_map_lookup_elem(&pins, &i);
	return p && p->mapping == mapping ? p : 0;
}

static __always_inline struct pin *pin_of(u64 folio, u64 mapping, u32 nature)
{
	u64 key = nature & ANON ? ANON : mapping;
	struct pin *p = known_pin(key, 1);
	if (!p)
		p = known_pin(key, 2);
	if (p || state.pins - state.last_css_pins >= state.max_pins)
		return p;
	p = new_pin(state.css, key, nature);
	if (p && (nature & INODE)) {
		name_inode(p, load(mapping + OFFSET(address_space, host)));
		/* lockless: believe it only if the folio is still this file's and this memcg's */
		if (load(folio + OFFSET(folio, mapping)) != mapping || !charged_here(load(folio + OFFSET(folio, memcg_data)))) {
			state.pins--;
			state.broken = 1;
			return 0;
		}
	}
	return p;
}

static __always_inline void count_folio(struct record *r, u64 folio)
{
	u64 flags = folio_flags(), mapping = PAGE(mapping);
	u32 count = folio_pages(folio, flags), nature;
	if (mapping & 1) {
		nature = ANON;
		r->anon += count;
	} else if (!mapping || (mapping & 2)) {
		nature = BARE;
		r->bare += count;
	} else if (flags & BIT(PG_swapbacked)) {
		nature = INODE | SWAPBACKED;
		r->shmem += count;
	} else {
		nature = INODE;
		r->file += count;
	}
	r->folios++;
	struct pin *p = pin_of(folio, mapping, nature);
	if (!p)
		return;
	p->pages += count;
	p->folios++;
	if (flags & (BIT(PG_dirty) | BIT(PG_writeback)))
		p->dirty += count;
	if (folio_mapped(folio, flags))
		p->mapped += count;
}

static __always_inline bool is_late(void)
{
	return bpf_ktime_get_ns() - state.started > state.run_ns;
}

static long visit_folio(u32 i, void *ctx)
{
	u32 index = state.records;
	struct record *r = bpf_map_lookup_elem(&records, &index);
	if (!r || state.list == state.end)
		return 1;
	u64 folio = state.list - OFFSET(folio, lru);
	if (r->folios && is_late()) {                              /* one is always followed: it tells what holds the zombie */
		state.late = state.broken = 1;
		return 1;
	}
	if (r->folios >= state.max_folios || bpf_probe_read_kernel(state.page, sizeof state.page, (void *)folio) ||
	    !charged_here(PAGE(memcg_data))) {
		state.broken = 1;
		return 1;
	}
	state.list = PAGE(lru);
	count_folio(r, folio);
	return 0;
}

struct lists { u64 base; u32 count; };

static long visit_list(u32 i, void *ctx)
{
	struct lists *l = ctx;
	if (i >= l->count || i >= 80)
		return 1;
	u64 next = state.heads[(i & 127) * 2 < 160 ? (i & 127) * 2 : 0];
	state.end = l->base + i * 16;
	state.list = next;
	if (next && next != state.end)
		bpf_loop(1 << 20, visit_folio, 0, 0);
	return 0;
}

static __always_inline void visit_lists(u64 base, u32 bytes, u32 count)
{
	struct lists l = { .base = base, .count = count };
	if (bytes > sizeof state.heads)
		bytes = sizeof state.heads;
	if (bpf_probe_read_kernel(state.heads, bytes, (void *)base))
		state.broken = 1;
	else
		bpf_loop(80, visit_list, &l, 0);
}

static __always_inline void visit_lruvec(u64 lruvec)
{
	visit_lists(lruvec + OFFSET(lruvec, lists), 64, 4);        /* the fifth, unevictable, is poisoned and no list */
	if (HAS(lruvec, lrugen) && HAS(lru_gen_folio, folios))
		visit_lists(lruvec + OFFSET(lruvec, lrugen) + OFFSET(lru_gen_folio, folios), SIZE(lru_gen_folio, folios),
			    SIZE(lru_gen_folio, folios) / 16);
	else if (HAS(lruvec___lists, lrugen) && HAS(lru_gen_struct, lists))
		visit_lists(lruvec + OFFSET(lruvec___lists, lrugen) + OFFSET(lru_gen_struct, lists), SIZE(lru_gen_struct, lists),
			    SIZE(lru_gen_struct, lists) / 16);
}

struct sizes { u64 anon, file, unevictable; };

/* Classic lists: [zone][inactive anon, active anon, inactive file, active file, unevictable] */
static __always_inline void add_zones(struct sizes *sizes, u64 address, u32 bytes)
{
	if (bytes > sizeof state.zones)
		bytes = sizeof state.zones;
	if (bpf_probe_read_kernel(state.zones, bytes, (void *)address)) {
		state.broken = 1;
		return;
	}
#pragma unroll
	for (int zone = 0; zone < 8; zone++) {
		if (zone * 40 >= bytes)
			continue;
		sizes->anon += state.zones[zone * 5] + state.zones[zone * 5 + 1];
		sizes->file += state.zones[zone * 5 + 2] + state.zones[zone * 5 + 3];
		sizes->unevictable += state.zones[zone * 5 + 4];
	}
}

/* Generations count for themselves, [4 generations][anon, file][zone]: the classic sizes do not move with them. */
static __always_inline void add_generations(struct sizes *sizes, u64 address, u32 bytes)
{
	u32 zones = bytes / 64;
	if (bytes > sizeof state.zones)
		bytes = sizeof state.zones;
	if (bpf_probe_read_kernel(state.zones, bytes, (void *)address)) {
		state.broken = 1;
		return;
	}
	for (u32 row = 0; row < 8; row++)
		for (u32 zone = 0; zone < 8; zone++) {
			if (zone >= zones)
				break;
			s64 pages = state.zones[(row * zones + zone) & 63];
			if (pages < 0)
				continue;
			if (row & 1)
				sizes->file += pages;
			else
				sizes->anon += pages;
		}
}

static __always_inline void add_sizes(struct sizes *sizes, u64 per_node)
{
	u64 lruvec = per_node + OFFSET(mem_cgroup_per_node, lruvec);
	add_zones(sizes, per_node + OFFSET(mem_cgroup_per_node, lru_zone_size), SIZE(mem_cgroup_per_node, lru_zone_size));
	if (HAS(lruvec, lrugen) && HAS(lru_gen_folio, nr_pages))
		add_generations(sizes, lruvec + OFFSET(lruvec, lrugen) + OFFSET(lru_gen_folio, nr_pages), SIZE(lru_gen_folio, nr_pages));
	else if (HAS(lruvec___lists, lrugen) && HAS(lru_gen_struct, nr_pages))
		add_generations(sizes, lruvec + OFFSET(lruvec___lists, lrugen) + OFFSET(lru_gen_struct, nr_pages),
				SIZE(lru_gen_struct, nr_pages));
}

static long visit_node(u32 node, void *ctx)
{
	u32 index = state.records;
	struct record *r = bpf_map_lookup_elem(&records, &index);
	if (!r || node >= state.nodes)
		return 1;
	u64 per_node = load(state.memcg + OFFSET(mem_cgroup, nodeinfo) + node * 8);
	if (!per_node)
		return 0;
	struct sizes sizes = {};
	add_sizes(&sizes, per_node);
	r->lru_anon += sizes.anon;
	r->lru_file += sizes.file;
	r->unevictable += sizes.unevictable;
	if (sizes.anon || sizes.file)
		visit_lruvec(per_node + OFFSET(mem_cgroup_per_node, lruvec));
	return 0;
}

static __always_inline void describe_dead(struct record *r, u64 css)
{
	u64 memcg = state.memcg;
	u64 counter = load(css + OFFSET(cgroup_subsys_state, refcnt.percpu_count_ptr));
	s64 refs = load(load(css + OFFSET(cgroup_subsys_state, refcnt.data)) + OFFSET(percpu_ref_data, count.counter));
	r->refs = (counter & 1) && refs >= 0 ? refs : -1;          /* exact once it counts in one place, without the bias */
	r->swap = HAS(mem_cgroup, id.ref) ? (s64)load32(memcg + OFFSET(mem_cgroup, id.ref.refs.counter)) : -1;
	r->peak = load(memcg + OFFSET(mem_cgroup, memory.watermark));
	r->oom_kills = load(memcg + OFFSET(mem_cgroup, memory_events_local) +
			    8 * bpf_core_enum_value(enum memcg_memory_event, MEMCG_OOM_KILL));
	if (HAS(mem_cgroup, tcpmem))
		r->tcp = load(memcg + OFFSET(mem_cgroup, tcpmem.usage.counter));
	state.broken = state.late = 0;
	state.last_css_pins = state.pins;
	bpf_loop(1024, visit_node, 0, 0);
	r->walked = state.broken ? 0 : WALKED;
}

static __always_inline void emit(u64 css)
{
	u32 index = state.records, flags = load32(css + OFFSET(cgroup_subsys_state, flags));
	if (!(flags & (CSS_ONLINE | CSS_DYING)) || (flags & CSS_RELEASED))
		return;                                            /* not yet born, or already on its way out */
	struct record *r = bpf_map_lookup_elem(&records, &index);
	if (!r)
		return;
	u64 cgroup = load(css + OFFSET(cgroup_subsys_state, cgroup));
	u64 kn = load(cgroup + OFFSET(cgroup, kn));
	__builtin_memset(r, 0, sizeof *r);
	state.css = css;
	state.memcg = css - OFFSET(mem_cgroup, css);
	r->css = css;
	r->parent = load(css + OFFSET(cgroup_subsys_state, parent));
	r->serial = load(css + OFFSET(cgroup_subsys_state, serial_nr));
	r->flags = flags;
	r->id = load(kn + OFFSET(kernfs_node, id));
	r->level = load32(cgroup + OFFSET(cgroup, level));
	if (HAS(mem_cgroup, cgwb_domain))
		r->born = load(state.memcg + OFFSET(mem_cgroup, cgwb_domain.dirty_limit_tstamp));
	r->name = state.arena;
	r->name_size = keep_name(load(kn + OFFSET(kernfs_node, name)));
	r->first_pin = state.pins;
	if (flags & CSS_DYING)
		describe_dead(r, css);
	r->pins = state.pins - r->first_pin;
	state.records++;
}

static __always_inline bool is_full(void)
{
	return state.records >= state.max_records || state.pins + state.max_pins >= PINS || state.arena > ARENA - SLACK || is_late();
}

/* A large zombie that ran out of time begins the next run, which then is all its own. */
static __always_inline bool postpone(void)
{
	if (!state.late || state.records < 2)
		return 0;
	state.records--;
	state.how = AGAIN;
	state.status = MORE;
	return 1;
}

static long step(u32 i, void *ctx)
{
	u64 at = state.at, next;
	state.steps = i;
	switch (state.mode) {
	case VISIT:
		state.late = 0;
		emit(at);
		state.how = BELOW;
		state.after = 0;
		state.position = at;
		state.position_serial = load(at + OFFSET(cgroup_subsys_state, serial_nr));
		state.position_parent = load(at + OFFSET(cgroup_subsys_state, parent));
		if (postpone())
			return 1;
		if (is_full()) {
			state.status = MORE;
			return 1;
		}
		goto descend;
	case SEARCH:
		if (at == state.end) {
			state.at = state.position;
			state.mode = UP;
		} else if (load(at - OFFSET(cgroup_subsys_state, sibling) + OFFSET(cgroup_subsys_state, serial_nr)) > state.after) {
			state.at = at - OFFSET(cgroup_subsys_state, sibling);
			state.mode = VISIT;
		} else {
			state.at = load(at);
		}
		return 0;
	default:
		if (at == state.root) {
			state.status = DONE;
			return 1;
		}
		u64 parent = load(at + OFFSET(cgroup_subsys_state, parent));
		next = load(at + OFFSET(cgroup_subsys_state, sibling.next));
		if (!parent || !next) {
			state.status = LOST;
			return 1;
		}
		if (next == parent + OFFSET(cgroup_subsys_state, children)) {
			state.at = parent;
		} else {
			state.at = next - OFFSET(cgroup_subsys_state, sibling);
			state.mode = VISIT;
		}
		return 0;
	}
descend:
	next = load(at + OFFSET(cgroup_subsys_state, children.next));
	if (next && next != at + OFFSET(cgroup_subsys_state, children)) {
		state.at = next - OFFSET(cgroup_subsys_state, sibling);
	} else {
		state.mode = UP;
	}
	return 0;
}

static long climb_css(u32 i, void *ctx)
{
	u64 parent = load(state.root + OFFSET(cgroup_subsys_state, parent));
	if (!parent)
		return 1;
	state.root = parent;
	return 0;
}

/* A remembered css is the one we saw if its serial number is the same and its neighbour still points at it:
 * list_del_rcu poisons the way back, and serial numbers are never used twice. */
static __always_inline bool is_linked(u64 css, u64 serial)
{
	if (load(css + OFFSET(cgroup_subsys_state, serial_nr)) != serial)
		return 0;
	if (css == state.root)
		return 1;
	u64 link = css + OFFSET(cgroup_subsys_state, sibling);
	return !(load32(css + OFFSET(cgroup_subsys_state, flags)) & CSS_RELEASED) &&
	       load(load(css + OFFSET(cgroup_subsys_state, sibling.prev))) == link;
}

static __always_inline void find_root(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 sets = load((u64)task + OFFSET(task_struct, cgroups));
	state.root = load(sets + OFFSET(css_set, subsys) + 8 * bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id));
	bpf_loop(1 << 14, climb_css, 0, 0);
	u64 cgroup = load(state.root + OFFSET(cgroup_subsys_state, cgroup));
	state.hierarchy = load32(load(cgroup + OFFSET(cgroup, root)) + OFFSET(cgroup_root, hierarchy_id));
}

static __always_inline void begin(void)
{
	state.started = bpf_ktime_get_ns();
	state.monotonic_ns = state.started;
	state.jiffies = bpf_jiffies64();
	state.records = state.pins = state.arena = 0;
	state.status = RUNNING;
}

SEC("raw_tp/sys_enter") /* bpftool's light skeletons want a tracepoint's name; it is never attached */
int walk_memcg(void *ctx)
{
	begin();
	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id)) {
		state.status = NO_MEMCG;
		return 0;
	}
	find_root();
	if (!state.root) {
		state.status = NO_MEMCG;
		return 0;
	}
	state.mode = VISIT;
	state.at = state.root;
	if (state.how != START) {
		if (!is_linked(state.position, state.position_serial)) {
			state.status = LOST;
			return 0;
		}
		state.at = state.position;
		if (state.how == BEYOND) {
			state.mode = UP;
		} else if (state.how == BELOW) {
			state.end = state.position + OFFSET(cgroup_subsys_state, children);
			state.at = load(state.end);
			state.mode = SEARCH;
		}
	}
	bpf_loop(STEPS, step, 0, 0);
	state.ran_ns = bpf_ktime_get_ns() - state.started;
	return 0;
}

static long visit_dirty(u32 i, void *ctx)
{
	u64 css = state.css, node = state.list;
	if (!node || node == state.end || i >= state.max_pins)
		return 1;
	struct pin *p = new_pin(css, node, INODE | WRITEBACK);
	if (!p)
		return 1;
	name_inode(p, node - OFFSET(inode, i_io_list));
	state.list = load(node);
	return 0;
}

static __always_inline void visit_inodes(u64 head)
{
	state.end = head;
	state.list = load(head);
	bpf_loop(1 << 10, visit_dirty, 0, 0);
}

static __always_inline void visit_dead_wb(u64 wb, u64 css)
{
	u32 before = state.pins;
	state.css = css;
	visit_inodes(wb + OFFSET(bdi_writeback, b_dirty));
	visit_inodes(wb + OFFSET(bdi_writeback, b_io));
	visit_inodes(wb + OFFSET(bdi_writeback, b_more_io));
	visit_inodes(wb + OFFSET(bdi_writeback, b_dirty_time));
	if (HAS(bdi_writeback, b_attached))
		visit_inodes(wb + OFFSET(bdi_writeback, b_attached));
	if (state.pins == before)
		new_pin(css, wb, WRITEBACK);
}

static long visit_wb(u32 i, void *ctx)
{
	u64 node = state.wb;
	if (!node || node == state.at || state.status == MORE)
		return 1;
	u64 wb = node - OFFSET(bdi_writeback, bdi_node);
	u64 css = load(wb + OFFSET(bdi_writeback, memcg_css));
	state.wb = load(node);
	state.seen++;
	if (state.seen <= state.skip || !css || !(load32(css + OFFSET(cgroup_subsys_state, flags)) & CSS_DYING))
		return 0;
	visit_dead_wb(wb, css);
	if (state.pins + 5 * state.max_pins + 1 >= PINS || state.arena > ARENA - SLACK || is_late())
		state.status = MORE;
	return 0;
}

static long visit_super(u32 i, void *ctx)
{
	u64 sb = state.position;
	if (i && sb == state.root) {
		state.status = DONE;
		return 1;
	}
	state.position = load(sb + OFFSET(super_block, s_list)) - OFFSET(super_block, s_list);
	/* the head of the list lies among them; only a super block is named by its own root */
	u64 top = load(sb + OFFSET(super_block, s_root)), bdi = load(sb + OFFSET(super_block, s_bdi));
	if (!top || !bdi || bdi == state.memcg || load(top + OFFSET(dentry, d_sb)) != sb)
		return 0;
	state.memcg = bdi;
	state.at = bdi + OFFSET(backing_dev_info, wb_list);
	state.wb = load(state.at);
	bpf_loop(1 << 20, visit_wb, 0, 0);
	return state.status == MORE;
}

SEC("raw_tp/sys_enter")
int walk_writeback(void *ctx)
{
	begin();
	if (!HAS(bdi_writeback, memcg_css)) {
		state.status = DONE;
		return 0;
	}
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 mount = load(load((u64)task + OFFSET(task_struct, fs)) + OFFSET(fs_struct, root.mnt));
	state.root = load(mount + OFFSET(vfsmount, mnt_sb));
	state.position = state.root;
	state.seen = state.memcg = 0;
	bpf_loop(1 << 16, visit_super, 0, 0);
	state.ran_ns = bpf_ktime_get_ns() - state.started;
	return 0;
}
