// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* How long softirqs waited, core by core, for a bounded window: from raise to run (network vectors, and the others), each poll of
 * a network queue, and ksoftirqd's wait for its core. Log2 histograms of microseconds, the longest of each and when it began.
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
enum { NET_TX = 2, NET_RX = 3 };

struct task_struct___state { unsigned int __state; } __attribute__((preserve_access_index));
struct task_struct___old_state { long state; } __attribute__((preserve_access_index));
struct task_struct___id { int pid; } __attribute__((preserve_access_index));

struct core {
	u32 ksoftirqd, unused;
	u64 raised[VECTORS];
	u64 polled_at, waits_since;
	struct times net, other, poll, queue;
};
struct cores { struct core core[CORES]; };
struct cores cores;

static __always_inline struct core *own_core(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	if (cpu >= CORES)
		return 0;
	asm volatile("" : "+r"(cpu));   /* else the place is reckoned before the check, which verifiers up to 6.1 refuse */
	return &cores.core[cpu & (CORES - 1)];
}

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

/* The event comes when a poll is over: it began where the softirq did, or where the poll before it ended. */
SEC("tp_btf/napi_poll") int on_poll(u64 *ctx)
{
	struct core *c = own_core();
	if (!c || !c->polled_at)
		return 0;
	u64 now = bpf_ktime_get_ns();
	note(&c->poll, c->polled_at, now);
	c->polled_at = now;
	return 0;
}

SEC("tp_btf/softirq_exit") int on_exit(u64 *ctx)
{
	struct core *c = own_core();
	if (c && (u32)ctx[0] == NET_RX)
		c->polled_at = 0;
	return 0;
}

static __always_inline u32 pid_of(u64 task) { return load32(task + bpf_core_field_offset(struct task_struct___id, pid)); }

static __always_inline bool is_runnable(u64 task)
{
	if (bpf_core_field_exists(((struct task_struct___state *)0)->__state))
		return !load32(task + bpf_core_field_offset(struct task_struct___state, __state));
	return !load(task + bpf_core_field_offset(struct task_struct___old_state, state));
}

SEC("tp_btf/sched_wakeup") int on_wakeup(u64 *ctx)
{
	struct core *c = own_core();
	if (c && c->ksoftirqd && !c->waits_since && pid_of(ctx[0]) == c->ksoftirqd)
		c->waits_since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_switch") int on_switch(u64 *ctx)
{
	struct core *c = own_core();
	if (!c || !c->ksoftirqd)
		return 0;
	if (pid_of(ctx[2]) == c->ksoftirqd) {
		if (c->waits_since)
			note(&c->queue, c->waits_since, bpf_ktime_get_ns());
		c->waits_since = 0;
	} else if (pid_of(ctx[1]) == c->ksoftirqd && is_runnable(ctx[1]))
		c->waits_since = bpf_ktime_get_ns();
	return 0;
}
