# SPDX-License-Identifier: Apache-2.0
"""Equal keys to one number, piece by piece, with array operations: for very many keys of which few are distinct.

The table and the distinct keys stay in the cache, and no array as long as all keys is made: fresh memory costs more than the work.
"""

from __future__ import annotations

import numpy as np

from zombiescope.profiling.arrays import I32, I64, U32, U64, dense_ids

_SPREADS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xC2B2AE3D27D4EB4F)
_MOST_BITS = 22


class Interner:
    """Numbers are given from 1 on, in the order of `firsts`; 0 is nobody's."""

    def __init__(self, expected: int) -> None:
        self._bits = min(max(10, expected.bit_length() - 2), _MOST_BITS)
        self._table: I32 = np.zeros(1 << self._bits, np.int32)
        self._known: U64 = np.zeros(1 << 12, np.uint64)
        self._count = 0
        self._late: dict[int, int] = {}
        """Keys that met strangers at every slot they have."""

    def add(self, keys: U64) -> tuple[U32, I64]:
        """The number of each key, and the place of the first key of each number that is new."""
        numbers = np.empty(len(keys), np.uint32)
        firsts: list[I64] = []
        left = np.arange(len(keys), dtype=np.int64)
        mine = keys
        for spread in _SPREADS:
            found, new = self._look_up(mine, spread)
            firsts.append(left[new])
            numbers[left] = found
            wrong = np.flatnonzero(self._known[found] != mine)
            if not len(wrong):
                break
            left, mine = left[wrong], mine[wrong]
        else:
            firsts.append(left[self._later(mine, numbers, left)])
        return numbers, np.concatenate(firsts)

    def _look_up(self, keys: U64, spread: int) -> tuple[I32, I64]:
        slots = keys >> np.uint64(32)
        slots ^= keys
        slots *= np.uint64(spread)
        slots >>= np.uint64(64 - self._bits)
        places = slots.view(np.int64)  # small now: an index that numpy need not convert
        found = self._table[places]
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
