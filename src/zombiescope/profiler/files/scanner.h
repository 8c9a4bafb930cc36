// SPDX-License-Identifier: Apache-2.0
// What both parts of the scanner share: answers of a function that fails, and how a number or a sequence is hashed.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

#define NO_MEMORY -1
#define OUTSIDE -2
#define UNUSUAL -3
#define NOBODY 0xFFFFFFFFu
#define FIRST_KERNEL (1ull << 63)

static inline u64 mix(u64 h) {
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93ull;
    h ^= h >> 29;
    return h;
}

static inline int inside(i64 start, i64 length, i64 total) { return start >= 0 && length >= 0 && length <= total && start <= total - length; }

typedef struct {
    u64 key;
    i64 place;
} Keyed;

// By key, equals in the order they came. Digits in which all keys agree are passed over. The answer is one of the two.
static inline Keyed *in_order(Keyed *made, Keyed *spare, i64 count) {
    enum { BITS = 11, SIZE = 1 << BITS };
    u64 same = ~0ull;
    int sorted = 1;
    for (i64 i = 1; i < count; i++) {
        same &= ~(made[i].key ^ made[0].key);
        sorted &= made[i - 1].key <= made[i].key;
    }
    if (sorted) return made;
    for (int shift = 0; shift < 64; shift += BITS) {
        if (((same >> shift) & (SIZE - 1)) == ((~0ull >> shift) & (SIZE - 1))) continue;
        i64 begins[SIZE] = {0}, at = 0;
        for (i64 i = 0; i < count; i++) begins[(made[i].key >> shift) & (SIZE - 1)]++;
        for (int digit = 0; digit < SIZE; digit++) {
            i64 many = begins[digit];
            begins[digit] = at;
            at += many;
        }
        for (i64 i = 0; i < count; i++) spare[begins[(made[i].key >> shift) & (SIZE - 1)]++] = made[i];
        Keyed *other = made;
        made = spare;
        spare = other;
    }
    return made;
}
