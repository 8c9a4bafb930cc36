# SPDX-License-Identifier: Apache-2.0
"""Equal keys to one number, piece by piece, with array operations: for very many keys of which few are distinct.

The table and the distinct keys stay in the cache, and no array as long as all keys is made: fresh memory costs more than the work.
"""

from __future__ import annotations

import numpy as np

from zombiescope.profiling.arrays import I32, I64, U32, U64, dense_ids

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
