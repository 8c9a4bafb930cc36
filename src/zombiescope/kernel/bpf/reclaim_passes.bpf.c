// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* What reclaim costs whoever has to do it, for a bounded window: each call from its begin to its end, by kind (a full machine; a
 * memory cgroup at its limit), how long, how much of it on a core, how many pages it gave back, how often none.
 *
 * Begin and end are the kernel's own tracepoints, joined by thread: a call may sleep and change cores. Needs BTF. */
#include "kernel_fields.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "kernel_reads.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { BUCKETS = 32, CALLS = 4096 };
enum { DIRECT, LIMIT, KINDS };
enum { BPF_MAP_TYPE_HASH = 1, BPF_F_NO_PREALLOC = 1 };

struct sched_entity___ran { u64 sum_exec_runtime; } __attribute__((preserve_access_index));
struct task_struct___se { struct sched_entity___ran se; } __attribute__((preserve_access_index));

struct call { u64 began, ran; };
struct kind { u64 calls, fruitless, pages, ns, cpu_ns, longest_ns, longest_at, open; u64 buckets[BUCKETS]; };
struct state { struct kind kinds[KINDS]; u64 full; };
struct state state;

struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, CALLS); __uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); __type(value, struct call); } calls SEC(".maps");

static __always_inline void add(u64 *counter, u64 value) { __sync_fetch_and_add(counter, value); }

static __always_inline u64 ran(void)
{
	u64 task = bpf_get_current_task();
	return load(task + bpf_core_field_offset(struct task_struct___se, se) +
		    bpf_core_field_offset(struct sched_entity___ran, sum_exec_runtime));
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
	add(&k->cpu_ns, cpu > call->ran ? cpu - call->ran : 0);
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
