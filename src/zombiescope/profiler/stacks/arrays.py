# SPDX-License-Identifier: Apache-2.0
"""Columns of numbers, and the two things done with them everywhere: equal values to dense ids, equal sequences to equal hashes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # as `numpy.typing` has them, which a command would have to load first
    _Shape = tuple[Any, ...]
    U64 = np.ndarray[_Shape, np.dtype[np.uint64]]
    U32 = np.ndarray[_Shape, np.dtype[np.uint32]]
    U16 = np.ndarray[_Shape, np.dtype[np.uint16]]
    U8 = np.ndarray[_Shape, np.dtype[np.uint8]]
    I64 = np.ndarray[_Shape, np.dtype[np.int64]]
    I32 = np.ndarray[_Shape, np.dtype[np.int32]]
    F64 = np.ndarray[_Shape, np.dtype[np.float64]]
    Flags = np.ndarray[_Shape, np.dtype[np.bool_]]
    Numbers = np.ndarray[_Shape, np.dtype[Any]]
else:  # where they are written they are only read: an import by the scanner does without numpy
    U64 = U32 = U16 = U8 = I64 = I32 = F64 = Flags = Numbers = object

_SPREADS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD)
_BASE = 0x9E3779B97F4A7C15
_BASE_INVERSE = pow(_BASE, -1, 1 << 64)
_CHUNK_WORDS = 1 << 17
_TABLE_BITS = 22


def dense_ids(keys: "U64") -> "tuple[I64, I64]":
    """An id for every element, equal for equal keys, and the place of one element of each id.

    A hash table of array operations, piece by piece: whoever finds the slot of its key free writes its place there; whoever
    finds a place compares the key there with its own; the few that meet a stranger go on with another spread of the slots.
    No sort, no false match.
    """
    same_as = _places_of_equals(keys, 0)
    chosen = np.flatnonzero(same_as == np.arange(len(keys), dtype=np.int32))
    number = np.empty(len(keys), np.int32)
    number[chosen] = np.arange(len(chosen), dtype=np.int32)
    return number[same_as].astype(np.int64), chosen


def _places_of_equals(keys: "U64", attempt: int) -> "I32":
    """For each element the place of one that is equal: the same one for all equal ones."""
    count = len(keys)
    if attempt == len(_SPREADS):
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        return first[inverse].astype(np.int32)
    bits = min(max(8, count.bit_length() + 1), _TABLE_BITS)
    spread, shift = np.uint64(_SPREADS[attempt]), np.uint64(64 - bits)
    table = np.zeros(1 << bits, np.int32)
    same_as = np.empty(count, np.int32)
    strangers: list[I64] = []
    for begin in range(0, count, _CHUNK_WORDS):
        mine = keys[begin : begin + _CHUNK_WORDS]
        slots = mine >> np.uint64(32)
        slots ^= mine
        slots *= spread
        slots >>= shift
        places = slots.view(np.int64)  # small now: an index that numpy need not convert
        found = table[places]
        free = np.flatnonzero(found == 0)
        table[places[free]] = free + (begin + 1)
        found[free] = table[places[free]]
        found -= 1
        same_as[begin : begin + _CHUNK_WORDS] = found
        differ = np.flatnonzero(keys[found] != mine)
        if len(differ):
            strangers.append(differ + begin)
    if strangers:
        again = np.concatenate(strangers)
        same_as[again] = again[_places_of_equals(keys[again], attempt + 1)]
    return same_as


def find_within(starts: "U64", ends: "U64", values: "U64") -> "I64":
    """Of ranges with ascending starts, the last one that begins at or before each value, where it holds it; else -1."""
    found = np.searchsorted(starts, values, side="right").astype(np.int64) - 1
    return np.where(values < ends[np.maximum(found, 0)], found, -1) if len(starts) else found


def used_numbers(values: "I64", limit: int) -> "tuple[I64, I64]":
    """The distinct values, ascending, and for each element which of them it is; all lie in 0 … limit - 1. Counts, does not sort."""
    seen = np.zeros(limit, bool)
    seen[values] = True
    distinct = np.flatnonzero(seen)
    number = np.empty(limit, np.int64)
    number[distinct] = np.arange(len(distinct))
    return distinct, number[values]


def grouping(numbers: "I64", limit: int) -> "I64":
    """An order in which equal numbers stand together, in the order they came; all lie in 0 … limit - 1."""
    # Small numbers are sorted by counting, which is several times quicker.
    return np.argsort(numbers.astype(np.uint16) if limit <= 1 << 16 else numbers, kind="stable")


def ranges(starts: "I64", lengths: "I64") -> "I64":
    """All of starts[0], starts[0]+1 … starts[0]+lengths[0]-1, starts[1] … one after the other."""
    ends = np.cumsum(lengths)
    places: I64 = np.repeat(starts - (ends - lengths), lengths)
    places += np.arange(len(places), dtype=np.int64)
    return places


def pieces(lengths: "I64") -> Iterator[slice]:
    """Which ranges, one after the other, make up a piece that the cache and the allocator keep. A long one is alone."""
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        begun = int(ends[first] - lengths[first])
        last = max(first + 1, int(np.searchsorted(ends, begun + _CHUNK_WORDS, side="right")))
        yield slice(first, last)
        first = last


def copy_ranges(source: "Numbers", starts: "I64", out: "Numbers", places: "I64", lengths: "I64") -> None:
    """`out[place:place + length] = source[start:start + length]` for all."""
    for some in pieces(lengths):
        out[ranges(places[some], lengths[some])] = source[ranges(starts[some], lengths[some])]


def sequence_hashes(words: "U64 | U32", starts: "I64", lengths: "I64", salts: "U64") -> "U64":
    """One hash a sequence `words[start:start + length]`; sequences ascend and do not overlap.

    A polynomial hash modulo 2**64 as the difference of two prefix sums, in pieces that fit the cache.
    """
    out = np.zeros(len(starts), np.uint64)
    ends = starts + lengths
    longest = min(_CHUNK_WORDS, int(ends.max() - starts.min()) if len(starts) else 0)
    ascending, descending = _powers(_BASE, longest), _powers(_BASE_INVERSE, longest + 1)
    first, total = 0, len(starts)
    scaled, sums = np.empty(longest, np.uint64), np.zeros(longest + 1, np.uint64)
    while first < total:
        begin = int(starts[first])
        last = max(first + 1, int(np.searchsorted(ends, begin + _CHUNK_WORDS, side="right")))
        if int(ends[last - 1]) - begin > _CHUNK_WORDS:
            # Longer than a piece: no two of those are worth telling apart quickly.
            out[first] = np.uint64(hash(words[begin : int(ends[first])].tobytes()) & 0xFFFFFFFFFFFFFFFF)
            first += 1
            continue
        length = int(ends[last - 1]) - begin
        np.multiply(words[begin : begin + length], ascending[:length], out=scaled[:length])
        np.cumsum(scaled[:length], out=sums[1 : length + 1])
        here = starts[first:last] - begin
        out[first:last] = (sums[ends[first:last] - begin] - sums[here]) * descending[here]
        first = last
    return _finish(out, lengths, salts)


def _powers(base: int, count: int) -> "U64":
    powers: U64 = np.cumprod(np.full(count, base, np.uint64), dtype=np.uint64)
    return powers


def _finish(out: "U64", lengths: "I64", salts: "U64") -> "U64":
    out ^= lengths.astype(np.uint64) * np.uint64(_SPREADS[2]) + salts * np.uint64(0x165667B19E3779F9)
    out ^= out >> np.uint64(33)
    out *= np.uint64(_SPREADS[3])
    out ^= out >> np.uint64(33)
    return out
