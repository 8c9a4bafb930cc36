// SPDX-License-Identifier: Apache-2.0
// Whose each sample is: the order of samples, and names, forks and maps replayed by time. Each function gives what those in Python of
// the same purpose give, and is here so that an import needs no numpy; what is rare or odd in a file is UNUSUAL, and left to them.
// Every place that comes from a file is checked before it is used.
#include "scanner.h"

// The places of samples, in place, by time; UNUSUAL where they are not all of one event. `ids` ascend; one that is not among them is
// the first event's. A word of -1: there is none. Returns the event.
i64 zs_by_time(const u64 *words, i64 total, i64 *places, i64 count, i64 time_word, i64 id_word, const u64 *ids, const i64 *events, i64 known) {
    i64 event = 0;
    for (i64 i = 0; i < count; i++)
        if (!inside(places[i], 1, total)) return OUTSIDE;
    for (i64 i = 0; id_word >= 0 && i < count; i++) {
        u64 id = words[places[i] + id_word < total ? places[i] + id_word : total - 1];
        i64 low = 0, high = known;
        while (low < high) {
            i64 middle = (low + high) / 2;
            if (ids[middle] < id) low = middle + 1;
            else high = middle;
        }
        i64 mine = low < known && ids[low] == id ? events[low] : 0;
        if (i && mine != event) return UNUSUAL;
        event = mine;
    }
    if (time_word < 0 || count < 2) return event;
    Keyed *made = malloc((u64)count * 2 * sizeof *made);
    if (!made) return NO_MEMORY;
    for (i64 i = 0; i < count; i++) {
        i64 at = places[i] + time_word;
        made[i] = (Keyed){words[at < total ? at : total - 1], places[i]};
    }
    Keyed *sorted = in_order(made, made + count, count);
    for (i64 i = 0; i < count; i++) places[i] = sorted[i].place;
    free(made);
    return event;
}

// Texts of the file by number, each once: a name, or a path and the build id of what lies there.
typedef struct {
    i64 at, length, id_at, id_length;
} Text;

typedef struct {
    Text *all;
    u32 *slots;
    i64 count, room;
    u64 size, salt; // the salt is where the kernel put us, which no file knows: none can make the table slow
} Texts;

typedef struct {
    u64 time;
    i64 value;
    u32 next;
} Moment;

// From when on a process or thread had which value. Owners are in the order in which they came.
typedef struct {
    u32 owner, first, last;
} History;

typedef struct {
    History *all;
    u32 *slots;
    Moment *moments;
    i64 count, room, told, told_room;
    u64 size, salt;
} Histories;

typedef struct {
    u64 start, length, offset;
    u32 file;
} Map;

typedef struct {
    u32 pid, count;
    u32 *maps; // by start address; none overlaps another
} Space;

typedef struct {
    const u8 *bytes;
    Texts names, files;
    Histories since, named;
    Map *maps;
    Space *spaces;
    i64 map_count, map_room, space_count, space_room, work;
} Followed;

// Room for one more, or 0. What is taken doubles.
static int roomy(void **all, i64 *room, i64 count, u64 each) {
    if (count < *room) return 1;
    i64 wanted = *room ? *room * 2 : 256;
    void *more = realloc(*all, (u64)wanted * each);
    if (!more) return 0;
    *all = more;
    *room = wanted;
    return 1;
}

static int wider_slots(u32 **slots, u64 *size, u64 *salt) {
    u64 wanted = *size ? *size * 4 : 1024;
    u32 *more = malloc(wanted * sizeof *more);
    if (!more) return 0;
    memset(more, 0xff, wanted * sizeof *more);
    free(*slots);
    *slots = more;
    *size = wanted;
    *salt = mix(*salt ^ 0x9E3779B97F4A7C15ull * (u64)(uintptr_t)more);
    return 1;
}

static u64 hash_bytes(const u8 *bytes, i64 length, u64 hash) {
    for (; length >= 8; length -= 8, bytes += 8) {
        u64 word;
        memcpy(&word, bytes, 8);
        hash = mix((hash ^ word) * 0xff51afd7ed558ccdull);
    }
    for (; length > 0; length--) hash = (hash ^ *bytes++) * 0xc4ceb9fe1a85ec53ull;
    return mix(hash);
}

static u64 text_slot(const Followed *all, const Texts *texts, Text one) {
    u64 hash = hash_bytes(all->bytes + one.at, one.length, texts->salt + (u64)one.length);
    return hash_bytes(all->bytes + one.id_at, one.id_length, hash) & (texts->size - 1);
}

static i64 number_of(const Followed *all, Texts *texts, Text one) {
    if ((u64)texts->count * 2 >= texts->size) {
        if (!wider_slots(&texts->slots, &texts->size, &texts->salt)) return NO_MEMORY;
        for (i64 i = 0; i < texts->count; i++) {
            u64 slot = text_slot(all, texts, texts->all[i]);
            while (texts->slots[slot] != NOBODY) slot = (slot + 1) & (texts->size - 1);
            texts->slots[slot] = (u32)i;
        }
    }
    u64 slot = text_slot(all, texts, one);
    for (; texts->slots[slot] != NOBODY; slot = (slot + 1) & (texts->size - 1)) {
        const Text *other = &texts->all[texts->slots[slot]];
        if (other->length == one.length && other->id_length == one.id_length && !memcmp(all->bytes + other->at, all->bytes + one.at, (u64)one.length) &&
            !memcmp(all->bytes + other->id_at, all->bytes + one.id_at, (u64)one.id_length))
            return texts->slots[slot];
    }
    if (!roomy((void **)&texts->all, &texts->room, texts->count, sizeof *texts->all)) return NO_MEMORY;
    texts->slots[slot] = (u32)texts->count;
    texts->all[texts->count] = one;
    return texts->count++;
}

static u64 history_slot(const Histories *some, u32 owner) {
    u64 slot = mix((owner + some->salt) * 0x9E3779B97F4A7C15ull) & (some->size - 1);
    while (some->slots[slot] != NOBODY && some->all[some->slots[slot]].owner != owner) slot = (slot + 1) & (some->size - 1);
    return slot;
}

static const History *history_of(const Histories *some, u32 owner) {
    u32 found = some->size ? some->slots[history_slot(some, owner)] : NOBODY;
    return found == NOBODY ? NULL : &some->all[found];
}

static int told_of(Histories *some, u32 owner, u64 time, i64 value) {
    if ((u64)some->count * 2 >= some->size) {
        if (!wider_slots(&some->slots, &some->size, &some->salt)) return 0;
        for (i64 i = 0; i < some->count; i++) some->slots[history_slot(some, some->all[i].owner)] = (u32)i;
    }
    if (!roomy((void **)&some->moments, &some->told_room, some->told, sizeof *some->moments)) return 0;
    u32 moment = (u32)some->told++;
    some->moments[moment] = (Moment){time, value, NOBODY};
    u64 slot = history_slot(some, owner);
    if (some->slots[slot] != NOBODY) {
        History *mine = &some->all[some->slots[slot]];
        some->moments[mine->last].next = moment;
        mine->last = moment;
        return 1;
    }
    if (!roomy((void **)&some->all, &some->room, some->count, sizeof *some->all)) return 0;
    some->slots[slot] = (u32)some->count;
    some->all[some->count++] = (History){owner, moment, moment};
    return 1;
}

enum { MOST_SPACES = 200000, MOST_MAPS = 65536, MOST_WORK = 1 << 28 };
// Maps that are copied, moved or compared, in all: no file keeps us here, where no signal is heard, for long.

// The space that a process has now, or -1.
static i64 space_of(const Followed *all, u32 pid) {
    const History *mine = history_of(&all->since, pid);
    return mine ? all->since.moments[mine->last].value : -1;
}

// With the maps of another space, unless that is -1. None begins where there are too many.
static int begin_space(Followed *all, u32 pid, u64 time, i64 from) {
    if (all->space_count >= MOST_SPACES) return 1;
    if (!roomy((void **)&all->spaces, &all->space_room, all->space_count, sizeof *all->spaces)) return 0;
    Space *made = &all->spaces[all->space_count];
    *made = (Space){.pid = pid};
    if (from >= 0 && all->spaces[from].count) {
        made->count = all->spaces[from].count;
        made->maps = malloc(made->count * sizeof *made->maps);
        if (!made->maps) return 0;
        memcpy(made->maps, all->spaces[from].maps, made->count * sizeof *made->maps);
        all->work += made->count;
    }
    all->space_count++; // from here on it is freed with the others
    return told_of(&all->since, pid, time, all->space_count - 1);
}

static i64 new_map(Followed *all, Map one) {
    if (all->map_count >= (i64)NOBODY || !roomy((void **)&all->maps, &all->map_room, all->map_count, sizeof *all->maps)) return NO_MEMORY;
    all->maps[all->map_count] = one;
    return all->map_count++;
}

static int is_other(const Map *one, const Map *other, const Texts *files) {
    const Text *here = &files->all[one->file], *there = &files->all[other->file];
    return here->at != there->at || (__int128)one->start - one->offset != (__int128)other->start - other->offset;
}

// Over what lay there: what it covers in part goes on before and after it. Something else there: the space is another from now on.
static int lay(Followed *all, u32 pid, u64 time, Map one) {
    i64 number = space_of(all, pid);
    if (number < 0) {
        if (!begin_space(all, pid, 0, -1)) return 0;
        number = space_of(all, pid);
    }
    if (number < 0 || !one.length) return 1;
    Space *space = &all->spaces[number];
    u64 end = one.start + one.length;
    i64 first = 0, last = 0, high = space->count;
    while (first < high) {
        i64 middle = (first + high) / 2;
        const Map *there = &all->maps[space->maps[middle]];
        if (there->start + there->length > one.start) high = middle;
        else first = middle + 1;
    }
    for (last = first; last < space->count && all->maps[space->maps[last]].start < end; last++)
        ;
    int changed = 0;
    for (i64 i = first; i < last && !changed; i++) changed = is_other(&all->maps[space->maps[i]], &one, &all->files);
    all->work += space->count - first;
    if (changed) {
        if (!begin_space(all, pid, time, number)) return 0;
        space = &all->spaces[space_of(all, pid)];
    }
    if (space->count >= MOST_MAPS) return 1;
    u32 added[3];
    int many = 0;
    if (first < last) {
        Map left = all->maps[space->maps[first]];
        if (left.start < one.start) {
            left.length = one.start - left.start;
            i64 made = new_map(all, left);
            if (made < 0) return 0;
            added[many++] = (u32)made;
        }
    }
    i64 made = new_map(all, one);
    if (made < 0) return 0;
    added[many++] = (u32)made;
    if (first < last) {
        Map right = all->maps[space->maps[last - 1]];
        if (right.start + right.length > end) {
            right.offset += end - right.start;
            right.length = right.start + right.length - end;
            right.start = end;
            if ((made = new_map(all, right)) < 0) return 0;
            added[many++] = (u32)made;
        }
    }
    i64 count = (i64)space->count - (last - first) + many;
    if (count > (i64)space->count) {
        u32 *more = realloc(space->maps, (u64)count * sizeof *more);
        if (!more) return 0;
        space->maps = more;
    }
    memmove(space->maps + first + many, space->maps + last, ((u64)space->count - (u64)last) * sizeof *space->maps);
    memcpy(space->maps + first, added, (u64)many * sizeof *added);
    space->count = (u32)count;
    return 1;
}

enum { MMAP = 1, COMM = 3, FORK = 7, MMAP2 = 10, EXEC = 1 << 13, WITH_BUILD_ID = 1 << 14 };

static i64 text_length(const u8 *at, i64 room) {
    const u8 *end = memchr(at, 0, (u64)room);
    return end ? end - at : room;
}

static u32 number_at(const u8 *at) {
    u32 value;
    memcpy(&value, at, sizeof value);
    return value;
}

static u64 word_at(const u8 *at) {
    u64 value;
    memcpy(&value, at, sizeof value);
    return value;
}

// Of the build id in a record of 64 bytes or more; 0: there is none. Linux 6.18 marks a record so, too, when only another recorder
// asked for build ids: then device and inode stand there. The number of a device (7 loop, 8 sd, 9 md) can pass for a length: but
// what follows an id is zero, and a short one does not begin as a minor number of 20 bits does.
static i64 id_length_of(const u8 *body) {
    enum { MOST_BYTES = 20, LEAST_LONG = 16, MINOR_BITS = 20, END = 56 };
    i64 length = body[32];
    if (length > MOST_BYTES || body[33] | body[34] | body[35]) return 0;
    for (i64 at = 36 + length; at < END; at++)
        if (body[at]) return 0;
    return length < LEAST_LONG && !(number_at(body + 36) >> MINOR_BITS) ? 0 : length;
}

// One record: `body` is what follows its header, without the trailer.
static i64 follow_one(Followed *all, u64 header, u64 time, i64 at, i64 length) {
    const u8 *body = all->bytes + at;
    u32 kind = (u32)header, misc = (header >> 32) & 0xffff, pid = number_at(body);
    if (kind == COMM) {
        u32 tid = number_at(body + 4);
        i64 name = number_of(all, &all->names, (Text){at + 8, text_length(body + 8, length - 8), at, 0});
        if (name < 0 || !told_of(&all->named, tid, time, name)) return NO_MEMORY;
        return misc & EXEC && pid == tid && !begin_space(all, pid, time, -1) ? NO_MEMORY : 0;
    }
    if (kind == FORK) {
        u32 parent = number_at(body + 4), tid = number_at(body + 8);
        if (pid != parent && !begin_space(all, pid, time, space_of(all, parent))) return NO_MEMORY;
        const History *names = history_of(&all->named, number_at(body + 12));
        if (!names) names = history_of(&all->named, parent);
        return names && !told_of(&all->named, tid, time, all->named.moments[names->last].value) ? NO_MEMORY : 0;
    }
    Map one = {word_at(body + 8), word_at(body + 16), word_at(body + 24), 0};
    // Beyond are the sums that a number of 64 bits does not hold; nothing honest lies there.
    if (one.length >> 63 || one.offset >> 63 || one.start + one.length < one.start) return UNUSUAL;
    i64 path = kind == MMAP ? 32 : 64, id_length = kind == MMAP2 && misc & WITH_BUILD_ID ? id_length_of(body) : 0;
    // A path is the same text wherever it stands first, whatever its build id.
    Text text = {at + path, text_length(body + path, length - path), at, 0};
    i64 known = number_of(all, &all->files, text);
    if (known < 0) return NO_MEMORY;
    if (id_length) known = number_of(all, &all->files, (Text){all->files.all[known].at, text.length, at + 36, id_length});
    if (known < 0) return NO_MEMORY;
    one.file = (u32)known;
    return lay(all, pid, time, one) ? 0 : NO_MEMORY;
}

void zs_forget(Followed *all) {
    if (!all) return;
    for (i64 i = 0; i < all->space_count; i++) free(all->spaces[i].maps);
    void *parts[] = {all->names.all, all->names.slots, all->files.all,      all->files.slots,     all->since.all, all->since.slots, all->since.moments,
                     all->named.all, all->named.slots, all->named.moments, all->maps, all->spaces};
    for (u64 i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
    free(all);
}

static i64 follow_all(Followed *all, const u64 *words, i64 total, const i64 *others, i64 count, i64 trailer, i64 time_word, i64 *left, Keyed *made) {
    static const i64 least[] = {[MMAP] = 32, [COMM] = 8, [FORK] = 16, [MMAP2] = 64};
    i64 changes = 0, rest = 0;
    for (i64 i = 0; i < count; i++) {
        i64 at = others[i];
        if (!inside(at, 1, total) || !inside(at, (i64)(words[at] >> 51), total)) return OUTSIDE;
        u64 header = words[at], kind = (u32)header;
        int is_map = kind == MMAP || kind == MMAP2, is_kernels = is_map && ((header >> 32) & 7) == 1;
        if ((!is_map && kind != COMM && kind != FORK) || is_kernels) {
            left[rest++] = at;
            continue;
        }
        i64 size = (i64)(header >> 51);
        if ((size - 1 - trailer) * 8 < least[kind]) return UNUSUAL;
        made[changes++] = (Keyed){time_word < 0 ? words[at + size + time_word] : 0, at};
    }
    Keyed *sorted = in_order(made, made + count, changes);
    for (i64 i = 0; i < changes; i++) {
        i64 at = sorted[i].place, size = (i64)(words[at] >> 51);
        i64 answer = follow_one(all, words[at], sorted[i].key, at * 8 + 8, (size - 1 - trailer) * 8);
        if (answer < 0) return answer;
        if (all->work > MOST_WORK) return UNUSUAL;
    }
    return rest;
}

// Names, forks and maps, replayed by time. `time_word` counts from the end of a record, below zero; 0: there is no time, and nothing
// is cut off. `left` are the places of the records that are none of these. `told`: how many of those, of names and of files.
i64 zs_follow(const u64 *words, i64 total, const i64 *others, i64 count, i64 trailer, i64 time_word, i64 *left, i64 *told, Followed **made) {
    *made = NULL;
    if (trailer < 0 || time_word > 0 || -time_word > trailer || count < 0) return OUTSIDE;
    Followed *all = calloc(1, sizeof *all);
    Keyed *keys = malloc(((u64)count * 2 + 1) * sizeof *keys);
    i64 answer = NO_MEMORY;
    if (all && keys) {
        all->bytes = (const u8 *)words;
        answer = follow_all(all, words, total, others, count, trailer, time_word, left, keys);
        told[0] = answer;
        told[1] = all->names.count;
        told[2] = all->files.count;
    }
    free(keys);
    if (answer < 0) {
        zs_forget(all);
        return answer;
    }
    *made = all;
    return 0;
}

// Where each name lies, in the order of the threads that had them first; with `files`, where each path and build id does. Four
// numbers each: at, length, at, length.
void zs_texts(const Followed *all, int files, i64 *out) {
    const Texts *texts = files ? &all->files : &all->names;
    if (texts->count) memcpy(out, texts->all, (u64)texts->count * sizeof *texts->all);
}

// The names that threads had, in the order of threads as they came and of their times: each number once. Returns how many.
i64 zs_names(const Followed *all, i64 *numbers, u8 *seen) {
    i64 found = 0;
    if (all->names.count) memset(seen, 0, (u64)all->names.count);
    for (i64 i = 0; i < all->named.count; i++)
        for (u32 at = all->named.all[i].first; at != NOBODY; at = all->named.moments[at].next) {
            i64 name = all->named.moments[at].value;
            if (!seen[name]) numbers[found++] = name;
            seen[name] = 1;
        }
    return found;
}

// Words of stacks that lie in a symbol of the kernel that came or went meanwhile move to where only that symbol is: from its `place` on.
// Of several that begin at or before a sample's time the latest one counts, of equal ones the last; then it must not be over.
i64 zs_moved(u64 *words, i64 total, const i64 *chain_at, const i64 *chain_words, const u64 *time, i64 rows, const u64 *starts, const u64 *ends,
             const u64 *begins, const u64 *overs, const u64 *places, i64 count) {
    u64 lowest = ~0ull, highest = 0;
    i64 work = 0;
    for (i64 i = 0; i < count; i++) {
        lowest = starts[i] < lowest ? starts[i] : lowest;
        highest = ends[i] > highest ? ends[i] : highest;
    }
    for (i64 row = 0; row < rows; row++) {
        if (!inside(chain_at[row], chain_words[row], total)) return OUTSIDE;
        for (u64 *word = words + chain_at[row], *end = word + chain_words[row]; word < end; word++) {
            if (*word < lowest || *word >= highest) continue;
            i64 found = -1;
            for (i64 i = 0; i < count; i++)
                if (*word >= starts[i] && *word < ends[i] && time[row] >= begins[i] && (found < 0 || begins[i] >= begins[found])) found = i;
            if (found >= 0 && time[row] < overs[found]) *word += places[found] - starts[found];
            if ((work += count) > MOST_WORK) return UNUSUAL;
        }
    }
    return 0;
}

// Which name, space and key of both (for `zs_distinct`) each sample has; samples are in order of time, so that every thread only goes
// on in its history. `number` is what each name is called; a thread that has none gets `idle` or `stranger`, of which `told` says how
// many there are.
i64 zs_who(const Followed *all, const u64 *time, const u32 *pid, const u32 *tid, const i64 *thread, i64 rows, i64 threads, const i64 *number,
           i64 idle, i64 stranger, i64 *owner, u32 *comm, u64 *salt, i64 *told) {
    u32 *space_at = malloc((u64)(threads + 1) * 2 * sizeof *space_at), *name_at = space_at + threads + 1;
    if (!space_at) return NO_MEMORY;
    memset(space_at, 0xff, (u64)(threads + 1) * 2 * sizeof *space_at);
    u8 *seen = calloc((u64)threads + 1, 1);
    *told = 0;
    for (i64 i = 0; seen && i < rows; i++) {
        i64 mine = thread[i];
        if (mine < 0 || mine >= threads) {
            free(space_at);
            free(seen);
            return OUTSIDE;
        }
        if (!seen[mine]) {
            const History *space = history_of(&all->since, pid[i]), *name = history_of(&all->named, tid[i]);
            space_at[mine] = space ? space->first : NOBODY;
            name_at[mine] = name ? name->first : NOBODY;
            seen[mine] = 1;
        }
        const Moment *spaces = all->since.moments, *names = all->named.moments;
        u32 at = space_at[mine], called = name_at[mine];
        while (at != NOBODY && spaces[at].next != NOBODY && spaces[spaces[at].next].time <= time[i]) at = spaces[at].next;
        while (called != NOBODY && names[called].next != NOBODY && names[names[called].next].time <= time[i]) called = names[called].next;
        space_at[mine] = at;
        name_at[mine] = called;
        owner[i] = at == NOBODY ? -1 : spaces[at].value;
        comm[i] = (u32)(called != NOBODY ? number[names[called].value] : tid[i] ? stranger : idle);
        *told += called == NOBODY;
        salt[i] = (u64)owner[i] << 32 | comm[i];
    }
    i64 answer = seen ? 0 : NO_MEMORY;
    free(space_at);
    free(seen);
    return answer;
}

// What lies at each address: the group of its file (of its process too, where `made` says that the code is made while running), and
// the offset there; -1 where nothing does, -2 where it is the kernel's. Groups are numbered in the order of spaces and addresses;
// `kinds` says which files are one. Of each group: its file and the process that mapped it. Returns how many groups.
i64 zs_locate(const Followed *all, const u64 *addresses, const i64 *owners, i64 count, const i64 *kinds, const u8 *made, i64 *group, u64 *offset,
              i64 *group_kind, i64 *group_pid) {
    // One slot for each map of each space that is asked for: 1 where an address lies in it, then its group.
    i64 *begins = malloc((u64)(all->space_count + 1) * sizeof *begins), slots = 0, groups = 0, work = 0, answer = NO_MEMORY;
    i64 *found = NULL, *last = NULL;
    if (!begins) return NO_MEMORY;
    memset(begins, 0xff, (u64)(all->space_count + 1) * sizeof *begins);
    for (i64 i = 0; i < count; i++)
        if (addresses[i] < FIRST_KERNEL && owners[i] >= 0 && owners[i] < all->space_count) begins[owners[i]] = 0;
    for (i64 i = 0; i < all->space_count; i++)
        if (begins[i] == 0) {
            begins[i] = slots;
            slots += all->spaces[i].count;
        }
    found = calloc((u64)slots + 1, sizeof *found);
    // The groups of a kind, one after the other; all but those made while running have only one.
    last = malloc(((u64)all->files.count + 1 + (u64)slots * 2) * sizeof *last);
    if (!found || !last) goto end;
    for (i64 i = 0; i < count; i++) {
        group[i] = addresses[i] >= FIRST_KERNEL ? -2 : -1;
        if (group[i] == -2 || owners[i] < 0 || owners[i] >= all->space_count) continue;
        const Space *space = &all->spaces[owners[i]];
        i64 low = 0, high = space->count;
        while (low < high) {
            i64 middle = (low + high) / 2;
            if (all->maps[space->maps[middle]].start <= addresses[i]) low = middle + 1;
            else high = middle;
        }
        if (!low) continue;
        const Map *there = &all->maps[space->maps[low - 1]];
        found[begins[owners[i]] + low - 1] = 1;
        if (addresses[i] >= there->start + there->length) continue;
        offset[i] = addresses[i] - there->start + there->offset;
        group[i] = begins[owners[i]] + low - 1;
    }
    i64 *before = last + all->files.count + 1;
    memset(last, 0xff, ((u64)all->files.count + 1) * sizeof *last);
    for (i64 i = 0; i < all->space_count; i++)
        for (i64 at = 0; begins[i] >= 0 && at < all->spaces[i].count; at++) {
            if (!found[begins[i] + at]) continue;
            u32 file = all->maps[all->spaces[i].maps[at]].file;
            i64 kind = kinds[file], pid = all->spaces[i].pid, mine;
            if (kind < 0 || kind >= all->files.count) {
                answer = OUTSIDE;
                goto end;
            }
            for (mine = last[kind]; mine >= 0 && made[file] && group_pid[mine] != pid; mine = before[mine]) work++;
            if (work > MOST_WORK) {
                answer = UNUSUAL;
                goto end;
            }
            if (mine < 0) {
                mine = groups++;
                group_kind[mine] = kind;
                group_pid[mine] = pid;
                before[mine] = last[kind];
                last[kind] = mine;
            }
            found[begins[i] + at] = mine + 1;
        }
    for (i64 i = 0; i < count; i++)
        if (group[i] >= 0) group[i] = found[group[i]] - 1;
    answer = groups;
end:
    free(begins);
    free(found);
    free(last);
    return answer;
}
