// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* How long softirqs waited, core by core, for a bounded window: from raise to run (network vectors, with threads that poll in their
 * place, and the others), each poll of a network queue, and ksoftirqd's wait for its core. Log2 histograms of microseconds, the longest of each and when it began.
 *
 * Each core writes its own record only. Attached to typed tracepoints; needs BTF. The caller says which task is each core's
 * ksoftirqd. A raise that found no run yet stays in `raised`: the reader sees a wait that is not over. */
#include "kernel_fields.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "kernel_reads.h"
#include "log2_times.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { CORES = 512, VECTORS = 10 };
enum { BPF_MAP_TYPE_HASH = 1, BPF_ANY = 0, BPF_NOEXIST = 1, THREADS = 1024 };

struct core {
	u32 ksoftirqd, unused;
	u64 raised[VECTORS];
	u64 polled_at, waits_since;
	struct times net, other, poll, queue;
};
struct cores { struct core core[CORES]; };
struct cores cores;

#define RECORDS cores.core
#include "polls.h"

/* Threads that poll the network and wait for their core. */
struct waiting { u64 since; u32 cpu, unused; };
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, THREADS); __type(key, u32); __type(value, struct waiting); }
	waiting SEC(".maps");

SEC("tp_btf/softirq_raise") int on_raise(u64 *ctx)
{
	struct core *c = own_core();
	u32 vector = (u32)ctx[0];
	if (c && vector < VECTORS && !c->raised[vector])
		c->raised[vector] = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_entry") int on_entry(u64 *ctx)
{
	struct core *c = own_core();
	u32 vector = (u32)ctx[0];
	if (!c || vector >= VECTORS)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (c->raised[vector]) {
		note(vector == NET_TX || vector == NET_RX ? &c->net : &c->other, c->raised[vector], now);
		c->raised[vector] = 0;
	}
	if (vector == NET_RX)
		c->polled_at = now;
	return 0;
}

static __always_inline void begin_wait(u64 task, u64 flags)
{
	u32 pid = pid_of(task);
	struct waiting w = { bpf_ktime_get_ns(), cpu_of(task), 0 };
	bpf_map_update_elem(&waiting, &pid, &w, flags);
}

SEC("tp_btf/sched_wakeup") int on_wakeup(u64 *ctx)
{
	struct core *c = own_core();
	if (c && c->ksoftirqd && !c->waits_since && pid_of(ctx[0]) == c->ksoftirqd)
		c->waits_since = bpf_ktime_get_ns();
	if (polls_network(ctx[0]) && !load32(ctx[0] + FIELD(on_cpu)))
		begin_wait(ctx[0], BPF_NOEXIST);
	return 0;
}

static __always_inline void follow_thread(struct core *c, u64 before, u64 next)
{
	u32 pid;
	if (polls_network(next)) {
		pid = pid_of(next);
		struct waiting *w = bpf_map_lookup_elem(&waiting, &pid);
		if (w)
			note(&c->net, w->since, bpf_ktime_get_ns());
		bpf_map_delete_elem(&waiting, &pid);
	}
	if (!polls_network(before))
		return;
	if (is_runnable(before))
		begin_wait(before, BPF_ANY);
	else {
		pid = pid_of(before);
		bpf_map_delete_elem(&waiting, &pid);
	}
}

SEC("tp_btf/sched_switch") int on_switch(u64 *ctx)
{
	struct core *c = own_core();
	if (!c)
		return 0;
	follow_thread(c, ctx[1], ctx[2]);
	if (!c->ksoftirqd)
		return 0;
	if (pid_of(ctx[2]) == c->ksoftirqd) {
		if (c->waits_since)
			note(&c->queue, c->waits_since, bpf_ktime_get_ns());
		c->waits_since = 0;
	} else if (pid_of(ctx[1]) == c->ksoftirqd && is_runnable(ctx[1]))
		c->waits_since = bpf_ktime_get_ns();
	return 0;
}
