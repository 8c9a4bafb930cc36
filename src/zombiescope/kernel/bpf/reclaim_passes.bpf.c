// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* What reclaim costs whoever has to do it, for a bounded window: each call from its begin to its end, by kind (a full machine; a
 * memory cgroup at its limit), how long, how much of it on a core, how many pages it gave back, how often none. Calls at a limit
 * also by the memory cgroup of the task that made them: which dead ones such a call can have visited is known from there.
 *
 * Begin and end are the kernel's own tracepoints, joined by thread: a call may sleep and change cores. Needs BTF. */
#include "kernel_fields.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "kernel_reads.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { BUCKETS = 32, CALLS = 4096, GROUPS = 512 };
enum { DIRECT, LIMIT, KINDS };
enum { BPF_MAP_TYPE_HASH = 1, BPF_F_NO_PREALLOC = 1, BPF_NOEXIST = 1 };

struct sched_entity___ran { u64 sum_exec_runtime; } __attribute__((preserve_access_index));
struct task_struct___se { struct sched_entity___ran se; } __attribute__((preserve_access_index));

struct call { u64 began, ran; };
struct kind { u64 calls, fruitless, pages, ns, cpu_ns, longest_ns, longest_at, open; u64 buckets[BUCKETS]; };
struct group { u64 calls, pages, cpu_ns; };
struct state { struct kind kinds[KINDS]; u64 full; };
struct state state;

struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, CALLS); __uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); __type(value, struct call); } calls SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, GROUPS); __uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); __type(value, struct group); } groups SEC(".maps");

static __always_inline void add(u64 *counter, u64 value) { __sync_fetch_and_add(counter, value); }

static __always_inline u64 ran(void)
{
	u64 task = bpf_get_current_task();
	return load(task + bpf_core_field_offset(struct task_struct___se, se) +
		    bpf_core_field_offset(struct sched_entity___ran, sum_exec_runtime));
}

/* The id of the memory cgroup that the task is in: the inode of its directory. */
static __always_inline u64 group_of_task(void)
{
	u64 set = load(bpf_get_current_task() + OFFSET(task_struct, cgroups));
	u64 css = set ? load(set + OFFSET(css_set, subsys) + 8 * bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)) : 0;
	u64 cgroup = css ? load(css + OFFSET(cgroup_subsys_state, cgroup)) : 0;
	return cgroup ? load(load(cgroup + OFFSET(cgroup, kn)) + OFFSET(kernfs_node, id)) : 0;
}

static __always_inline void book(u64 pages, u64 cpu_ns)
{
	u64 id = group_of_task();
	struct group none = {}, *group = bpf_map_lookup_elem(&groups, &id);
	if (!group) {
		bpf_map_update_elem(&groups, &id, &none, BPF_NOEXIST);
		group = bpf_map_lookup_elem(&groups, &id);
	}
	if (!group)
		return; /* more cgroups than there is room for: the sum still has it */
	add(&group->calls, 1);
	add(&group->pages, pages);
	add(&group->cpu_ns, cpu_ns);
}

static __always_inline int begin(u32 kind)
{
	u64 key = ((u64)kind << 32) | (u32)bpf_get_current_pid_tgid();
	struct call call = { bpf_ktime_get_ns(), ran() };
	if (bpf_map_update_elem(&calls, &key, &call, 0))
		add(&state.full, 1);
	return 0;
}

static __always_inline int end(u32 kind, u64 pages)
{
	u64 key = ((u64)kind << 32) | (u32)bpf_get_current_pid_tgid();
	struct call *call = bpf_map_lookup_elem(&calls, &key);
	if (!call)
		return 0;
	u64 now = bpf_ktime_get_ns(), ns = now > call->began ? now - call->began : 0, micros = ns / 1000, cpu = ran();
	struct kind *k = &state.kinds[kind];
	u32 bucket = 0;
	add(&k->calls, 1);
	add(&k->fruitless, !pages);
	add(&k->pages, pages);
	add(&k->ns, ns);
	cpu = cpu > call->ran ? cpu - call->ran : 0;
	add(&k->cpu_ns, cpu);
	if (kind == LIMIT)
		book(pages, cpu < ns ? cpu : ns);
	if (ns > k->longest_ns) {
		k->longest_ns = ns;
		k->longest_at = call->began;
	}
	if (micros >> 32) micros = 0xffffffff;
	if (micros >> 16) { bucket += 16; micros >>= 16; }
	if (micros >> 8) { bucket += 8; micros >>= 8; }
	if (micros >> 4) { bucket += 4; micros >>= 4; }
	if (micros >> 2) { bucket += 2; micros >>= 2; }
	bucket += micros >> 1 ? 2 : micros;
	add(&k->buckets[bucket < BUCKETS ? bucket : BUCKETS - 1], 1);
	bpf_map_delete_elem(&calls, &key);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin") int on_direct_begin(u64 *ctx) { return begin(DIRECT); }
SEC("tp_btf/mm_vmscan_direct_reclaim_end") int on_direct_end(u64 *ctx) { return end(DIRECT, ctx[0]); }
SEC("tp_btf/mm_vmscan_memcg_reclaim_begin") int on_limit_begin(u64 *ctx) { return begin(LIMIT); }
SEC("tp_btf/mm_vmscan_memcg_reclaim_end") int on_limit_end(u64 *ctx) { return end(LIMIT, ctx[0]); }
