// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0)
/* Births, deaths and releases of one hierarchy's cgroups, counted where they happen; nothing is streamed.
 *
 * `dead` holds who died and was not released, with the time and the path. `flows_a` and `flows_b` count by parent and leaf
 * name, ids in the name folded, with the path of the first as an example; only the one that `side` names is written, so that
 * the other can be emptied without losing a count. `alive` holds the time of birth, for lifetimes.
 * A flow that finds no room is counted in `other`, a death that finds none in `dead_full`.
 *
 * Attached to typed tracepoints, which run with preemption off: scratch memory by CPU is enough. Needs BTF, bpf_loop (5.17). */
#include "kernel_fields.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { DEAD = 65536, FLOWS = 4096, LEAF = 64, NAME = 128, PATH = 256, BUCKETS = 48 };
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_F_NO_PREALLOC = 1 };
enum { BIRTH, DEATH, RELEASE, KINDS };
enum { IF_ABSENT = 1 };

struct cgroup___own { struct cgroup_subsys_state self; } __attribute__((preserve_access_index));
struct flow_key { u64 parent; char leaf[LEAF]; };
struct flow { u64 counts[KINDS]; u32 path_size, level; char path[PATH]; };
struct dead { u64 died_ns, born_ns; u32 path_size, level; char path[PATH]; };
struct state {
	u32 hierarchy, side;
	u64 counts[KINDS];
	u64 other[KINDS];
	u64 dead_full, alive_full, unknown_releases;
	u64 lifetimes[BUCKETS], zombie_times[BUCKETS];                /* powers of two of microseconds */
};
struct scratch {
	struct flow_key key;
	struct flow flow;
	struct dead dead;
	char name[NAME];
	u32 size, at, out, run, run_out, has_digit, after_word, is_unit;
};

struct state state;

struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, DEAD); __uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); __type(value, struct dead); } dead SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, DEAD); __uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); __type(value, u64); } alive SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, FLOWS); __uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct flow_key); __type(value, struct flow); } flows_a SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, FLOWS); __uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct flow_key); __type(value, struct flow); } flows_b SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1);
	__type(key, u32); __type(value, struct scratch); } scratch SEC(".maps");

static __always_inline void count(u64 *counter) { __sync_fetch_and_add(counter, 1); }
static __always_inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
static __always_inline bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }
static __always_inline bool is_word(char c) { return is_hex(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static __always_inline void put(struct scratch *s, char c)
{
	u32 out = s->out;
	if (out < LEAF) {
		s->key.leaf[out & (LEAF - 1)] = c;
		s->out = out + 1;
	}
}

/* A run of hexadecimal digits ends. One that is an id becomes a star. Never wider than the folding of makers: units keep
 * short numbers, and six or seven digits are an id only between two ends of a word. */
static __always_inline void end_run(struct scratch *s, char next)
{
	bool is_id = s->run >= 8 || (!s->is_unit && s->run >= 6 && !s->after_word && !is_word(next));
	if (s->has_digit && is_id) {
		s->out = s->run_out;
		put(s, '*');
	}
	s->run = 0;
}

static long fold_one(u32 i, void *ctx)
{
	struct scratch *s = *(struct scratch **)ctx;
	u32 at = s->at;
	if (at >= NAME)
		return 1;
	char c = s->name[at & (NAME - 1)];
	if (!is_hex(c)) {
		if (s->run)
			end_run(s, c);
		s->after_word = is_word(c);
		if (!c)
			return 1;
		put(s, c);
	} else {
		if (!s->run) {
			s->run_out = s->out;
			s->has_digit = 0;
		}
		s->run++;
		if (is_digit(c)) {
			u32 out = s->out;
			bool again = s->has_digit && out > s->run_out && s->key.leaf[(out - 1) & (LEAF - 1)] == '*';
			s->has_digit = 1;
			if (s->is_unit)
				put(s, c);
			else if (!again)
				put(s, '*');
		} else
			put(s, c);
	}
	s->at = at + 1;
	return 0;
}

/* What a star replaced may still stand behind the end. */
static long clear_one(u32 i, void *ctx)
{
	struct scratch *s = *(struct scratch **)ctx;
	if (s->out >= LEAF)
		return 1;
	s->key.leaf[s->out & (LEAF - 1)] = 0;
	s->out++;
	return 0;
}

/* .service, .slice, .socket, .mount, .swap: systemd's own names, which a person types. Not run-*: made anew each time. */
static __always_inline bool names_a_unit(const char *name, u32 size)
{
	if (size < 7 || size > NAME || (name[0] == 'r' && name[1] == 'u' && name[2] == 'n' && name[3] == '-'))
		return 0;
	u32 end = size - 1;
	char last = name[(end - 1) & (NAME - 1)], fifth = name[(end - 5) & (NAME - 1)], sixth = name[(end - 6) & (NAME - 1)];
	char eighth = end > 7 ? name[(end - 8) & (NAME - 1)] : 0, seventh = end > 6 ? name[(end - 7) & (NAME - 1)] : 0;
	return (last == 'e' && (sixth == '.' || eighth == '.')) || (last == 't' && (sixth == '.' || seventh == '.')) ||
	       (last == 'p' && fifth == '.');
}

static __always_inline u64 id_of(u64 cgroup)
{
	u64 node = 0, id = 0;
	bpf_probe_read_kernel(&node, sizeof node, (void *)(cgroup + bpf_core_field_offset(struct cgroup, kn)));
	bpf_probe_read_kernel(&id, sizeof id, (void *)(node + bpf_core_field_offset(struct kernfs_node, id)));
	return id;
}

static __always_inline u64 parent_of(u64 cgroup)
{
	u64 css = 0, above = 0;
	bpf_probe_read_kernel(&css, sizeof css, (void *)(cgroup + bpf_core_field_offset(struct cgroup___own, self) +
							 bpf_core_field_offset(struct cgroup_subsys_state, parent)));
	bpf_probe_read_kernel(&above, sizeof above, (void *)(css + bpf_core_field_offset(struct cgroup_subsys_state, cgroup)));
	return css && above ? id_of(above) : 0;
}

static __always_inline u32 level_of(u64 cgroup)
{
	u32 level = 0;
	bpf_probe_read_kernel(&level, sizeof level, (void *)(cgroup + bpf_core_field_offset(struct cgroup, level)));
	return level;
}

static __always_inline bool is_ours(u64 cgroup)
{
	u64 root = 0;
	u32 hierarchy = 0;
	bpf_probe_read_kernel(&root, sizeof root, (void *)(cgroup + bpf_core_field_offset(struct cgroup, root)));
	bpf_probe_read_kernel(&hierarchy, sizeof hierarchy,
			      (void *)(root + bpf_core_field_offset(struct cgroup_root, hierarchy_id)));
	return hierarchy == state.hierarchy;
}

static __always_inline void *flow_of(void *map, struct scratch *s, u64 cgroup, u64 path)
{
	struct flow *f = bpf_map_lookup_elem(map, &s->key);
	if (f)
		return f;
	__builtin_memset(&s->flow, 0, sizeof s->flow);
	long size = bpf_probe_read_kernel_str(s->flow.path, PATH, (void *)path);
	s->flow.path_size = size > 0 ? size : 0;
	s->flow.level = level_of(cgroup);
	bpf_map_update_elem(map, &s->key, &s->flow, IF_ABSENT);          /* fails if another CPU was first: then it is there */
	return bpf_map_lookup_elem(map, &s->key);
}

static __always_inline struct scratch *note(u64 cgroup, u64 path, u32 kind)
{
	u32 zero = 0;
	u64 node = 0, name = 0;
	count(&state.counts[kind]);
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return 0;
	__builtin_memset(&s->key, 0, sizeof s->key);
	s->key.parent = parent_of(cgroup);
	bpf_probe_read_kernel(&node, sizeof node, (void *)(cgroup + bpf_core_field_offset(struct cgroup, kn)));
	bpf_probe_read_kernel(&name, sizeof name, (void *)(node + bpf_core_field_offset(struct kernfs_node, name)));
	long size = bpf_probe_read_kernel_str(s->name, NAME, (void *)name);
	if (size <= 0 || size > NAME)
		s->name[0] = 0;
	s->size = size > 0 && size <= NAME ? size : 0;
	s->at = s->out = s->run = s->has_digit = s->after_word = 0;
	s->is_unit = names_a_unit(s->name, s->size);
	bpf_loop(NAME, fold_one, &s, 0);
	bpf_loop(LEAF, clear_one, &s, 0);
	struct flow *f = state.side ? flow_of(&flows_b, s, cgroup, path) : flow_of(&flows_a, s, cgroup, path);
	count(f ? &f->counts[kind] : &state.other[kind]);
	return s;
}

static __always_inline void time_spent(u64 *histogram, u64 from, u64 to)
{
	u64 micros = to > from ? (to - from) / 1000 : 0;
	u32 bucket = 0;
	if (micros >> 32) { bucket += 32; micros >>= 32; }
	if (micros >> 16) { bucket += 16; micros >>= 16; }
	if (micros >> 8) { bucket += 8; micros >>= 8; }
	if (micros >> 4) { bucket += 4; micros >>= 4; }
	if (micros >> 2) { bucket += 2; micros >>= 2; }
	bucket += micros >> 1 ? 2 : micros;
	count(&histogram[bucket < BUCKETS ? bucket : BUCKETS - 1]);
}

SEC("tp_btf/cgroup_mkdir") int on_mkdir(u64 *ctx)
{
	u64 cgroup = ctx[0], path = ctx[1];
	if (!is_ours(cgroup))
		return 0;
	u64 id = id_of(cgroup), now = bpf_ktime_get_boot_ns();
	note(cgroup, path, BIRTH);
	if (bpf_map_update_elem(&alive, &id, &now, 0))
		count(&state.alive_full);
	return 0;
}

SEC("tp_btf/cgroup_rmdir") int on_rmdir(u64 *ctx)
{
	u64 cgroup = ctx[0], path = ctx[1];
	if (!is_ours(cgroup))
		return 0;
	u64 id = id_of(cgroup), now = bpf_ktime_get_boot_ns();
	struct scratch *s = note(cgroup, path, DEATH);
	if (!s)
		return 0;
	u64 *born = bpf_map_lookup_elem(&alive, &id);
	s->dead.died_ns = now;
	s->dead.born_ns = born ? *born : 0;
	if (born) {
		time_spent(state.lifetimes, *born, now);
		bpf_map_delete_elem(&alive, &id);
	}
	s->dead.level = level_of(cgroup);
	long size = bpf_probe_read_kernel_str(s->dead.path, PATH, (void *)path);
	s->dead.path_size = size > 0 ? size : 0;
	if (bpf_map_update_elem(&dead, &id, &s->dead, 0))
		count(&state.dead_full);
	return 0;
}

SEC("tp_btf/cgroup_release") int on_release(u64 *ctx)
{
	u64 cgroup = ctx[0], path = ctx[1];
	if (!is_ours(cgroup))
		return 0;
	u64 id = id_of(cgroup);
	note(cgroup, path, RELEASE);
	struct dead *d = bpf_map_lookup_elem(&dead, &id);
	if (!d) {
		count(&state.unknown_releases);
		return 0;
	}
	time_spent(state.zombie_times, d->died_ns, bpf_ktime_get_boot_ns());
	bpf_map_delete_elem(&dead, &id);
	return 0;
}
