// SPDX-License-Identifier: Apache-2.0
// The three steps of an import that touch every word of every stack, with hash tables instead of array operations.
// Plain C99, no dependencies, loaded with ctypes. Every index that comes from a file is checked before it is used;
// every failure is a negative return: -1 no memory, -2 a place outside of the data.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef int64_t i64;
typedef uint32_t u32;

#define NO_MEMORY -1
#define OUTSIDE -2
#define NOBODY 0xFFFFFFFFu
#define FIRST_MARKER (0xFFFFFFFFFFFFFFFFull - 4094)
#define FIRST_KERNEL (1ull << 63)

int zs_version(void) { return 1; }

static inline u64 mix(u64 h) {
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93ull;
    h ^= h >> 29;
    return h;
}

static inline u64 hash_words(const u64 *words, i64 count, u64 salt) {
    u64 a = salt * 0x9E3779B97F4A7C15ull + (u64)count, b = salt ^ 0xC2B2AE3D27D4EB4Full;
    i64 i = 0;
    for (; i + 2 <= count; i += 2) {
        a = (a ^ words[i]) * 0xff51afd7ed558ccdull;
        a ^= a >> 29;
        b = (b ^ words[i + 1]) * 0xc4ceb9fe1a85ec53ull;
        b ^= b >> 31;
    }
    if (i < count) {
        a = (a ^ words[i]) * 0xff51afd7ed558ccdull;
        a ^= a >> 29;
    }
    return mix(a + ((b << 23) | (b >> 41)));
}

static u64 table_size(i64 count) {
    u64 size = 1024;
    while (size < (u64)count * 2 && size < (1ull << 31)) size <<= 1;
    return size;
}

static int inside(i64 start, i64 length, i64 total) { return start >= 0 && length >= 0 && length <= total && start <= total - length; }

// Equal (salt, words) to one id. `chosen[id]` is the first sequence of its kind. Returns how many kinds there are.
i64 zs_distinct(const u64 *words, i64 total, const i64 *starts, const i64 *lengths, const u64 *salts, i64 count, i64 *ids, i64 *chosen) {
    enum { BATCH = 32 };
    u64 size = table_size(count), hashes[BATCH];
    if (count >= (i64)1 << 30) return OUTSIDE;
    u32 *slots = malloc(size * sizeof *slots);
    u64 *known = malloc((count ? (u64)count : 1) * sizeof *known);
    if (!slots || !known) {
        free(slots);
        free(known);
        return NO_MEMORY;
    }
    memset(slots, 0xff, size * sizeof *slots);
    i64 kinds = 0;
    for (i64 first = 0; first < count; first += BATCH) {
        i64 last = first + BATCH < count ? first + BATCH : count;
        for (i64 i = first; i < last; i++) {
            if (!inside(starts[i], lengths[i], total)) {
                free(slots);
                free(known);
                return OUTSIDE;
            }
            hashes[i - first] = hash_words(words + starts[i], lengths[i], salts[i]);
            __builtin_prefetch(&slots[hashes[i - first] & (size - 1)]);
        }
        for (i64 i = first; i < last; i++) {
            u64 hash = hashes[i - first], slot = hash & (size - 1);
            for (;; slot = (slot + 1) & (size - 1)) {
                u32 id = slots[slot];
                if (id == NOBODY) {
                    slots[slot] = (u32)kinds;
                    known[kinds] = hash;
                    chosen[kinds] = i;
                    ids[i] = kinds++;
                    break;
                }
                i64 other = chosen[id];
                if (known[id] == hash && salts[other] == salts[i] && lengths[other] == lengths[i] &&
                    !memcmp(words + starts[other], words + starts[i], (u64)lengths[i] * sizeof *words)) {
                    ids[i] = id;
                    break;
                }
            }
        }
    }
    free(slots);
    free(known);
    return kinds;
}

typedef struct {
    u32 *slots;
    u64 size;
} Slots;

static int grow(Slots *table, const u64 *values, const i64 *tags, i64 count) {
    u64 size = table->size * 2;
    u32 *slots = malloc(size * sizeof *slots);
    if (!slots) return 0;
    memset(slots, 0xff, size * sizeof *slots);
    for (i64 id = 0; id < count; id++) {
        u64 slot = mix(values[id] * 0x9E3779B97F4A7C15ull + (u64)tags[id]) & (size - 1);
        while (slots[slot] != NOBODY) slot = (slot + 1) & (size - 1);
        slots[slot] = (u32)id;
    }
    free(table->slots);
    table->slots = slots;
    table->size = size;
    return 1;
}

// Stacks leaf first to ids of distinct (address, owner) pairs root first, without the marker words. `callers`: an address that a
// call returns to becomes the one before it. `ids`, `addresses` and `owners` have room for every word. Returns how many pairs.
i64 zs_addresses(const u64 *words, i64 total, const i64 *starts, const i64 *lengths, const i64 *stack_owners, i64 count, int callers,
                 u32 *ids, i64 *new_starts, i64 *new_lengths, u64 *addresses, i64 *owners) {
    Slots table = {malloc((1 << 16) * sizeof(u32)), 1 << 16};
    if (!table.slots) return NO_MEMORY;
    memset(table.slots, 0xff, table.size * sizeof(u32));
    i64 pairs = 0, at = 0;
    for (i64 stack = 0; stack < count; stack++) {
        if (!inside(starts[stack], lengths[stack], total)) {
            free(table.slots);
            return OUTSIDE;
        }
        const u64 *chain = words + starts[stack];
        new_starts[stack] = at;
        for (i64 i = lengths[stack] - 1; i >= 0; i--) {
            u64 address = chain[i];
            if (address >= FIRST_MARKER) continue;
            if (callers && i > 0 && chain[i - 1] < FIRST_MARKER && address) address--;
            i64 owner = address >= FIRST_KERNEL ? -1 : stack_owners[stack];
            u64 slot = mix(address * 0x9E3779B97F4A7C15ull + (u64)owner) & (table.size - 1);
            while (table.slots[slot] != NOBODY && (addresses[table.slots[slot]] != address || owners[table.slots[slot]] != owner))
                slot = (slot + 1) & (table.size - 1);
            if (table.slots[slot] == NOBODY) {
                table.slots[slot] = (u32)pairs;
                addresses[pairs] = address;
                owners[pairs] = owner;
                pairs++;
            }
            ids[at++] = table.slots[slot];
            if ((u64)pairs * 2 > table.size && !grow(&table, addresses, owners, pairs)) {
                free(table.slots);
                return NO_MEMORY;
            }
        }
        new_lengths[stack] = at - new_starts[stack];
    }
    free(table.slots);
    return pairs;
}

typedef struct {
    u64 key; // parent << 32 | frame
    u32 node;
} Edge;

static Edge *edges(u64 size) {
    Edge *made = malloc(size * sizeof *made);
    if (made)
        for (u64 slot = 0; slot < size; slot++) made[slot].node = NOBODY;
    return made;
}

static inline Edge *find_edge(Edge *slots, u64 size, u64 key) {
    u64 slot = mix(key * 0x9E3779B97F4A7C15ull) & (size - 1);
    while (slots[slot].node != NOBODY && slots[slot].key != key) slot = (slot + 1) & (size - 1);
    return &slots[slot];
}

// The tree of all stacks in preorder: a node's children follow it. `frame_of` names the ids; `roots` the outermost frame of each
// stack. `tree_frames` and `tree_sizes` have room for one node a word and a stack, and the root. Returns how many nodes.
i64 zs_tree(const u32 *ids, i64 total, const u32 *frame_of, i64 frames, const i64 *starts, const i64 *lengths, const u32 *roots, i64 count,
            i64 room, u32 *tree_frames, u32 *tree_sizes, i64 *leaves) {
    enum { LANES = 16 };
    u64 size = 1 << 16;
    while (size < (u64)total / 2 && size < (1ull << 24)) size <<= 1;
    Edge *slots = edges(size);
    u32 *parents = malloc((u64)room * sizeof *parents), *frame = malloc((u64)room * sizeof *frame);
    u32 *places = NULL;
    i64 nodes = 1, result = NO_MEMORY;
    if (!slots || !parents || !frame || room < 1 || room >= (i64)NOBODY) goto end;
    parents[0] = 0;
    frame[0] = NOBODY;
    result = OUTSIDE;
    i64 lane_stack[LANES], lane_step[LANES], next = 0;
    u32 lane_node[LANES];
    u64 lane_key[LANES];
    for (int lane = 0; lane < LANES; lane++) lane_stack[lane] = -1;
    // Several stacks walk in step, so that their cache misses overlap.
    for (;;) {
        int busy = 0;
        for (int lane = 0; lane < LANES; lane++) {
            while (lane_stack[lane] < 0 || lane_step[lane] > lengths[lane_stack[lane]]) {
                if (lane_stack[lane] >= 0) leaves[lane_stack[lane]] = lane_node[lane];
                lane_stack[lane] = -1;
                if (next >= count) break;
                if (!inside(starts[next], lengths[next], total)) goto end;
                lane_stack[lane] = next++;
                lane_step[lane] = 0;
                lane_node[lane] = 0;
            }
            if (lane_stack[lane] < 0) continue;
            busy = 1;
            u32 wanted = roots[lane_stack[lane]];
            if (lane_step[lane]) {
                u32 id = ids[starts[lane_stack[lane]] + lane_step[lane] - 1];
                if ((i64)id >= frames) goto end;
                wanted = frame_of[id];
            }
            lane_key[lane] = ((u64)lane_node[lane] << 32) | wanted;
            __builtin_prefetch(&slots[mix(lane_key[lane] * 0x9E3779B97F4A7C15ull) & (size - 1)]);
        }
        if (!busy) break;
        for (int lane = 0; lane < LANES; lane++) {
            if (lane_stack[lane] < 0) continue;
            u32 above = (u32)(lane_key[lane] >> 32), wanted = (u32)lane_key[lane];
            Edge *edge = find_edge(slots, size, lane_key[lane]);
            if (edge->node == NOBODY) {
                if (nodes >= room) goto end;
                edge->key = lane_key[lane];
                edge->node = (u32)nodes;
                parents[nodes] = above;
                frame[nodes] = wanted;
                nodes++;
            }
            lane_node[lane] = edge->node;
            lane_step[lane]++;
        }
        if ((u64)(nodes + LANES) * 2 > size) {
            u64 wider = size * 2;
            Edge *fresh = edges(wider);
            if (!fresh) {
                result = NO_MEMORY;
                goto end;
            }
            for (i64 node = 1; node < nodes; node++) {
                u64 key = ((u64)parents[node] << 32) | frame[node];
                Edge *edge = find_edge(fresh, wider, key);
                edge->key = key;
                edge->node = (u32)node;
            }
            free(slots);
            slots = fresh;
            size = wider;
        }
    }
    // Parents were made before their children: sizes backwards, then places forwards.
    places = malloc((u64)nodes * 2 * sizeof *places);
    u32 *sizes = malloc((u64)nodes * sizeof *sizes);
    if (!places || !sizes) {
        free(sizes);
        result = NO_MEMORY;
        goto end;
    }
    for (i64 node = 0; node < nodes; node++) sizes[node] = 1;
    for (i64 node = nodes - 1; node > 0; node--) sizes[parents[node]] += sizes[node];
    u32 *free_from = places + nodes;
    places[0] = 0;
    free_from[0] = 1;
    for (i64 node = 1; node < nodes; node++) {
        places[node] = free_from[parents[node]];
        free_from[parents[node]] += sizes[node];
        free_from[node] = places[node] + 1;
    }
    for (i64 node = 0; node < nodes; node++) {
        tree_frames[places[node]] = frame[node];
        tree_sizes[places[node]] = sizes[node];
    }
    for (i64 stack = 0; stack < count; stack++) leaves[stack] = places[leaves[stack]];
    free(sizes);
    result = nodes;
end:
    free(slots);
    free(parents);
    free(frame);
    free(places);
    return result;
}
