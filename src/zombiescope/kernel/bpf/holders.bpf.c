// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* Which processes hold a dead memory cgroup without a page of it: an ended one that nobody reaped (or one on its way out), a
 * cgroup namespace that was made inside, an open socket that was.
 *
 * walk_tasks: every process from the current one round the list of all, then its open files. One run is one chunk: it ends
 * after run_ns or when the buffer is full, and the next goes on at the task and the file it is told. Holders carry the serial
 * number of the dead css, which the memcg walk knows its zombies by.
 *
 * Never attached; all reads go through bpf_probe_read_kernel and cannot fault. A file table may be let go while it is read, so
 * a socket is believed only if the table still has it afterwards. Needs BTF and bpf_loop (5.17). */
#include "kernel_fields.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "kernel_reads.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { HOLDERS = 4096, TASKS = 1 << 22, FILES = 1 << 20 };
enum { CSS_RELEASED = 4, CSS_DYING = 16 };
enum { MORE = 0, DONE = 1, RUNNING = 2, NO_MEMCG = 3 };
enum { TASK = 1, NAMESPACE = 2, SOCKET = 3 };
enum { TYPE = 0170000, IS_SOCKET = 0140000 };

struct holder {
	u64 serial, inode;
	u32 kind, process, parent, family, ended, file;
	char name[16];
};

struct state {
	/* asked */
	u64 run_ns;
	u32 first_task, first_file;
	/* answered */
	u64 ran_ns;
	u32 status, holders, next_task, next_file;
	/* of this run */
	u64 started, first, task, table;
	u32 files;
};

struct state state;

struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(map_flags, BPF_F_MMAPABLE); __uint(max_entries, HOLDERS);
	__type(key, u32); __type(value, struct holder); } holders SEC(".maps");

static __always_inline u64 memory_css(u64 set)
{
	return set ? load(set + OFFSET(css_set, subsys) + 8 * bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)) : 0;
}

static __always_inline bool is_dead(u64 css)
{
	u32 flags = css ? load32(css + OFFSET(cgroup_subsys_state, flags)) : 0;
	return (flags & CSS_DYING) && !(flags & CSS_RELEASED);
}

static __always_inline struct holder *hold(u32 kind, u64 css)
{
	u32 i = state.holders;
	struct holder *h = bpf_map_lookup_elem(&holders, &i);
	if (!h)
		return 0;
	h->serial = load(css + OFFSET(cgroup_subsys_state, serial_nr));
	h->inode = 0;
	h->kind = kind;
	h->process = load32(state.task + OFFSET(task_struct, tgid));
	h->parent = load32(load(state.task + OFFSET(task_struct, real_parent)) + OFFSET(task_struct, tgid));
	h->ended = load32(state.task + OFFSET(task_struct, exit_state));
	h->family = h->file = 0;
	bpf_probe_read_kernel(h->name, sizeof h->name, (void *)(state.task + OFFSET(task_struct, comm)));
	state.holders = i + 1;
	return h;
}

static __always_inline bool is_full(void)
{
	return state.holders + 4 >= HOLDERS || bpf_ktime_get_ns() - state.started > state.run_ns;
}

static long visit_file(u32 i, void *ctx)
{
	if (i < state.first_file)
		return 0;
	if (i >= state.files)
		return 1;
	state.next_file = i;
	if ((i & 63) == 63 && is_full()) {
		state.status = MORE;
		return 1;
	}
	u64 slot = state.table + 8ULL * i, file = load(slot);
	if (!file)
		return 0;
	u64 inode = load(file + OFFSET(file, f_inode));
	if ((load32(inode + OFFSET(inode, i_mode)) & TYPE) != IS_SOCKET)
		return 0;
	u64 sock = load(load(file + OFFSET(file, private_data)) + OFFSET(socket, sk));
	/* The lowest bits of sk_memcg are flags [absent 6.17/present 6.18]. */
	u64 memcg = load(sock + OFFSET(sock, sk_memcg)) & ~7ULL;
	u64 css = memcg ? memcg + OFFSET(mem_cgroup, css) : 0;
	if (!is_dead(css) || load(slot) != file)
		return 0;
	struct holder *h = hold(SOCKET, css);
	if (!h)
		return 0;
	h->inode = load(inode + OFFSET(inode, i_ino));
	h->family = load32(sock + OFFSET(sock, __sk_common.skc_family)) & 0xffff;
	h->file = i;
	return 0;
}

static __always_inline void visit_files(void)
{
	u64 files = load(state.task + OFFSET(task_struct, files));
	u64 table = files ? load(files + OFFSET(files_struct, fdt)) : 0;
	if (!table)
		return;
	state.files = load32(table + OFFSET(fdtable, max_fds));
	state.table = load(table + OFFSET(fdtable, fd));
	bpf_loop(FILES, visit_file, 0, 0);
}

static __always_inline void visit_task(void)
{
	u64 css = memory_css(load(state.task + OFFSET(task_struct, cgroups)));
	if (is_dead(css))
		hold(TASK, css);
	u64 namespaces = load(state.task + OFFSET(task_struct, nsproxy));
	u64 cgroups = namespaces ? load(namespaces + OFFSET(nsproxy, cgroup_ns)) : 0;
	css = cgroups ? memory_css(load(cgroups + OFFSET(cgroup_namespace, root_cset))) : 0;
	if (is_dead(css))
		hold(NAMESPACE, css);
}

static long step(u32 i, void *ctx)
{
	if (i >= state.first_task) {
		state.next_task = i;
		state.next_file = 0;
		if (is_full()) {
			state.status = MORE;
			return 1;
		}
		if (!state.first_file)
			visit_task();
		visit_files();
		if (state.status == MORE)
			return 1;
		state.first_file = 0;
	}
	u64 next = load(state.task + OFFSET(task_struct, tasks.next));
	if (!next)
		return 1;
	state.task = next - OFFSET(task_struct, tasks);
	if (state.task == state.first) {
		state.status = DONE;
		return 1;
	}
	return 0;
}

SEC("raw_tp/sys_enter") /* bpftool's light skeletons want a tracepoint's name; it is never attached */
int walk_tasks(void *ctx)
{
	state.started = bpf_ktime_get_ns();
	state.holders = 0;
	state.status = RUNNING;
	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id)) {
		state.status = NO_MEMCG;
		return 0;
	}
	state.first = state.task = load(bpf_get_current_task() + OFFSET(task_struct, group_leader));
	bpf_loop(TASKS, step, 0, 0);
	state.ran_ns = bpf_ktime_get_ns() - state.started;
	return 0;
}
