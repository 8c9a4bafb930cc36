# SPDX-License-Identifier: Apache-2.0
"""Names of kernel addresses, from the text of kallsyms. Names are cut out only for the symbols that are asked for."""

import bisect
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.profiler.perf.frames import ALL_ZERO, KERNEL, NO_FUNCTION, OF_RECORDS, UNKNOWN, name_in
from zombiescope.profiler.perf.samples import Samples
from zombiescope.profiler.perf.side_records import KernelSymbol
from zombiescope.profiler.stacks.arrays import I64, U8, U64, find_within

_FAR = 1 << 16
_BLOCK = 4096
"""What perf rounds the end of a last symbol to, whatever the page size of the machine."""
_CODE = b"TtWw"
_DIGITS = b"0123456789abcdef"


class KernelSymbols(NamedTuple):
    starts: U64
    """Ascending."""
    name_at: I64
    """Where the name lies in the text; below zero: the symbol that a record of the capture told of."""
    text: bytes
    told: tuple[KernelSymbol, ...] = ()

    def find(self, addresses: U64) -> I64:
        """The symbol of each address, or -1. One with nothing near after it ends with its block: beyond lies no code of its."""
        following = np.append(self.starts[1:], np.uint64(0xFFFFFFFFFFFFFFFF))[: len(self.starts)]
        block_end = (self.starts // np.uint64(_BLOCK) + np.uint64(2)) * np.uint64(_BLOCK)
        ends = np.where(following - self.starts > np.uint64(_FAR), block_end, following)
        mine = np.flatnonzero(self.name_at < 0)
        lengths = np.array([self.told[-1 - at].length for at in self.name_at[mine].tolist()], np.uint64)
        ends[mine] = np.minimum(self.starts[mine] + lengths, following[mine])
        return find_within(self.starts, ends, addresses)

    def name(self, symbol: int) -> tuple[str, str]:
        """Name and module."""
        if symbol < 0:
            return UNKNOWN, KERNEL
        at = int(self.name_at[symbol])
        return (self.told[-at - 1].name, OF_RECORDS) if at < 0 else name_in(self.text, at)

    def told_also(self, told: list[KernelSymbol]) -> "KernelSymbols":
        """With the programs and trampolines that came and went while recording."""
        latest = {symbol.start: index for index, symbol in enumerate(told)}
        begins = np.array(list(latest), np.uint64)
        is_new = ~np.isin(begins, self.starts)
        if not is_new.any():
            return self
        starts = np.concatenate([self.starts, begins[is_new]])
        places = np.concatenate([self.name_at, -1 - np.array(list(latest.values()), np.int64)[is_new]])
        order = np.argsort(starts, kind="stable")
        return KernelSymbols(starts[order], places[order], self.text, tuple(told))


def no_kernel_symbols() -> KernelSymbols:
    return KernelSymbols(np.empty(0, np.uint64), np.empty(0, np.int64), b"")


def read_kallsyms(text: bytes) -> KernelSymbols | Gap:
    raw = np.frombuffer(text, np.uint8)
    line_ends = np.flatnonzero(raw == 10)
    starts = np.concatenate([np.zeros(1, np.int64), line_ends[:-1] + 1]) if len(line_ends) else line_ends
    starts = starts[line_ends - starts > 19]
    starts = starts[
        np.isin(raw[starts + 17], np.frombuffer(_CODE, np.uint8)) & (raw[starts + 16] == 32) & (raw[starts + 18] == 32)
    ]
    if not len(starts):
        return NO_FUNCTION
    addresses = _hexadecimal(raw, starts)
    if not addresses.any():
        return ALL_ZERO
    order = np.argsort(addresses, kind="stable")
    addresses, names = addresses[order], starts[order] + 19
    first = np.append(True, addresses[1:] != addresses[:-1])
    return KernelSymbols(addresses[first], names[first], text)


def _hexadecimal(raw: U8, starts: I64) -> U64:
    nibbles, value = np.zeros(256, np.uint8), np.zeros(len(starts), np.uint64)
    nibbles[np.frombuffer(_DIGITS, np.uint8)] = np.arange(16)
    for digit in range(16):
        value = (value << np.uint64(4)) | nibbles[raw[starts + digit]].astype(np.uint64)
    return value


FIRST_OWN_ADDRESS = 0xA3B1_95D7 << 32
"""Not canonical on any processor: between the addresses of processes and those of the kernel. Nor a likely number on a stack:
chains of code without frame pointers hold words that are no addresses, and small ones with the highest bit are many."""
_ROOM, _EVER = 1 << 32, (1 << 64) - 1
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


def spells(told: list[KernelSymbol]) -> list[Spell]:
    """From records in time order. One that is only seen to go was there before."""
    present, over = list[Spell](), list[Spell]()  # present: those that hold now, by address; none overlaps another
    for symbol in told[:_MOST_SPELLS]:
        if not symbol.length:
            continue  # it holds no address; two of them at one place would not even overlap
        where = _overlapped(present, symbol.start, symbol.length)
        covered = present[where]
        ended = [spell for spell in covered if not symbol.is_gone or spell.start == symbol.start]
        if symbol.is_gone and not ended:
            over.append(Spell(0, symbol.time, symbol.start, symbol.length, symbol.name))
            continue
        over += [spell._replace(end=symbol.time) for spell in ended]
        begun = Spell(symbol.time, _EVER, symbol.start, symbol.length, symbol.name)
        present[where] = [spell for spell in covered if spell not in ended] if symbol.is_gone else [begun]
    return [spell for spell in (*over, *present) if spell.begin < spell.end]


def _overlapped(present: list[Spell], start: int, length: int) -> slice:
    first = bisect.bisect_right(present, start, key=attrgetter("start"))
    if first and present[first - 1].length > start - present[first - 1].start:
        first -= 1
    return slice(first, bisect.bisect_left(present, start + max(1, length), key=attrgetter("start")))


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
    spans = np.array([(one.start, min(one.start + one.length, _EVER)) for one in held], np.uint64)
    times = np.array([(one.begin, one.end) for one in held], np.uint64)
    bounds, moments = np.unique(spans), np.unique(times)
    first, last = np.searchsorted(bounds, spans).T
    begins, ends = np.searchsorted(moments, times).astype(np.int64).T + 1
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
    low, room = np.uint64(lowest), np.uint64(min(end - lowest, _EVER))
    found = (np.flatnonzero(words[at : at + _PIECE] - low < room) + at for at in range(0, len(words), _PIECE))
    return np.concatenate([np.empty(0, np.int64), *found])
