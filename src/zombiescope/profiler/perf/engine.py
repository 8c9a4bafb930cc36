# SPDX-License-Identifier: Apache-2.0
"""The steps of an import that touch every record or every word of every stack, with numpy alone. The optional scanner does the same
in C."""

from typing import NamedTuple, Protocol

import numpy as np

from zombiescope.profiler.perf.data_file import Event
from zombiescope.profiler.perf.samples import Samples, Walk, columns_of, walk_records
from zombiescope.profiler.stacks.arrays import I32, I64, U32, U64, dense_ids, pieces, ranges, sequence_hashes
from zombiescope.profiler.stacks.call_tree import CallTree, build_tree

_SPREADS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xC2B2AE3D27D4EB4F)
_FIRST_BITS, _MORE_BITS, _MOST_BITS = 18, 2, 26


class Interner:
    """Numbers are given from 1 on, in the order of `firsts`; 0 is nobody's."""

    def __init__(self, bits: int = _FIRST_BITS) -> None:
        self._bits = bits
        self._table: I32 = np.zeros(1 << bits, np.int32)
        self._known: U64 = np.zeros(1 << 12, np.uint64)
        self._count = 0
        self._late: dict[int, int] = {}
        """Keys that met strangers at every slot they have."""

    def add(self, keys: U64) -> tuple[U32, I64]:
        """The number of each key, and the place of the first key of each number that is new."""
        if self._count * 4 > len(self._table) and self._bits < _MOST_BITS:
            self._widen()
        found, new = self._look_up(keys, _SPREADS[0])
        numbers = found.astype(np.uint32)
        firsts = [new]
        left = np.flatnonzero(self._known.take(found) != keys)
        for spread in _SPREADS[1:]:
            if not len(left):
                return numbers, np.concatenate(firsts)
            mine = keys[left]
            found, new = self._look_up(mine, spread)
            firsts.append(left[new])
            numbers[left] = found
            left = left[self._known[found] != mine]
        if len(left):
            firsts.append(left[self._later(keys[left], numbers, left)])
        return numbers, np.concatenate(firsts)

    def _look_up(self, keys: U64, spread: int) -> tuple[I32, I64]:
        places = self._slots(keys, spread)
        found = self._table.take(places)
        free = np.flatnonzero(found == 0)
        if not len(free):
            return found, free
        # All that find a slot free write their place there; the one that stays has the slot.
        theirs = places[free]
        self._table[theirs] = -1 - free
        new = free[self._table[theirs] == -1 - free]
        self._table[places[new]] = self._numbered(keys[new])
        found[free] = self._table[theirs]
        return found, new

    def _slots(self, keys: U64, spread: int) -> I64:
        slots = keys >> np.uint64(32)
        slots ^= keys
        slots *= np.uint64(spread)
        slots >>= np.uint64(64 - self._bits)
        return slots.view(np.int64)  # small now: an index that numpy need not convert

    def _widen(self) -> None:
        """A larger table, in which each key has the first of its slots that no other has."""
        self._bits += _MORE_BITS
        self._table = np.zeros(1 << self._bits, np.int32)
        left = np.arange(1, self._count + 1)
        for spread in _SPREADS:
            places = self._slots(self._known[left], spread)
            free = self._table[places] == 0
            self._table[places[free]] = left[free]
            left = left[self._table[places] != left]
        self._late = dict(zip(self._known[left].tolist(), left.tolist(), strict=True))

    def _numbered(self, keys: U64) -> I64:
        first, self._count = self._count + 1, self._count + len(keys)
        if self._count >= len(self._known):
            self._known = np.concatenate([self._known, np.zeros(self._count * 2, np.uint64)])
        self._known[first : self._count + 1] = keys
        return np.arange(first, self._count + 1)

    def _later(self, keys: U64, numbers: U32, left: I64) -> I64:
        """One by one, but each distinct key once."""
        ids, chosen = dense_ids(keys)
        given = np.empty(len(chosen), np.uint32)
        new = []
        for index, key in enumerate(keys[chosen].tolist()):
            number = self._late.get(key)
            if number is None:
                number = self._late[key] = int(self._numbered(np.array([key], np.uint64))[0])
                new.append(index)
            given[index] = number
        numbers[left] = given[ids]
        return chosen[np.array(new, np.int64)]


FIRST_KERNEL_ADDRESS = 1 << 63
FIRST_MARKER = (1 << 64) - 4095
"""Above: PERF_CONTEXT_* words that say what follows, no addresses."""


_PIECE_WORDS = 1 << 17
_PROBED = 1 << 14


class Addresses(NamedTuple):
    """Stacks as ids of distinct (address, owner) pairs, root first, without marker words. The engine that made them may use their
    memory again for the tree."""

    ids: U32
    starts: I64
    lengths: I64
    addresses: U64
    owners: I64


class Engine(Protocol):
    def walk(self, words: U64, least_sample_words: int) -> Walk:
        """From record to record."""

    def columns(self, words: U64, places: I64, event: Event, index: int) -> Samples:
        """The samples of one event, in the order given."""

    def numbers(self, keys: U64) -> tuple[I64, I64]:
        """As `dense_ids`."""

    def distinct(self, words: U64, starts: I64, lengths: I64, salts: U64) -> tuple[I64, I64]:
        """As `dense_ids`, of whole sequences with a salt each."""

    def addresses(self, words: U64, starts: I64, lengths: I64, owners: I64, *, callers: bool) -> Addresses:
        """`callers`: an address that a call returns to becomes the one before it, which is inside the call."""

    def tree(self, stacks: Addresses, frame_of: U32, roots: U32) -> tuple[CallTree, I64]:
        """The tree of all stacks below their roots, and the node where each ends."""


class ArrayEngine:
    walk = staticmethod(walk_records)
    columns = staticmethod(columns_of)
    numbers = staticmethod(dense_ids)

    def distinct(self, words: U64, starts: I64, lengths: I64, salts: U64) -> tuple[I64, I64]:
        """Where hardly a stack comes twice, looking for the few that do costs more than it saves: each stays its own."""
        few = slice(None, None, max(1, len(starts) // _PROBED))
        _, chosen = dense_ids(_hashes(words, starts[few], lengths[few], salts[few]))
        if len(chosen) * 2 > _PROBED:
            each = np.arange(len(starts), dtype=np.int64)
            return each, each
        return dense_ids(_hashes(words, starts, lengths, salts))

    def addresses(self, words: U64, starts: I64, lengths: I64, owners: I64, *, callers: bool) -> Addresses:
        """In pieces that the allocator keeps: arrays of all words at once would cost more in page faults than in work.

        A word is left free before each stack, for its root.
        """
        most = int(lengths.sum()) + len(starts)
        interner = Interner()
        ids = np.empty(most, np.uint32)
        addresses, whose = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        kept_lengths = np.empty(len(starts), np.int64)
        at = most
        for some in pieces(lengths):
            piece, keys, kept = _piece(words, starts[some], lengths[some], owners[some], callers=callers)
            numbers, new = interner.add(keys)
            numbers -= np.uint32(1)
            kept_lengths[some] = kept
            # Leaf first becomes root first: written from the end, each stack lies at the mirrored place.
            room = len(piece) + len(kept)
            is_id = np.ones(room, bool)
            is_id[room - np.cumsum(kept + 1)] = False
            ids[at - room : at][is_id] = numbers[::-1]
            addresses.append(piece[new])
            whose.append(owners[some][np.searchsorted(np.cumsum(kept), new, side="right")])
            at -= room
        begins = most - np.cumsum(kept_lengths + 1) - at + 1
        return Addresses(ids[at:], begins, kept_lengths, np.concatenate(addresses), np.concatenate(whose))

    def tree(self, stacks: Addresses, frame_of: U32, roots: U32) -> tuple[CallTree, I64]:
        """Stacks that became equal when addresses became functions are one."""
        frames, begins, lengths = stacks.ids, stacks.starts - 1, stacks.lengths + 1
        frames[begins] = 0
        for begin in range(0, len(frames), _PIECE_WORDS):
            piece = frames[begin : begin + _PIECE_WORDS]
            piece[:] = frame_of.take(piece) if len(frame_of) else 0
        frames[begins] = roots
        ids, chosen = dense_ids(_hashes(frames, begins, lengths, np.zeros(len(begins), np.uint64)))
        tree, leaves = build_tree(frames, begins[chosen], lengths[chosen])
        return tree, leaves[ids]


def _piece(words: U64, starts: I64, lengths: I64, owners: I64, *, callers: bool) -> tuple[U64, U64, I64]:
    """Addresses without markers, a key each (the same for the same address of the same owner), and how many each stack has."""
    found = words.take(ranges(starts, lengths))
    is_address = found < np.uint64(FIRST_MARKER)
    markers = np.flatnonzero(~is_address)
    ends = np.cumsum(lengths)
    if callers:
        _to_calls(found, np.concatenate([(ends - lengths)[lengths > 0], markers + 1]))
    found = found[is_address]
    kept_lengths = lengths - np.diff(np.searchsorted(markers, ends), prepend=0)
    # The owner into the bits that no process's address has; not where the address is the kernel's, which all share.
    keys = found >> np.uint64(63)
    keys -= np.uint64(1)
    keys &= np.repeat((owners + 1).astype(np.uint64) << np.uint64(47), kept_lengths)
    keys ^= found
    return found, keys, kept_lengths


def _hashes(words: U64 | U32, starts: I64, lengths: I64, salts: U64) -> U64:
    if not np.any(starts[1:] < starts[:-1]):
        return sequence_hashes(words, starts, lengths, salts)
    if not np.any(starts[1:] > starts[:-1]):
        return sequence_hashes(words, starts[::-1], lengths[::-1], salts[::-1])[::-1]
    order = np.argsort(starts)
    hashes = np.empty(len(starts), np.uint64)
    hashes[order] = sequence_hashes(words, starts[order], lengths[order], salts[order])
    return hashes


def _to_calls(addresses: U64, firsts: I64) -> None:
    """Every address but the first of its kind is where a call returns to: one less lies inside the call. None stays none."""
    addresses -= np.uint64(1)
    addresses[firsts[firsts < len(addresses)]] += np.uint64(1)
    none = ~np.uint64(0)
    if len(addresses) and addresses.max() == none:
        addresses[addresses == none] = 0
