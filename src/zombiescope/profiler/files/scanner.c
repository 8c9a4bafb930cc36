// SPDX-License-Identifier: Apache-2.0
// The steps of an import that touch every record or every word of every stack, with loops instead of array operations.
// Plain C99, no dependencies, loaded with ctypes. Every index that comes from a file is checked before it is used;
// every failure is a negative return: -1 no memory, -2 a place outside of the data.
#include "scanner.h"

#define FIRST_MARKER (0xFFFFFFFFFFFFFFFFull - 4094)

// No file can make a table slow: what is not found within so many slots is a kind of its own. Numbers need not be the fewest, only
// right; the tree makes equal stacks one again. A table at most half full of honest keys has runs of some forty.
#define MOST_PROBES 256

int zs_version(void) { return 5; }

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

// From record to record. `samples` has room for one every `least` words, `others` for one a word. Stops at what makes no sense or is
// compressed; `told[0]` is the place, beyond `total` when the last record is said to go on, `told[1]` how many others there are.
// Returns how many samples.
i64 zs_walk(const u64 *words, i64 total, i64 least, i64 *samples, i64 *others, i64 *told) {
    enum { SAMPLE = 9, TRACING_DATA = 66, AUXTRACE = 71, COMPRESSED = 81, COMPRESSED2 = 83 };
    i64 at = 0, found = 0, rest = 0;
    if (least < 1) return OUTSIDE;
    while (at < total) {
        u64 header = words[at], kind = header & 0xFFFFFFFFu, size = header >> 48;
        i64 length = (i64)(size >> 3);
        if (kind == COMPRESSED || kind == COMPRESSED2 || size < 8 || size & 7 || length > total - at) break;
        if (kind == SAMPLE) {
            if (length < least) break;
            samples[found++] = at;
            at += length;
            continue;
        }
        others[rest++] = at;
        u64 beyond = 0;
        if (at + 1 < total && kind == AUXTRACE) beyond = words[at + 1] >> 3;
        if (at + 1 < total && kind == TRACING_DATA) beyond = ((words[at + 1] & 0xFFFFFFFFu) + 7) >> 3;
        at += length + (i64)beyond;
    }
    told[0] = at;
    told[1] = rest;
    return found;
}

typedef struct {
    // The word of each field in a sample of this event, or -1. Kept in step with `_layout` in scanner.py.
    i64 least, ip, tid, time, cpu, chain, group_before, group_each, cgroup_after;
} Layout;

// One row a sample whose lengths can be; `chain_at` and `chain_words` say where its stack lies. Returns how many rows.
i64 zs_columns(const u64 *words, i64 total, const i64 *places, i64 count, const Layout *layout, u64 *time, u32 *cpu, u32 *pid, u32 *tid,
               uint8_t *mode, u64 *cgroup, i64 *chain_at, i64 *chain_words) {
    const i64 fields[] = {layout->ip, layout->tid, layout->time, layout->cpu, layout->chain};
    i64 rows = 0;
    for (u64 i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i] >= layout->least) return OUTSIDE;
    for (i64 i = 0; i < count; i++) {
        i64 at = places[i];
        if (!inside(at, 1, total)) return OUTSIDE;
        i64 size = (i64)(words[at] >> 51), end = at + size;
        if (!inside(at, size, total)) return OUTSIDE;
        if (size < layout->least) continue;
        i64 chain = at, length = 0;
        if (layout->chain >= 0) {
            i64 counted = at + layout->chain;
            if (layout->group_each > 0) {
                u64 counters = words[counted] < 8192 ? words[counted] : 8192;
                counted += layout->group_before + (i64)counters * layout->group_each;
            }
            if (counted >= end) continue;
            chain = counted + 1;
            if (words[counted] > (u64)(end - chain)) continue;
            length = (i64)words[counted];
        } else if (layout->ip >= 0) {
            chain = at + layout->ip;
            length = 1;
        }
        u64 thread = layout->tid >= 0 ? words[at + layout->tid] : 0;
        i64 group = layout->cgroup_after >= 0 ? chain + length + layout->cgroup_after : end;
        time[rows] = layout->time >= 0 ? words[at + layout->time] : 0;
        cpu[rows] = layout->cpu >= 0 ? (u32)words[at + layout->cpu] : 0;
        pid[rows] = (u32)thread;
        tid[rows] = (u32)(thread >> 32);
        mode[rows] = (words[at] >> 32) & 7;
        cgroup[rows] = group < end ? words[group] : 0;
        chain_at[rows] = chain;
        chain_words[rows] = length;
        rows++;
    }
    return rows;
}

// Equal keys to one id; `chosen[id]` is the first place of its kind. Returns how many kinds there are.
i64 zs_numbers(const u64 *keys, i64 count, i64 *ids, i64 *chosen) {
    u64 size = table_size(count < 1 << 16 ? count : 1 << 16);
    u32 *slots = malloc(size * sizeof *slots);
    i64 kinds = 0;
    if (count >= (i64)1 << 30) return free(slots), OUTSIDE;
    if (!slots) return NO_MEMORY;
    memset(slots, 0xff, size * sizeof *slots);
    for (i64 i = 0; i < count; i++) {
        u64 slot = mix(keys[i] * 0x9E3779B97F4A7C15ull) & (size - 1);
        int probes = 0;
        while (slots[slot] != NOBODY && keys[chosen[slots[slot]]] != keys[i] && ++probes < MOST_PROBES) slot = (slot + 1) & (size - 1);
        if (slots[slot] == NOBODY) slots[slot] = (u32)kinds;
        if (probes == MOST_PROBES || slots[slot] == (u32)kinds) {
            ids[i] = kinds;
            chosen[kinds++] = i;
        } else
            ids[i] = slots[slot];
        if ((u64)kinds * 2 <= size) continue;
        free(slots);
        size *= 4;
        slots = malloc(size * sizeof *slots);
        if (!slots) return NO_MEMORY;
        memset(slots, 0xff, size * sizeof *slots);
        for (i64 id = 0; id < kinds; id++) {
            u64 place = mix(keys[chosen[id]] * 0x9E3779B97F4A7C15ull) & (size - 1);
            int probes = 0;
            while (slots[place] != NOBODY && ++probes < MOST_PROBES) place = (place + 1) & (size - 1);
            if (slots[place] == NOBODY) slots[place] = (u32)id;
        }
    }
    free(slots);
    return kinds;
}

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
            for (int probes = 1;; slot = (slot + 1) & (size - 1), probes++) {
                u32 id = slots[slot];
                if (id == NOBODY || probes > MOST_PROBES) {
                    if (id == NOBODY) slots[slot] = (u32)kinds;
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
    u64 address;
    u32 owner, id; // both in the slot: a lookup touches one line
} Pair;

static Pair *pairs_of(u64 size) {
    Pair *made = malloc(size * sizeof *made);
    if (made)
        for (u64 slot = 0; slot < size; slot++) made[slot].id = NOBODY;
    return made;
}

static inline u64 first_slot(u64 address, u32 owner, int bits) {
    return ((address ^ (u64)owner << 40) * 0x9E3779B97F4A7C15ull) >> (64 - bits);
}

// Its slot or a free one; NULL where it met strangers only.
static inline Pair *find_pair(Pair *slots, int bits, u64 slot, u64 address, u32 owner) {
    u64 last = (1ull << bits) - 1;
    for (int probes = 0; probes < MOST_PROBES; probes++, slot = (slot + 1) & last)
        if (slots[slot].id == NOBODY || (slots[slot].address == address && slots[slot].owner == owner)) return &slots[slot];
    return NULL;
}

static Pair *wider(Pair *slots, int bits) {
    Pair *made = pairs_of(2ull << bits);
    for (u64 slot = 0; made && slot < 1ull << bits; slot++) {
        Pair *one = &slots[slot];
        if (one->id == NOBODY) continue;
        Pair *found = find_pair(made, bits + 1, first_slot(one->address, one->owner, bits + 1), one->address, one->owner);
        if (found) *found = *one;
    }
    free(slots);
    return made;
}

// Stacks leaf first to ids of distinct (address, owner) pairs root first, without the marker words. `callers`: an address that a
// call returns to becomes the one before it. A word before and one after each stack stay free. `addresses` and `owners` have room for
// every word, `ids` also for the free ones. Returns how many pairs.
i64 zs_addresses(const u64 *words, i64 total, const i64 *starts, const i64 *lengths, const i64 *stack_owners, i64 count, int callers,
                 u32 *ids, i64 *new_starts, i64 *new_lengths, u64 *addresses, i64 *owners) {
    enum { BATCH = 64, RECENT = 16 };
    int bits = 12;
    i64 recent[RECENT]; // the last stack of each few owners: the outer frames of the next one are mostly the same
    memset(recent, 0xff, sizeof recent);
    Pair *slots = pairs_of(1ull << bits);
    i64 pairs = 0, at = 0, held = 0; // of the pairs, those in the table
    if (!slots) return NO_MEMORY;
    for (i64 stack = 0; stack < count; stack++) {
        i64 owner = stack_owners[stack];
        if (!inside(starts[stack], lengths[stack], total) || owner < -1 || owner >= (i64)NOBODY || pairs >= (i64)NOBODY) {
            free(slots);
            return OUTSIDE;
        }
        const u64 *chain = words + starts[stack];
        new_starts[stack] = ++at;
        i64 left = lengths[stack], like = recent[owner & (RECENT - 1)];
        recent[owner & (RECENT - 1)] = stack;
        if (like >= 0 && stack_owners[like] == owner) {
            const u64 *other = words + starts[like] + lengths[like];
            i64 most = left < lengths[like] ? left : lengths[like], same = 0, known = 0;
            while (same < most && chain[left - 1 - same] == other[-1 - same]) known += other[-1 - same++] < FIRST_MARKER;
            // What the innermost of them becomes, depends on the word before it.
            if (same) known -= other[-same--] < FIRST_MARKER;
            memcpy(ids + at, ids + new_starts[like], (u64)known * sizeof *ids);
            at += known;
            left -= same;
        }
        while (left > 0) {
            u64 wanted[BATCH], places[BATCH];
            int some = 0;
            for (; left > 0 && some < BATCH; left--) {
                u64 address = chain[left - 1];
                if (address >= FIRST_MARKER) continue;
                if (callers && left > 1 && chain[left - 2] < FIRST_MARKER && address) address--;
                u32 whose = address >= FIRST_KERNEL ? NOBODY : (u32)owner;
                places[some] = first_slot(address, whose, bits);
                __builtin_prefetch(&slots[places[some]]);
                wanted[some++] = address;
            }
            for (int i = 0; i < some; i++) {
                u32 whose = wanted[i] >= FIRST_KERNEL ? NOBODY : (u32)owner;
                Pair *found = find_pair(slots, bits, places[i], wanted[i], whose);
                ids[at++] = found && found->id != NOBODY ? found->id : (u32)pairs;
                if (found && found->id != NOBODY) continue;
                if (found) *found = (Pair){wanted[i], whose, (u32)pairs}, held++;
                addresses[pairs] = wanted[i];
                owners[pairs] = whose == NOBODY ? -1 : (i64)whose;
                pairs++;
            }
            if ((u64)(held + BATCH) * 2 > 1ull << bits) {
                slots = wider(slots, bits++);
                if (!slots) return NO_MEMORY;
            }
        }
        new_lengths[stack] = at++ - new_starts[stack];
    }
    free(slots);
    return pairs;
}

typedef struct {
    u64 key;       // the next frames, zero where the stack has ended
    u32 at, stack; // where in `frames` the key is from
} Item;

typedef struct {
    i64 first, count;
} Part;

typedef struct {
    u32 *frames; // of all stacks, each with its root first and a zero last; one more than the frame, which is never zero so
    Item *items;
    Part *parts; // still to be sorted
    i64 waiting, room;
    int bits, each; // of a frame in a key, and how many frames a key holds
} Sorting;

static inline u64 key_at(const Sorting *all, u32 at) {
    u64 key = 0;
    int left = all->each;
    for (; left && all->frames[at]; left--) key = key << all->bits | all->frames[at++];
    return left == all->each ? 0 : key << (left * all->bits);
}

static inline int goes_on(const Sorting *all, u64 key) { return (key & ((1ull << all->bits) - 1)) != 0; }

static int later(Sorting *all, i64 first, i64 count) {
    if (count < 2) return 1;
    if (all->waiting == all->room) {
        Part *more = realloc(all->parts, (u64)all->room * 2 * sizeof *more);
        if (!more) return 0;
        all->parts = more;
        all->room *= 2;
    }
    all->parts[all->waiting++] = (Part){first, count};
    return 1;
}

static int comes_before(const Sorting *all, Item one, Item other) {
    while (one.key == other.key && goes_on(all, one.key)) {
        one.key = key_at(all, one.at += (u32)all->each);
        other.key = key_at(all, other.at += (u32)all->each);
    }
    return one.key < other.key;
}

static void insert_all(const Sorting *all, Item *items, i64 count) {
    for (i64 i = 1; i < count; i++) {
        Item moved = items[i];
        i64 to = i;
        for (; to > 0 && comes_before(all, moved, items[to - 1]); to--) items[to] = items[to - 1];
        items[to] = moved;
    }
}

// Stacks in the order of their frames, a few frames at a time: three parts around a key drawn at random, so that no file can choose
// the slow case; the middle one goes on with the frames after.
static int sort_stacks(Sorting *all, i64 count) {
    enum { FEW = 12, AHEAD = 8 };
    u64 dice = 0x9E3779B97F4A7C15ull ^ (u64)(uintptr_t)all->items; // where the kernel put it, no file knows
    if (!later(all, 0, count)) return 0;
    while (all->waiting) {
        Part part = all->parts[--all->waiting];
        Item *items = all->items + part.first;
        if (part.count <= FEW) {
            insert_all(all, items, part.count);
            continue;
        }
        dice = mix(dice + 0x165667B19E3779F9ull);
        u64 pivot = items[dice % (u64)part.count].key;
        i64 low = 0, high = part.count, i = 0;
        while (i < high) {
            Item item = items[i];
            if (item.key < pivot) {
                items[i++] = items[low];
                items[low++] = item;
            } else if (item.key > pivot) {
                items[i] = items[--high];
                items[high] = item;
            } else
                i++;
        }
        if (!later(all, part.first, low) || !later(all, part.first + high, part.count - high)) return 0;
        if (!goes_on(all, pivot)) continue; // they end here: they are equal
        for (i = low; i < high; i++) {
            if (i + AHEAD < high) __builtin_prefetch(&all->frames[items[i + AHEAD].at + (u32)all->each]);
            items[i].key = key_at(all, items[i].at += (u32)all->each);
        }
        if (!later(all, part.first + low, high - low)) return 0;
    }
    return 1;
}

// Each stack adds the frames in which it differs from the one before; a node's size is known when the first stack without it comes.
static i64 lay_out(const Sorting *all, const i64 *starts, i64 count, i64 *open, i64 room, u32 *tree_frames, u32 *tree_sizes, i64 *leaves) {
    enum { AHEAD = 6 };
    static const u32 nothing;
    const u32 *before = &nothing;
    i64 nodes = 1, depth = 0;
    open[0] = 0;
    tree_frames[0] = NOBODY;
    for (i64 i = 0; i < count; i++) {
        if (i + AHEAD < count) __builtin_prefetch(&all->frames[starts[all->items[i + AHEAD].stack] - 1]);
        u32 stack = all->items[i].stack;
        const u32 *frames = all->frames + starts[stack] - 1;
        i64 shared = 0;
        while (before[shared] && before[shared] == frames[shared]) shared++;
        for (; depth > shared; depth--) tree_sizes[open[depth]] = (u32)(nodes - open[depth]);
        for (; frames[depth]; nodes++) {
            if (nodes >= room) return OUTSIDE;
            tree_frames[nodes] = frames[depth] - 1;
            open[++depth] = nodes;
        }
        leaves[stack] = open[depth];
        before = frames;
    }
    for (; depth >= 0; depth--) tree_sizes[open[depth]] = (u32)(nodes - open[depth]);
    return nodes;
}

// The tree of all stacks in preorder: a node's children follow it. `frame_of` names the ids; `roots` the outermost frame of each
// stack. The ids become frames where they are: before each stack is room for its root, after it for its end. `tree_frames` and
// `tree_sizes` have room for one node a word and a stack, and the root. Returns how many nodes.
i64 zs_tree(u32 *ids, i64 total, const u32 *frame_of, i64 frames, const i64 *starts, const i64 *lengths, const u32 *roots, i64 count,
            i64 room, u32 *tree_frames, u32 *tree_sizes, i64 *leaves) {
    i64 words = 0, deepest = 0, result = OUTSIDE;
    if (count < 0 || room < 1 || room >= (i64)NOBODY / 2 || count > room || total >= (i64)NOBODY) return OUTSIDE;
    for (i64 stack = 0; stack < count; stack++) {
        if (starts[stack] < 1 || lengths[stack] >= room - words || !inside(starts[stack], lengths[stack], total - 1)) return OUTSIDE;
        words += lengths[stack] + 1;
        if (lengths[stack] > deepest) deepest = lengths[stack];
    }
    Sorting all = {.frames = ids, .room = 64};
    all.items = malloc((u64)(count + 1) * sizeof *all.items);
    all.parts = malloc((u64)all.room * sizeof *all.parts);
    i64 *open = malloc((u64)(deepest + 3) * sizeof *open);
    u32 largest = 0;
    if (!all.items || !all.parts || !open) {
        result = NO_MEMORY;
        goto end;
    }
    for (i64 id = 0; id < frames; id++) largest = frame_of[id] > largest ? frame_of[id] : largest;
    for (i64 stack = 0; stack < count; stack++) {
        u32 *stacks = ids + starts[stack];
        largest = roots[stack] > largest ? roots[stack] : largest;
        stacks[-1] = roots[stack] + 1;
        for (i64 i = 0; i < lengths[stack]; i++) {
            if ((i64)stacks[i] >= frames) goto end;
            stacks[i] = frame_of[stacks[i]] + 1;
        }
        stacks[lengths[stack]] = 0;
    }
    if (largest == NOBODY) goto end;
    all.bits = largest < 0xFFFF ? 16 : 32;
    all.each = 64 / all.bits;
    for (i64 stack = 0; stack < count; stack++) all.items[stack] = (Item){key_at(&all, (u32)starts[stack] - 1), (u32)starts[stack] - 1, (u32)stack};
    result = sort_stacks(&all, count) ? lay_out(&all, starts, count, open, room, tree_frames, tree_sizes, leaves) : NO_MEMORY;
end:
    free(all.items);
    free(all.parts);
    free(open);
    return result;
}
