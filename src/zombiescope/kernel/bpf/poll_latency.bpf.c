// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* Always on: how long raised network softirqs wait for their core, and how long polls of the network take, at a price that does not
 * grow with the packets.
 *
 * `on_clock` runs on one core a hundred times per second, from a hard interrupt, and looks at every core: is a network softirq
 * raised, is a poll running, and did one run since the look before? What stands at two looks with nothing run between them is long,
 * and is timed to within one look. The shorter ones are timed by the four stamps, which cost each packet: they are attached for
 * a slice of the time where there are many packets, and all the time where there are few.
 *
 * Each core's stamps write that core's record only, and `on_clock` has fields of its own in it. Needs BTF. */
#include "kernel_fields.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "kernel_reads.h"
#include "log2_times.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { BPF_MAP_TYPE_PERCPU_ARRAY = 6 };
enum { CORES = 512, NET_TX = 2, NET_RX = 3, NETWORK = 1 << NET_TX | 1 << NET_RX };

struct rq { int cpu; } __attribute__((preserve_access_index));
struct cfs_rq { struct rq *rq; } __attribute__((preserve_access_index));
struct sched_entity { struct cfs_rq *cfs_rq; } __attribute__((preserve_access_index));
struct task_struct___queue { struct sched_entity se; } __attribute__((preserve_access_index));

/* Only its place on each core is of use: how far each core's own variables lie from another's. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} anchor SEC(".maps");

/* Something that stands for long. */
struct long_times {
	u64 since, last, mark;               /* of the one that is not over: midway between two looks */
	u64 buckets[BUCKETS], sums[BUCKETS]; /* how many, and nanoseconds, of those that are */
	u64 longest_ns, longest_at;
};
struct core {
	u64 raised[2], polled_at;
	struct times net, poll;
	struct long_times waits, polls;
	u64 runs;                            /* of network softirqs, at the last look */
};
struct state {
	u32 cores, is_blind;
	/* Said by the reader, from the kernel's types: where these lie from the beginning of a core's own variables; 0: nowhere. */
	u32 runqueue, pending, counts, in_poll;
	u64 looks, looked_at, latest_ns;     /* how late a look was at most: nothing was seen meanwhile */
	u64 begins[CORES];                   /* of each core's own variables */
	struct core core[CORES];
};
struct state state;

static __always_inline struct core *own_core(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	if (cpu >= CORES)
		return 0;
	asm volatile("" : "+r"(cpu));   /* else the place is reckoned before the check, which verifiers up to 6.1 refuse */
	return &state.core[cpu & (CORES - 1)];
}

SEC("tp_btf/softirq_raise") int on_raise(u64 *ctx)
{
	u32 place = (u32)ctx[0] - NET_TX;
	if (place > 1)
		return 0;
	struct core *c = own_core();
	if (c && !c->raised[place & 1])
		c->raised[place & 1] = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_entry") int on_entry(u64 *ctx)
{
	u32 place = (u32)ctx[0] - NET_TX;
	if (place > 1)
		return 0;
	struct core *c = own_core();
	if (!c)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (c->raised[place & 1]) {
		note(&c->net, c->raised[place & 1], now);
		c->raised[place & 1] = 0;
	}
	c->polled_at = place ? now : 0;
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
	if ((u32)ctx[0] != NET_RX)
		return 0;
	struct core *c = own_core();
	if (c)
		c->polled_at = 0;
	return 0;
}

static __always_inline void follow(struct long_times *t, bool is_there, u64 mark, u64 before, u64 now)
{
	u64 midway = now - before > 20000000 ? now - 5000000 : now - (now - before) / 2;
	if (t->since && (!is_there || t->mark != mark)) {
		if (t->last > t->since) {
			u64 ended = before + (now - midway), ns = ended - t->since;
			u32 bucket = bucket_of(ns);
			t->buckets[bucket]++;
			t->sums[bucket] += ns;
			if (ns > t->longest_ns) {
				t->longest_ns = ns;
				t->longest_at = t->since;
			}
		}
		t->since = 0;
	}
	if (!is_there)
		return;
	if (!t->since) {
		t->since = midway;
		t->last = 0;
		t->mark = mark;
	} else
		t->last = now;
}

/* A core's run queue is one of its own variables; the task that runs here knows where this core's is. */
static __always_inline u64 begin_of(u32 cpu)
{
	u32 zero = 0, here = bpf_get_smp_processor_id();
	u64 task = bpf_get_current_task(), queue, found;
	queue = load(task + bpf_core_field_offset(struct task_struct___queue, se) + OFFSET(sched_entity, cfs_rq));
	found = load(queue + OFFSET(cfs_rq, rq));
	if (!found || load32(found + OFFSET(rq, cpu)) != here)
		return 0;
	u64 ours = (u64)bpf_map_lookup_percpu_elem(&anchor, &zero, here);
	u64 theirs = (u64)bpf_map_lookup_percpu_elem(&anchor, &zero, cpu);
	if (!ours || !theirs)
		return 0;
	u64 apart = theirs - ours;
	asm volatile("" : "+r"(apart));   /* a number, before it is added to another: verifiers refuse a sum with an address in it */
	return found - state.runqueue + apart;
}

struct look { u64 before, now, counts; };

enum { LOOKS_A_COUNT = 32 };

static long look_at(u32 cpu, struct look *look)
{
	if (cpu >= CORES)
		return 1;
	asm volatile("" : "+r"(cpu));
	cpu &= CORES - 1;
	u64 begin = state.begins[cpu];
	if (!begin) {
		begin = state.begins[cpu] = begin_of(cpu);
		if (!begin) {
			if (cpu == bpf_get_smp_processor_id())
				state.is_blind = cpu + 1;
			return 0;
		}
	}
	struct core *c = &state.core[cpu];
	bool is_raised = load32(begin + state.pending) & NETWORK;
	bool is_polling = state.in_poll && load32(begin + state.in_poll) & 1;
	if (!is_raised && !is_polling && !c->waits.since && !c->polls.since && !look->counts)
		return 0;
	u64 pair = load(begin + state.counts);
	c->runs = (u32)pair + (u32)(pair >> 32);
	follow(&c->waits, is_raised, (u32)c->runs, look->before, look->now);
	follow(&c->polls, is_polling, (u32)c->runs, look->before, look->now);
	return 0;
}

SEC("perf_event") int on_clock(void *ctx)
{
	struct look look = { state.looked_at, bpf_ktime_get_ns(), state.looks % LOOKS_A_COUNT == 1 };
	if (look.before && look.now - look.before > state.latest_ns)
		state.latest_ns = look.now - look.before;
	state.looked_at = look.now;
	state.looks++;
	if (look.before)
		bpf_loop(state.cores, look_at, &look, 0);
	return 0;
}
