// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* For the lab and its tests: holds the core it is run on with softirqs off, as a long critical section of the kernel does. Run by
 * BPF_PROG_TEST_RUN, which keeps softirqs off while a program of this type runs; ends by itself after `hold_ns`. */
#include "kernel_fields.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { STEPS = 1 << 20 };

struct state { u64 hold_ns, began, ended; };
struct state state;

static long step(u32 i, void *ctx)
{
	state.ended = bpf_ktime_get_ns();
	return state.ended - state.began >= state.hold_ns;
}

static long round(u32 i, void *ctx)
{
	bpf_loop(STEPS, step, 0, 0);
	return state.ended - state.began >= state.hold_ns;
}

SEC("tc") int hold(void *skb)
{
	state.began = bpf_ktime_get_ns();
	bpf_loop(1024, round, 0, 0);
	return 0;
}
