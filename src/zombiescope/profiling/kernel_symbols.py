# SPDX-License-Identifier: Apache-2.0
"""Names of kernel addresses, from the text of kallsyms. Names are cut out only for the symbols that are asked for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiling.arrays import I64, U8, U64
from zombiescope.profiling.perf_side import KernelSymbol

KERNEL = "[kernel]"
UNKNOWN = "[unknown]"
_FAR = 1 << 16
_BLOCK = np.uint64(4096)
"""What perf rounds the end of a last symbol to, whatever the page size of the machine."""
_CODE = np.frombuffer(b"TtWw", np.uint8)
_NIBBLE = np.zeros(256, np.uint8)
for _index, _digit in enumerate(b"0123456789abcdef"):
    _NIBBLE[_digit] = _index


class KernelSymbols(NamedTuple):
    starts: U64
    """Ascending."""
    name_at: I64
    """Where the name lies in the text; below zero: the symbol that a record of the capture told of."""
    text: bytes
    told: tuple[KernelSymbol, ...] = ()

    def find(self, addresses: U64) -> I64:
        """The symbol of each address, or -1. One with nothing near after it ends with its block: beyond lies no code of its."""
        found = np.searchsorted(self.starts, addresses, side="right").astype(np.int64) - 1
        if not len(self.starts):
            return found
        following = np.append(self.starts[1:], np.uint64(0xFFFFFFFFFFFFFFFF))
        block_end = (self.starts // _BLOCK + np.uint64(2)) * _BLOCK
        ends = np.where(following - self.starts > np.uint64(_FAR), block_end, following)
        mine = np.flatnonzero(self.name_at < 0)
        lengths = np.array([self.told[-1 - at].length for at in self.name_at[mine].tolist()], np.uint64)
        ends[mine] = np.minimum(self.starts[mine] + lengths, following[mine])
        return np.where(addresses < ends[np.maximum(found, 0)], found, -1)

    def name(self, symbol: int) -> tuple[str, str]:
        """Name and module."""
        if symbol < 0:
            return UNKNOWN, KERNEL
        at = int(self.name_at[symbol])
        if at < 0:
            return self.told[-at - 1].name, "[bpf]"
        line = self.text[at : self.text.find(b"\n", at)] if b"\n" in self.text[at : at + 512] else self.text[at:]
        name, _, module = line.partition(b"\t")
        return shown(name), shown(module.strip()) if module else KERNEL

    def told_also(self, told: list[KernelSymbol]) -> KernelSymbols:
        """With the programs and trampolines that came and went while recording."""
        latest = {symbol.start: index for index, symbol in enumerate(told)}
        new = {start: index for start, index in latest.items() if not self._begins(start)}
        if not new:
            return self
        starts = np.concatenate([self.starts, np.array(list(new), np.uint64)])
        places = np.concatenate([self.name_at, -1 - np.array(list(new.values()), np.int64)])
        order = np.argsort(starts, kind="stable")
        return KernelSymbols(starts[order], places[order], self.text, tuple(told))

    def _begins(self, start: int) -> bool:
        place = int(np.searchsorted(self.starts, np.uint64(start)))
        return place < len(self.starts) and int(self.starts[place]) == start

    def address_of(self, name: bytes) -> int | None:
        at = self.text.find(b" " + name + b"\n")
        return int(self.text[at - 18 : at - 2], 16) if at >= 18 else None


def no_kernel_symbols() -> KernelSymbols:
    return KernelSymbols(np.empty(0, np.uint64), np.empty(0, np.int64), b"")


def read_kallsyms(text: bytes) -> KernelSymbols | Gap:
    raw = np.frombuffer(text, np.uint8)
    line_ends = np.flatnonzero(raw == 10)
    starts = np.concatenate([np.zeros(1, np.int64), line_ends[:-1] + 1]) if len(line_ends) else line_ends
    starts = starts[line_ends - starts > 19]
    starts = starts[np.isin(raw[starts + 17], _CODE) & (raw[starts + 16] == 32) & (raw[starts + 18] == 32)]
    if not len(starts):
        return Gap("frames[].name", "the saved kernel symbols hold no function", "save /proc/kallsyms as root")
    addresses = _hexadecimal(raw, starts)
    if not addresses.any():
        return Gap(
            "frames[].name",
            "the kernel hides its addresses (all zero in kallsyms)",
            "record as root, or with CAP_SYSLOG",
        )
    order = np.argsort(addresses, kind="stable")
    addresses, names = addresses[order], starts[order] + 19
    first = np.ones(len(addresses), bool)
    first[1:] = addresses[1:] != addresses[:-1]
    return KernelSymbols(addresses[first], names[first], text)


def _hexadecimal(raw: U8, starts: I64) -> U64:
    value = np.zeros(len(starts), np.uint64)
    for digit in range(16):
        value = (value << np.uint64(4)) | _NIBBLE[raw[starts + digit]].astype(np.uint64)
    return value
