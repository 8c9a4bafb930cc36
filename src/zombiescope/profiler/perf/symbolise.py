# SPDX-License-Identifier: Apache-2.0
"""Addresses to frames: a function and the file it is from. Each distinct address once."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiler.perf.elf_symbols import ElfSymbols
from zombiescope.profiler.perf.engine import FIRST_KERNEL_ADDRESS
from zombiescope.profiler.perf.frames import UNKNOWN, Frames, is_made_while_running
from zombiescope.profiler.perf.kernel_code import KernelSymbols
from zombiescope.profiler.perf.processes import Spaces
from zombiescope.profiler.perf.side_records import Mapped
from zombiescope.profiler.stacks.arrays import I64, U32, U64, find_within, grouping, used_numbers

_MOST_LINES = 2_000_000


class JitMap(NamedTuple):
    starts: U64
    ends: U64
    names: tuple[bytes, ...]

    def find(self, addresses: U64) -> I64:
        return find_within(self.starts, self.ends, addresses)

    def name(self, symbol: int) -> str:
        return shown(self.names[symbol])


def read_jit_map(text: bytes) -> JitMap:
    """Later lines win: a compiler reuses addresses. Lines that make no sense are passed over."""
    latest: dict[int, tuple[int, bytes]] = {}
    for line in text.split(b"\n", _MOST_LINES)[:_MOST_LINES]:
        parts = line.split(b" ", 2)
        try:
            start, size = int(parts[0], 16), int(parts[1], 16)
            latest[start] = (start + size, parts[2])
        except (ValueError, IndexError):
            continue
        if not 0 <= start <= start + size < 1 << 64:
            del latest[start]
    starts = sorted(latest)
    return JitMap(
        np.array(starts, np.uint64),
        np.array([latest[start][0] for start in starts], np.uint64),
        tuple(latest[start][1] for start in starts),
    )


class SymbolSources(Protocol):
    def elf(self, path: str, build_id: str, pid: int) -> ElfSymbols | Gap:
        """Of the vdso, the release of the kernel that it is part of stands for a build id."""

    def jit(self, pid: int) -> JitMap | Gap | None:
        """Names of code made while running. A gap: there are some that cannot be used; None: there are none."""

    def plain(self, name: str) -> str:
        """A name as its author wrote it."""


def symbolise(
    addresses: U64, owners: I64, spaces: Spaces, kernel: KernelSymbols, sources: SymbolSources, table: Frames
) -> tuple[U32, dict[str, Gap]]:
    """The frame of each distinct (address, space) pair, and the files whose functions could not be named; `owners` are the spaces,
    of no meaning for kernel addresses."""
    unknown = table.add(UNKNOWN, UNKNOWN)
    frames = np.full(len(addresses), unknown, np.uint32)
    in_kernel = addresses >= np.uint64(FIRST_KERNEL_ADDRESS)
    distinct, inverse = used_numbers(kernel.find(addresses[in_kernel]) + 1, len(kernel.starts) + 1)
    named = np.array([table.add(*kernel.name(symbol - 1)) for symbol in distinct.tolist()], np.uint32)
    frames[in_kernel] = named[inverse] if len(named) else unknown
    gaps: dict[str, Gap] = {}
    for group in _by_file(np.flatnonzero(~in_kernel), addresses, owners, spaces):
        frames[group.places] = _name_group(group, addresses, sources, table, gaps)
    return frames, gaps


class _Group(NamedTuple):
    path: str
    build_id: str
    pid: int
    places: I64
    offsets: U64


def _by_file(places: I64, addresses: U64, owners: I64, spaces: Spaces) -> Iterator[_Group]:
    """Addresses with the file mapped there, gathered by file; those in code made while running, by process."""
    # The first is nobody's: who has no space, or one that was never told of, has no file either.
    here, mine_of = addresses[places], owners[places] + 1
    mine_of[(mine_of < 0) | (mine_of > len(spaces.all))] = 0
    order = grouping(mine_of, len(spaces.all) + 1)
    mapped: list[Mapped | None] = [None]  # the maps of each space after one that stands for what lies before the first
    pids, which = [0], np.zeros(len(places), np.int64)
    for mine in np.split(order, np.flatnonzero(np.diff(mine_of[order])) + 1) if len(order) else []:
        owner = int(mine_of[mine[0]]) - 1
        maps = spaces.all[owner].maps if owner >= 0 else []
        if maps:
            starts = np.array([one.start for one in maps], np.uint64)
            which[mine] = np.searchsorted(starts, here[mine], side="right") + len(mapped)
            mapped += [None, *maps]
            pids += [spaces.all[owner].pid] * (1 + len(maps))
    used, which = used_numbers(which, len(mapped))
    return _grouped(places, addresses, which, [(mapped[number], pids[number]) for number in used.tolist()])


def _grouped(places: I64, addresses: U64, which: I64, mapped: list[tuple[Mapped | None, int]]) -> Iterator[_Group]:
    """`mapped`: what lies at each address by its number, and whose; None: nothing."""
    files, mapped_by = dict[tuple[str, str, int], int](), list[int]()
    rows = [(0, 0, 0)] * len(mapped)
    for row, (one, pid) in enumerate(mapped):
        if one is None:
            continue
        made = is_made_while_running(one.path)
        key = files.setdefault((one.path, "" if made else one.build_id, pid if made else 0), len(files))
        if key == len(mapped_by):
            mapped_by.append(pid)
        rows[row] = (key, min(one.start + one.length, (1 << 64) - 1), (one.offset - one.start) % (1 << 64))
    number = np.array([key for key, _, _ in rows], np.int64)
    end, shift = (np.array([row[column] for row in rows], np.uint64) for column in (1, 2))
    known = np.flatnonzero(addresses[places] < end[which])
    known = known[grouping(number[which[known]], len(files))]
    paths = list(files)
    here, found = places[known], which[known]
    file_of = number[found]
    for part in np.split(np.arange(len(known)), np.flatnonzero(np.diff(file_of)) + 1) if len(known) else []:
        key = int(file_of[part[0]])
        yield _Group(*paths[key][:2], mapped_by[key], here[part], addresses[here[part]] + shift[found[part]])


def _name_group(group: _Group, addresses: U64, sources: SymbolSources, table: Frames, gaps: dict[str, Gap]) -> U32:
    is_made = is_made_while_running(group.path)
    source = sources.jit(group.pid) if is_made else sources.elf(group.path, group.build_id, group.pid)
    if isinstance(source, Gap):
        gaps[group.path] = source
    if source is None or isinstance(source, Gap):
        return np.full(len(group.places), table.add(UNKNOWN, group.path), np.uint32)
    symbols = source.find(addresses[group.places] if is_made else group.offsets)
    distinct, inverse = used_numbers(symbols + 1, len(source.starts) + 1)
    names = [sources.plain(source.name(symbol - 1)) if symbol else UNKNOWN for symbol in distinct.tolist()]
    return np.array([table.add(name, group.path) for name in names], np.uint32)[inverse]
