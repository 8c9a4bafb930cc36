# SPDX-License-Identifier: Apache-2.0
"""Kernel code that came and went while recording: programs of BPF, trampolines. One address belonged to several, one after another.

A symbol holds from the record that registers it to the one that unregisters it, or to the next that overlaps it. Every such spell
gets addresses of its own, where no kernel has code, and the words of each stack are moved there by the sample's time: whatever
comes after needs no clock.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from zombiescope.profiling.arrays import I64, U64
from zombiescope.profiling.perf_samples import Samples
from zombiescope.profiling.perf_side import KernelSymbol

FIRST_OWN_ADDRESS = 0xA3B1_95D7 << 32
"""Not canonical on any processor: between the addresses of processes and those of the kernel. Nor a likely number on a stack:
chains of code without frame pointers hold words that are no addresses, and small ones with the highest bit are many."""
_ROOM = 1 << 32
_EVER = (1 << 64) - 1
_MOST_SPELLS, _MOST_PAIRS = 1 << 18, 1 << 21
_PIECE = 1 << 17


class Spell(NamedTuple):
    begin: int
    end: int
    start: int
    length: int
    name: str

    @property
    def changes(self) -> bool:
        return self.begin > 0 or self.end < _EVER


@dataclass(slots=True)
class _Present:
    """The symbols that hold at one moment: none overlaps another."""

    starts: list[int] = field(default_factory=list)
    spells: dict[int, Spell] = field(default_factory=dict)

    def overlapped(self, start: int, length: int) -> list[Spell]:
        first = bisect.bisect_right(self.starts, start)
        if first and self.spells[self.starts[first - 1]].length > start - self.starts[first - 1]:
            first -= 1
        last = bisect.bisect_left(self.starts, start + max(1, length))
        return [self.spells[begun] for begun in self.starts[first:last]]

    def take(self, spell: Spell) -> None:
        self.starts.remove(spell.start)
        del self.spells[spell.start]

    def put(self, spell: Spell) -> None:
        bisect.insort(self.starts, spell.start)
        self.spells[spell.start] = spell


def spells(told: list[KernelSymbol]) -> list[Spell]:
    """From records in time order. One that is only seen to go was there before."""
    present, over = _Present(), []
    for symbol in told[:_MOST_SPELLS]:
        if not symbol.length:
            continue  # it holds no address; two of them at one place would not even overlap
        covered = present.overlapped(symbol.start, symbol.length)
        if symbol.is_gone and not any(spell.start == symbol.start for spell in covered):
            over.append(Spell(0, symbol.time, symbol.start, symbol.length, symbol.name))
            continue
        for spell in covered:
            if not symbol.is_gone or spell.start == symbol.start:
                present.take(spell)
                over.append(spell._replace(end=symbol.time))
        if not symbol.is_gone:
            present.put(Spell(symbol.time, _EVER, symbol.start, symbol.length, symbol.name))
    held = [*over, *present.spells.values()]
    return [spell for spell in held if spell.length and spell.begin < spell.end]


class _Lookup(NamedTuple):
    """For every stretch of addresses without a bound inside, whose it was, one after another."""

    bounds: U64
    moments: U64
    keys: I64
    """Stretch and moment of beginning in one number, ascending."""
    ends: I64
    which: I64

    def find(self, addresses: U64, times: U64) -> I64:
        """The spell of each address at its time, or -1."""
        stretch = np.searchsorted(self.bounds, addresses, side="right").astype(np.int64) - 1
        moment = np.searchsorted(self.moments, times, side="right").astype(np.int64)
        place = np.searchsorted(self.keys, stretch << 32 | moment, side="right").astype(np.int64) - 1
        safe = np.maximum(place, 0)
        holds = (place >= 0) & (self.keys[safe] >> 32 == stretch) & (moment < self.ends[safe])
        return np.where(holds, self.which[safe], -1)


def _lookup(held: list[Spell]) -> _Lookup:
    bounds = np.unique(np.array([(one.start, min(one.start + one.length, _EVER)) for one in held], np.uint64))
    moments = np.unique(np.array([(one.begin, one.end) for one in held], np.uint64))
    first = np.searchsorted(bounds, np.array([one.start for one in held], np.uint64))
    last = np.searchsorted(bounds, np.array([min(one.start + one.length, _EVER) for one in held], np.uint64))
    begins = np.searchsorted(moments, np.array([one.begin for one in held], np.uint64)).astype(np.int64) + 1
    ends = np.searchsorted(moments, np.array([one.end for one in held], np.uint64)).astype(np.int64) + 1
    # A file that lies could ask for the square of its symbols: those beyond stay without a name of their own.
    many = np.cumsum(last - first)
    allowed = int(np.searchsorted(many, _MOST_PAIRS, side="right"))
    which = np.repeat(np.arange(allowed), (last - first)[:allowed])
    stretch = np.arange(len(which)) - np.repeat(many[:allowed] - (last - first)[:allowed], (last - first)[:allowed])
    keys = (stretch + first[which]) << 32 | begins[which]
    order = np.argsort(keys, kind="stable")
    return _Lookup(bounds, moments, keys[order], ends[which][order], which[order])


def own_symbols(held: list[Spell]) -> list[KernelSymbol]:
    """As symbols at the addresses that only they have."""
    return [
        KernelSymbol(one.begin, FIRST_OWN_ADDRESS + number * _ROOM, one.length, one.name)
        for number, one in enumerate(held)
    ]


def moved(words: U64, samples: Samples, held: list[Spell]) -> U64:
    """The words with all addresses of these spells at their own places: changed where that is allowed, else a copy."""
    if not held:
        return words
    places = _within(words, min(one.start for one in held), max(one.start + one.length for one in held))
    order = np.argsort(samples.chain_at, kind="stable")
    row = np.searchsorted(samples.chain_at[order], places, side="right").astype(np.int64) - 1
    places, row = places[row >= 0], order[row[row >= 0]]
    inside = places < samples.chain_at[row] + samples.chain_words[row]
    places, row = places[inside], row[inside]
    which = _lookup(held).find(words[places], samples.time[row])
    known = np.flatnonzero(which >= 0)
    if not len(known):
        return words
    places, which = places[known], which[known]
    starts = np.array([one.start for one in held], np.uint64)[which]
    changed = words if words.flags.writeable else words.copy()
    changed[places] += (np.uint64(FIRST_OWN_ADDRESS) + which.astype(np.uint64) * np.uint64(_ROOM)) - starts
    return changed


def _within(words: U64, lowest: int, end: int) -> I64:
    """The places of words between two addresses, piece by piece."""
    found = [np.empty(0, np.int64)]
    low, room = np.uint64(lowest), np.uint64(min(end - lowest, _EVER))
    for begin in range(0, len(words), _PIECE):
        here = np.flatnonzero(words[begin : begin + _PIECE] - low < room)
        if len(here):
            found.append(here + begin)
    return np.concatenate(found)
