// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* Always on: how long raised network softirqs and threads that poll the network wait for their core, and how long polls take, at a
 * price that does not grow with the packets.
 *
 * `on_clock` (or `on_tick`) runs on one core a hundred times per second, from a hard interrupt, and looks at every core: is a network softirq
 * raised, is a poll running, and did one run since the look before? What stands at two looks with nothing run between them is long,
 * and is timed to within one look. The shorter ones are timed by the four stamps, which cost each packet: they are attached for
 * a slice of the time where there are many packets, and all the time where there are few.
 *
 * A device may be polled by threads instead (`/sys/class/net/DEVICE/threaded`): no softirq is raised then. `find_threads` lists them,
 * the reader says which to follow, and `on_clock` looks whether one could run and does not. What is shorter than two looks is known
 * from the scheduler's own account: how often each ran, and how long it stood in line altogether.
 *
 * Each core's stamps write that core's record only, and `on_clock` has fields of its own in it. Needs BTF. */
#include "kernel_fields.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "kernel_reads.h"
#include "log2_times.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { BPF_MAP_TYPE_PERCPU_ARRAY = 6 };
enum { CORES = 512 };
enum { THREADS = 256, FOREBEARS = 1024, KERNEL_THREADS = 1 << 16, KTHREADD = 2 };

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

struct standing { u64 since, last, mark; };  /* since: midway between two looks; last: the look that found it again */

/* Something that stands for long. */
struct long_times {
	struct standing now;                 /* the one that is not over */
	u64 buckets[BUCKETS], sums[BUCKETS]; /* how many, and nanoseconds, of those that are */
	u64 longest_ns, longest_at;
};
struct core {
	u64 raised[2], polled_at;
	struct times net, poll;
	struct long_times waits, polls;
	u64 runs;                            /* of network softirqs, at the last look */
	u64 thread_runs, thread_ns;          /* how often threads got this core to poll before long, and what they waited altogether */
	u64 thread_longs;                    /* those in `waits` */
	u64 ticks;                           /* how often `on_tick` ran here */
};
struct thread {
	u64 task;                            /* 0: nobody */
	u32 pid, cpu;                        /* cpu: where it stood in line when last looked at */
	struct standing now;
	u64 runs, waited_ns;                 /* the scheduler's account, as it was last read */
};
struct found { u64 task; u32 pid, unused; };
struct state {
	u32 cores, is_blind;
	/* Said by the reader, from the kernel's types: where these lie from the beginning of a core's own variables; 0: nowhere. */
	u32 runqueue, pending, counts, in_poll;
	u64 period_ns;                       /* between two looks, where ticks are the clock */
	u64 looks, looked_at, latest_ns;     /* how late a look was at most: nothing was seen meanwhile */
	u64 begins[CORES];                   /* of each core's own variables */
	struct core core[CORES];
	u32 threads, found;                  /* places to look at; how many there were, which may be more than fit */
	u64 kthreadd, jiffies;
	struct thread thread[THREADS];
	struct found list[THREADS];
};
struct state state;

#define RECORDS state.core
#include "polls.h"

enum { NETWORK = 1 << NET_TX | 1 << NET_RX };

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

/* What ended, in nanoseconds, if it was long. */
static __always_inline u64 follow(struct standing *s, struct long_times *t, bool is_there, u64 mark, u64 before, u64 now)
{
	u64 midway = now - before > 20000000 ? now - 5000000 : now - (now - before) / 2, ns = 0;
	if (s->since && (!is_there || s->mark != mark)) {
		if (s->last > s->since) {
			ns = before + (now - midway) - s->since;
			u32 bucket = bucket_of(ns);
			t->buckets[bucket]++;
			t->sums[bucket] += ns;
			if (ns > t->longest_ns) {
				t->longest_ns = ns;
				t->longest_at = s->since;
			}
		}
		s->since = 0;
	}
	if (!is_there)
		return ns;
	if (!s->since) {
		s->since = midway;
		s->last = 0;
		s->mark = mark;
	} else
		s->last = now;
	return ns;
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
	if (!is_raised && !is_polling && !c->waits.now.since && !c->polls.now.since && !look->counts)
		return 0;
	u64 pair = load(begin + state.counts);
	c->runs = (u32)pair + (u32)(pair >> 32);
	follow(&c->waits.now, &c->waits, is_raised, (u32)c->runs, look->before, look->now);
	follow(&c->polls.now, &c->polls, is_polling, (u32)c->runs, look->before, look->now);
	return 0;
}

/* Asleep costs one read. A task that ended is memory that may be another's: the pid must still be there. */
static long look_at_thread(u32 place, struct look *look)
{
	if (place >= THREADS)
		return 1;
	asm volatile("" : "+r"(place));
	struct thread *t = &state.thread[place & (THREADS - 1)];
	u64 task = t->task;
	if (!task)
		return 0;
	bool waits = is_runnable(task) && !load32(task + FIELD(on_cpu));
	if (!waits && !t->now.since && !look->counts)
		return 0;
	if (pid_of(task) != t->pid)
		return 0;
	u64 runs = load(task + FIELD(sched_info) + OFFSET(sched_info, pcount));
	u64 waited = load(task + FIELD(sched_info) + OFFSET(sched_info, run_delay));
	u32 cpu = t->now.since ? t->cpu : cpu_of(task);
	if (cpu >= CORES)
		return 0;
	asm volatile("" : "+r"(cpu));
	struct core *c = &state.core[cpu & (CORES - 1)];
	u64 more = t->runs && runs > t->runs ? runs - t->runs : 0, ns = more ? waited - t->waited_ns : 0;
	t->runs = runs;
	t->waited_ns = waited;
	t->cpu = cpu;
	u64 ended = follow(&t->now, &c->waits, waits, runs, look->before, look->now);
	if (ended) {
		c->thread_longs++;
		more -= more > 0;
		ns = more && ns > ended ? ns - ended : 0;
	}
	c->thread_runs += more;
	c->thread_ns += ns;
	return 0;
}

static __always_inline void look_round(u64 before, u64 now)
{
	struct look look = { before, now, state.looks % LOOKS_A_COUNT == 1 };
	if (before && now - before > state.latest_ns)
		state.latest_ns = now - before;
	state.looks++;
	if (before) {
		bpf_loop(state.cores, look_at, &look, 0);
		bpf_loop(state.threads, look_at_thread, &look, 0);
	}
}

SEC("perf_event") int on_clock(void *ctx)
{
	u64 before = state.looked_at, now = bpf_ktime_get_ns();
	state.looked_at = now;
	look_round(before, now);
	return 0;
}

/* Where a clock of our own is refused (kernel.perf_event_paranoid of 3 and more, as Debian and Ubuntu have it): a timer of the
 * kernel's, its tick above all. A core that is held ticks; where none ticks, all are idle and nothing waits. */
SEC("tp_btf/hrtimer_expire_entry") int on_tick(u64 *ctx)
{
	u64 jiffies = bpf_jiffies64();
	struct core *c = own_core();
	if (c)
		c->ticks++;
	if (jiffies == state.jiffies)   /* cheaper than to ask for the time */
		return 0;
	state.jiffies = jiffies;
	u64 before = state.looked_at, now = bpf_ktime_get_ns();
	if (now < before + state.period_ns || __sync_val_compare_and_swap(&state.looked_at, before, now) != before)
		return 0;
	look_round(before, now);
	return 0;
}

static long climb(u32 i, u64 *task)
{
	u64 parent = load(*task + OFFSET(task_struct, real_parent));
	if (!parent || parent == *task)
		return 1;
	*task = parent;
	return 0;
}

struct walk { u64 at, head; };

static __always_inline u64 next_of(struct walk *walk)
{
	u64 next = load(walk->at), task = next - FIELD(sibling);
	if (!next || next == walk->at || next == walk->head)
		return 0;
	walk->at = next;
	return task;
}

static long seek_kthreadd(u32 i, struct walk *walk)
{
	u64 task = next_of(walk);
	if (task && pid_of(task) == KTHREADD)
		state.kthreadd = task;
	return !task || state.kthreadd;
}

static long list_thread(u32 i, struct walk *walk)
{
	u64 task = next_of(walk);
	if (!task)
		return 1;
	if (!polls_network(task))
		return 0;
	u32 place = state.found++;
	if (place < THREADS) {
		asm volatile("" : "+r"(place));
		struct found *f = &state.list[place & (THREADS - 1)];
		f->task = task;
		f->pid = pid_of(task);
	}
	return 0;
}

/* Run by the reader. Every kernel thread is a child of kthreadd, which is a child of the first task, which is its own parent. */
SEC("raw_tp/sys_enter") int find_threads(void *ctx)
{
	state.found = 0;
	if (!bpf_core_field_exists(((struct task_struct___thread *)0)->sched_info))
		return 0;
	if (!state.kthreadd) {
		u64 first = bpf_get_current_task();
		bpf_loop(FOREBEARS, climb, &first, 0);
		struct walk walk = { first + FIELD(children), first + FIELD(children) };
		bpf_loop(KERNEL_THREADS, seek_kthreadd, &walk, 0);
	}
	if (state.kthreadd) {
		struct walk walk = { state.kthreadd + FIELD(children), state.kthreadd + FIELD(children) };
		bpf_loop(KERNEL_THREADS, list_thread, &walk, 0);
	}
	return 0;
}
