/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* What both programs over softirqs stamp alike: each poll of a network queue, into the record of the core it runs on. To be included
 * after `struct core`, which has `polled_at` and `poll`, and RECORDS, an array of CORES of them. */
#pragma once

enum { NET_TX = 2, NET_RX = 3, PF_KTHREAD = 0x200000 };

static __always_inline struct core *own_core(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	if (cpu >= CORES)
		return 0;
	asm volatile("" : "+r"(cpu));   /* else the place is reckoned before the check, which verifiers up to 6.1 refuse */
	return &RECORDS[cpu & (CORES - 1)];
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

/* Threads that poll a device in the softirq's place. */
struct sched_info { unsigned long pcount; unsigned long long run_delay; } __attribute__((preserve_access_index));
struct thread_info { u32 cpu; } __attribute__((preserve_access_index));
struct task_struct___cpu { u32 cpu; } __attribute__((preserve_access_index));          /* before 5.16 */
struct task_struct___state { unsigned int __state; } __attribute__((preserve_access_index));
struct task_struct___old_state { long state; } __attribute__((preserve_access_index));  /* before 5.14 */
struct task_struct___thread {
	struct thread_info thread_info;
	int on_cpu, pid;
	unsigned int flags;
	struct sched_info sched_info;
	struct list_head children, sibling;
} __attribute__((preserve_access_index));
#define FIELD(field) bpf_core_field_offset(struct task_struct___thread, field)

static __always_inline u32 pid_of(u64 task) { return load32(task + FIELD(pid)); }

static __always_inline u32 cpu_of(u64 task)
{
	if (bpf_core_field_exists(((struct thread_info *)0)->cpu))
		return load32(task + FIELD(thread_info) + OFFSET(thread_info, cpu));
	return load32(task + bpf_core_field_offset(struct task_struct___cpu, cpu));
}

static __always_inline bool is_runnable(u64 task)
{
	if (bpf_core_field_exists(((struct task_struct___state *)0)->__state))
		return !load32(task + bpf_core_field_offset(struct task_struct___state, __state));
	return !load(task + bpf_core_field_offset(struct task_struct___old_state, state));
}

/* Any program may take such a name: only the kernel's own threads count. */
static __always_inline bool polls_network(u64 task)
{
	return (load(task + OFFSET(task_struct, comm)) & 0xffffffffff) == 0x2f6970616e   /* "napi/" */
		&& load32(task + FIELD(flags)) & PF_KTHREAD;
}
