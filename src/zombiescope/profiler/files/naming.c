// SPDX-License-Identifier: Apache-2.0
// What addresses are called, and columns as they are stored. Each function gives what those in Python of the same purpose give.
#include "scanner.h"

#define NO_FUNCTION -4
#define ALL_ZERO -5
#define UNNAMED INT64_MIN

static const u8 *line_end(const u8 *at, const u8 *end) { return at < end ? memchr(at, '\n', (u64)(end - at)) : NULL; }

// The functions of kallsyms by address, each address once with its first name. `starts` and `name_at` have room for one every 20 bytes.
i64 zs_kallsyms(const u8 *text, i64 length, u64 *starts, i64 *name_at) {
    u8 nibbles[256] = {0};
    for (int digit = 0; digit < 10; digit++) nibbles['0' + digit] = (u8)digit;
    for (int digit = 0; digit < 6; digit++) nibbles['a' + digit] = (u8)(10 + digit);
    Keyed *made = malloc(((u64)length / 20 + 1) * 2 * sizeof *made);
    if (!made) return NO_MEMORY;
    i64 count = 0, kept = 0;
    u64 any = 0;
    const u8 *end = text + length, *stop;
    for (const u8 *at = text; (stop = line_end(at, end)); at = stop + 1) {
        if (stop - at <= 19 || at[16] != ' ' || at[18] != ' ' || (at[17] != 'T' && at[17] != 't' && at[17] != 'W' && at[17] != 'w')) continue;
        u64 address = 0;
        for (int digit = 0; digit < 16; digit++) address = address << 4 | nibbles[at[digit]];
        any |= address;
        made[count++] = (Keyed){address, at + 19 - text};
    }
    Keyed *sorted = in_order(made, made + count, count);
    for (i64 i = 0; i < count; i++) {
        if (i && sorted[i].key == sorted[i - 1].key) continue;
        starts[kept] = sorted[i].key;
        name_at[kept++] = sorted[i].place;
    }
    free(made);
    return !count ? NO_FUNCTION : !any ? ALL_ZERO : kept;
}

// Numbers in ascending order for those of `seen` that are set; the first is for what has no name, where there is such.
static i64 numbered(u32 *seen, i64 count, int unnamed, i64 *distinct) {
    i64 found = 0;
    if (unnamed) distinct[found++] = UNNAMED;
    for (i64 i = 0; i < count; i++)
        if (seen[i]) {
            distinct[found] = i;
            seen[i] = (u32)found++;
        }
    return found;
}

// The symbol of each kernel address: of the table, or of what records told of (ascending starts), where the table has none. `symbols`
// of the others stay. `distinct`: which they are, by address: a place in the table, below zero one that was told of. Returns how many.
i64 zs_kernel(const u64 *starts, i64 count, const u64 *told_starts, const u64 *told_lengths, i64 told, const u64 *addresses, i64 pairs,
              u32 *symbols, i64 *distinct) {
    enum { FAR = 1 << 16, BLOCK = 4096 };
    Keyed *all = malloc(((u64)count + (u64)told + 1) * sizeof *all);
    u32 *seen = calloc((u64)count + (u64)told + 1, sizeof *seen);
    i64 known = 0, answer = NO_MEMORY, unnamed = 0;
    if (!all || !seen) goto end;
    for (i64 i = 0, other = 0; i < count || other < told;) {
        if (other < told && (i == count || told_starts[other] < starts[i])) {
            all[known++] = (Keyed){told_starts[other], -1 - other};
            other++;
            continue;
        }
        if (other < told && told_starts[other] == starts[i]) other++;
        all[known++] = (Keyed){starts[i], i};
        i++;
    }
    for (int numbering = 0; numbering < 2; numbering++) {
        for (i64 i = 0; i < pairs; i++) {
            u64 address = addresses[i];
            if (address < FIRST_KERNEL) continue;
            i64 low = 0, high = known;
            while (low < high) {
                i64 middle = (low + high) / 2;
                if (all[middle].key <= address) low = middle + 1;
                else high = middle;
            }
            u64 end = 0;
            if (low) {
                // One with nothing near after it ends with its block: beyond lies no code of its.
                u64 start = all[low - 1].key, next = low < known ? all[low].key : ~0ull;
                i64 mine = all[low - 1].place;
                if (mine < 0) {
                    end = start + told_lengths[-1 - mine];
                    if (end > next) end = next;
                } else
                    end = next - start > FAR ? (start / BLOCK + 2) * BLOCK : next;
            }
            int held = low && address < end;
            if (numbering) {
                symbols[i] = held ? seen[low - 1] : 0;
                continue;
            }
            if (held) seen[low - 1] = 1;
            unnamed |= !held;
        }
        if (!numbering) answer = numbered(seen, known, (int)unnamed, distinct);
    }
    for (i64 i = unnamed; i < answer; i++) distinct[i] = all[distinct[i]].place;
end:
    free(all);
    free(seen);
    return answer;
}

typedef struct {
    // Kept in step with `_shape` in direct_names.py. Places and lengths in bytes, of the file of the table and of the file itself.
    i64 table_at, symbols, strings_at, strings_length;
    i64 stubs_at, stubs, first_stub, dynamic_at, dynamic, dynamic_strings_at;
    i64 go_at, go_length, go_functions, go_begin, go_width, go_names, go_base, go_records;
    i64 may_be_empty;
} Shape;

typedef struct {
    u32 name;
    u8 info, other;
    uint16_t section;
    u64 value, size;
} Symbol;

typedef struct {
    u64 start, size, rank;
    i64 name_at;
    int there, is_stub;
} Candidate;

static i64 first_from(const Keyed *asked, i64 count, u64 start) {
    i64 low = 0, high = count;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (asked[middle].key < start) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Of those that begin between two addresses asked for, the last one; of equal ones the stub, else the one that ranks first.
static void stand(Candidate *there, Candidate one) {
    if (!there->there || one.start > there->start || (one.start == there->start && (one.is_stub || (!there->is_stub && one.rank < there->rank)))) *there = one;
}

// A function, a label without a type where code lies; 0: neither.
static int is_wanted(const Symbol *one, const u8 *code, i64 strings_length) {
    int kind = one->info & 15;
    if (kind != 2 && kind != 10 && (kind != 0 || !code[one->section] || !one->name)) return 0;
    return one->value && one->section && one->name < (strings_length > 1 ? strings_length : 1);
}

static Symbol symbol_at(const u8 *raw, i64 at) {
    Symbol one;
    memcpy(&one, raw + at, sizeof one);
    return one;
}

// Symbols without a size reach to the next one, the last one a block far. 0: no memory.
static int close_open_ones(const u8 *source, const Shape *shape, const u8 *code, Candidate *chosen, i64 count) {
    i64 open = 0;
    Keyed *next = malloc(((u64)count + 1) * sizeof *next);
    if (!next) return 0;
    for (i64 i = 0; i < count; i++)
        if (chosen[i].there && !chosen[i].is_stub && !chosen[i].size && (!open || next[open - 1].key != chosen[i].start)) next[open++] = (Keyed){chosen[i].start, 0};
    for (i64 i = 0; open && i < shape->symbols; i++) {
        Symbol one = symbol_at(source, shape->table_at + i * (i64)sizeof one);
        if (!is_wanted(&one, code, shape->strings_length)) continue;
        i64 before = first_from(next, open, one.value) - 1;
        if (before >= 0 && (!next[before].place || one.value < (u64)next[before].place)) next[before].place = (i64)one.value;
    }
    for (i64 i = 0, at = 0; i < count && open; i++) {
        if (!chosen[i].there || chosen[i].is_stub || chosen[i].size) continue;
        while (next[at].key != chosen[i].start) at++;
        chosen[i].size = !next[at].place ? 4096 : (u64)next[at].place - next[at].key;
    }
    free(next);
    return 1;
}

static u64 number_at(const u8 *at, i64 width) {
    u64 value = 0;
    memcpy(&value, at, (u64)width);
    return value;
}

// The functions of a Go program: where each begins and what tells of it, up to where the last one ends.
static void go_candidates(const u8 *raw, const Shape *shape, const Keyed *asked, i64 count, Candidate *chosen) {
    const u8 *table = raw + shape->go_at, *entries = table + shape->go_begin;
    i64 width = shape->go_width;
    for (i64 i = 0; i < shape->go_functions; i++) {
        i64 start = (i64)number_at(entries + 2 * i * width, width), next = (i64)number_at(entries + (2 * i + 2) * width, width);
        i64 record = (i64)(number_at(entries + (2 * i + 1) * width, width) + (u64)shape->go_records);
        if (record < 0 || record > shape->go_length - width - 4 || start < 0 || next <= start) continue;
        i64 name = (i64)number_at(table + record + width, 4);
        if (name >= shape->go_length - shape->go_names) continue;
        u64 address = (u64)start + (u64)shape->go_base;
        i64 at = first_from(asked, count, address);
        if (at < count) stand(&chosen[at], (Candidate){address, (u64)(next - start), ~(u64)i, name + shape->go_names + shape->go_at, 1, 0});
    }
}

static int go_fits(const Shape *shape, i64 length) {
    if (!shape->go_functions) return 1;
    if ((shape->go_width != 4 && shape->go_width != 8) || !inside(shape->go_at, shape->go_length, length)) return 0;
    if (shape->go_functions < 0 || shape->go_functions > shape->go_length / 8 || shape->go_names < 0 || shape->go_records < 0) return 0;
    return inside(shape->go_begin, (2 * shape->go_functions + 1) * shape->go_width, shape->go_length);
}

static i64 candidates(const u8 *raw, const u8 *source, const Shape *shape, const u8 *code, const Keyed *asked, i64 count, Candidate *chosen) {
    i64 wanted = 0;
    for (i64 i = 0; i < shape->symbols; i++) {
        Symbol one = symbol_at(source, shape->table_at + i * (i64)sizeof one);
        if (!is_wanted(&one, code, shape->strings_length)) continue;
        wanted++;
        i64 at = first_from(asked, count, one.value);
        if (at == count) continue;
        u64 binding = one.info >> 4, rank = binding == 1 ? 0 : binding == 2 ? 1 : 2;
        stand(&chosen[at], (Candidate){one.value, one.size, rank << 40 | (u64)i, one.name + shape->strings_at, 1, 0});
    }
    go_candidates(raw, shape, asked, count, chosen);
    for (i64 i = 0; i < shape->stubs; i++) {
        u64 info;
        memcpy(&info, raw + shape->stubs_at + i * 24 + 8, sizeof info);
        i64 number = (i64)(info >> 32);
        if (number <= 0 || number >= shape->dynamic) continue;
        u64 start = (u64)shape->first_stub + (u64)i * 16;
        i64 at = first_from(asked, count, start);
        if (at == count) continue;
        Symbol one = symbol_at(raw, shape->dynamic_at + number * (i64)sizeof one);
        stand(&chosen[at], (Candidate){start, 16, 0, -1 - (shape->dynamic_strings_at + (i64)one.name), 1, 1});
    }
    for (i64 i = 1; i < count; i++)
        if (!chosen[i].there) chosen[i] = chosen[i - 1];
    return close_open_ones(source, shape, code, chosen, count) ? wanted : NO_MEMORY;
}

static u64 address_of(u64 offset, const u64 *loads, i64 count) {
    u64 address = offset;
    for (i64 i = 0; i < count; i++)
        if (offset - loads[i * 3] < loads[i * 3 + 2]) address = offset - loads[i * 3] + loads[i * 3 + 1]; // those before it are far beyond it here
    return address;
}

// The function at each offset of a file: `symbols` into `names_at`, by address, first that of those without one. A place below zero is
// the name of a stub in the file itself. NO_FUNCTION where the table has none at all. Returns how many.
i64 zs_elf(const u8 *raw, i64 raw_length, const u8 *source, i64 source_length, const Shape *shape, const u8 *code, const u64 *loads, i64 load_count,
           const u64 *offsets, i64 count, u32 *symbols, i64 *names_at) {
    if (shape->symbols > source_length / 24 || !inside(shape->table_at, shape->symbols * 24, source_length)) return OUTSIDE;
    if (shape->stubs > raw_length / 24 || !inside(shape->stubs_at, shape->stubs * 24, raw_length)) return OUTSIDE;
    if (shape->dynamic > raw_length / 24 || !inside(shape->dynamic_at, shape->dynamic * 24, raw_length)) return OUTSIDE;
    if (!go_fits(shape, raw_length)) return OUTSIDE;
    Keyed *made = malloc(((u64)count + 1) * 2 * sizeof *made);
    Candidate *chosen = calloc((u64)count + 1, sizeof *chosen);
    i64 answer = NO_MEMORY;
    if (!made || !chosen) goto end;
    for (i64 i = 0; i < count; i++) made[i] = (Keyed){address_of(offsets[i], loads, load_count), i};
    const Keyed *asked = in_order(made, made + count, count);
    i64 wanted = candidates(raw, source, shape, code, asked, count, chosen), found = 0;
    answer = wanted < 0 ? NO_MEMORY : NO_FUNCTION;
    if (wanted < 0 || (!wanted && !shape->may_be_empty)) goto end;
    for (i64 i = 0; i < count; i++) {
        chosen[i].there = chosen[i].there && asked[i].key < chosen[i].start + chosen[i].size;
        if (!chosen[i].there) found = 1;
    }
    if (found) names_at[0] = UNNAMED;
    const Candidate *before = NULL;
    for (i64 i = 0; i < count; i++) {
        const Candidate *mine = &chosen[i];
        symbols[asked[i].place] = 0;
        if (!mine->there) continue;
        if (!before || before->start != mine->start || before->is_stub != mine->is_stub) names_at[found++] = mine->name_at;
        symbols[asked[i].place] = (u32)found - 1;
        before = mine;
    }
    answer = found;
end:
    free(made);
    free(chosen);
    return answer;
}

// Places by group, in the order they came; those below zero are left out. `begins` has room for one more than there are groups.
void zs_grouped(const i64 *group, i64 count, i64 groups, i64 *begins, i64 *places) {
    memset(begins, 0, (u64)(groups + 1) * sizeof *begins);
    for (i64 i = 0; i < count; i++)
        if (group[i] >= 0) begins[group[i] + 1]++;
    for (i64 i = 0; i < groups; i++) begins[i + 1] += begins[i];
    for (i64 i = 0; i < count; i++)
        if (group[i] >= 0) places[begins[group[i]]++] = i;
    for (i64 i = groups; i > 0; i--) begins[i] = begins[i - 1];
    begins[0] = 0;
}

// What of all addresses a group has.
void zs_gather(const u64 *values, const i64 *places, i64 count, u64 *out) {
    for (i64 i = 0; i < count; i++) out[i] = values[places[i]];
}

// The frame of each place, by the number of its symbol. Without places: of every kernel address.
i64 zs_assign(u32 *frames, const u64 *addresses, const i64 *places, const u32 *symbols, i64 count, const u32 *numbers, i64 known) {
    for (i64 i = 0; i < count; i++) {
        if (!places && addresses[i] < FIRST_KERNEL) continue;
        if (symbols[i] >= known) return OUTSIDE;
        frames[places ? places[i] : i] = numbers[symbols[i]];
    }
    return 0;
}

// Each sample's node, whether its core idled, and its core as it is stored; `cores` (65,536 bytes) are set where there are samples.
i64 zs_rows(const i64 *stacks, const i64 *leaves, i64 stack_count, const u32 *tree_frames, i64 nodes, const u8 *is_idle, i64 frames, const u32 *pid,
            const u32 *cpu, i64 rows, u32 *node, u8 *idle, uint16_t *core, u8 *cores) {
    for (i64 i = 0; i < rows; i++) {
        if (stacks[i] < 0 || stacks[i] >= stack_count || leaves[stacks[i]] < 0 || leaves[stacks[i]] >= nodes) return OUTSIDE;
        node[i] = (u32)leaves[stacks[i]];
        u32 frame = tree_frames[node[i]];
        idle[i] = !pid[i] && frame < frames && is_idle[frame];
        core[i] = (uint16_t)(cpu[i] < 65535 ? cpu[i] : 65535);
        cores[core[i]] = 1;
    }
    return 0;
}

// One number for who ran, from thread and name.
void zs_keys(const i64 *thread, const u32 *comm, i64 rows, u64 *keys) {
    for (i64 i = 0; i < rows; i++) keys[i] = (u64)thread[i] << 32 | comm[i];
}

void zs_thread_keys(const u32 *pid, const u32 *tid, i64 rows, u64 *keys) {
    for (i64 i = 0; i < rows; i++) keys[i] = (u64)tid[i] << 32 | pid[i];
}

// A column of 4 bytes at some rows.
void zs_pick(const u32 *column, const i64 *rows, i64 count, u32 *out) {
    for (i64 i = 0; i < count; i++) out[i] = column[rows[i]];
}

// For every node 0 for a leaf, else 1 and the nodes below that are not below its first child.
void zs_rests(const u32 *sizes, i64 count, u32 *out) {
    for (i64 i = 0; i < count; i++) out[i] = sizes[i] - (sizes[i] > 1 && i + 1 < count ? sizes[i + 1] : 1);
}

static inline u64 value_at(const void *values, i64 width, i64 i) {
    return width == 8 ? ((const u64 *)values)[i] : width == 4 ? ((const u32 *)values)[i] : width == 2 ? ((const uint16_t *)values)[i] : ((const u8 *)values)[i];
}

static inline u64 told_at(const void *values, i64 width, int ascends, i64 i) {
    return ascends ? ((const u64 *)values)[i] - ((const u64 *)values)[i - 1] : value_at(values, width, i);
}

// Inlined for each width: with that a constant the loops take many rows at once.
static inline __attribute__((always_inline)) i64 split(const void *values, i64 width, i64 rows, int ascends, u8 *out) {
    u64 bits = 0;
    for (i64 i = ascends; i < rows; i++) bits |= told_at(values, width, ascends, i);
    i64 narrow = bits < 1 << 8 ? 1 : bits < 1 << 16 ? 2 : bits < 1ull << 32 ? 4 : 8;
    for (i64 plane = 0; plane < narrow; plane++, out += rows) {
        if (ascends && rows) out[0] = 0;
        for (i64 i = ascends; i < rows; i++) out[i] = (u8)(told_at(values, width, ascends, i) >> (8 * plane));
    }
    return narrow;
}

// A column as planes of bytes, the lowest first, as narrow as its largest number allows; with `ascends`, of the differences, the first of
// which is 0, of numbers of 8 bytes. `out` has room for 8 bytes a row, `counts` for 256 numbers a plane: what bytes its middle has.
// Returns the width.
i64 zs_planes(const void *values, i64 width, i64 rows, int ascends, i64 probed, u8 *out, u32 *counts) {
    i64 narrow = ascends      ? split(values, 8, rows, 1, out)
                 : width == 8 ? split(values, 8, rows, 0, out)
                 : width == 4 ? split(values, 4, rows, 0, out)
                 : width == 2 ? split(values, 2, rows, 0, out)
                              : split(values, 1, rows, 0, out);
    i64 middle = rows > probed ? (rows - probed) / 2 : 0, some = rows < probed ? rows : probed;
    memset(counts, 0, 8 * 256 * sizeof *counts);
    for (i64 plane = 0; plane < narrow; plane++)
        for (i64 i = 0; i < some; i++) counts[plane * 256 + out[plane * rows + middle + i]]++;
    return narrow;
}

// What the distinct stacks have of the samples that they were first seen with.
void zs_chosen(const i64 *chain_at, const i64 *chain_words, const i64 *owner, const u32 *comm, const i64 *rows, i64 count, i64 *starts, i64 *lengths,
               i64 *owners, u32 *comms) {
    for (i64 i = 0; i < count; i++) {
        starts[i] = chain_at[rows[i]];
        lengths[i] = chain_words[rows[i]];
        owners[i] = owner[rows[i]];
        comms[i] = comm[rows[i]];
    }
}

i64 zs_total(const i64 *lengths, i64 count) {
    i64 total = 0;
    for (i64 i = 0; i < count; i++) total += lengths[i];
    return total;
}

// The frame of each name.
void zs_roots(const u32 *comms, i64 count, const u32 *frames, u32 *roots) {
    for (i64 i = 0; i < count; i++) roots[i] = frames[comms[i]];
}
