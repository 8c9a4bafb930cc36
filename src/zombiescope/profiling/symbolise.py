# SPDX-License-Identifier: Apache-2.0
"""Addresses to frames: a function and the file it is from. Each distinct address once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.profiling.address_spaces import Spaces
from zombiescope.profiling.arrays import I64, U32, U64
from zombiescope.profiling.elf_symbols import ElfSymbols
from zombiescope.profiling.engine import FIRST_KERNEL_ADDRESS
from zombiescope.profiling.jit_map import JitMap
from zombiescope.profiling.kernel_symbols import UNKNOWN, KernelSymbols


class SymbolSources(Protocol):
    def elf(self, path: str, build_id: str, pid: int) -> ElfSymbols | Gap: ...

    def jit(self, pid: int) -> JitMap | None: ...


@dataclass(slots=True)
class Frames:
    """Every (function, file) once. Grows while a capture is read."""

    names: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    _known: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, name: str, file: str) -> int:
        number = self._known.setdefault((name, file), len(self.names))
        if number == len(self.names):
            self.names.append(name)
            self.files.append(file)
        return number


@dataclass(slots=True)
class Symbolised:
    frames: U32
    """For each address."""
    unnamed_files: dict[str, Gap]
    """Files whose functions could not be named."""


def symbolise(
    addresses: U64, owners: I64, spaces: Spaces, kernel: KernelSymbols, sources: SymbolSources, table: Frames
) -> Symbolised:
    """Frames of distinct (address, space) pairs; `owners` are the spaces, of no meaning for kernel addresses."""
    unknown = table.add(UNKNOWN, UNKNOWN)
    frames = np.full(len(addresses), unknown, np.uint32)
    in_kernel = addresses >= np.uint64(FIRST_KERNEL_ADDRESS)
    symbols = kernel.find(addresses[in_kernel])
    distinct, inverse = np.unique(symbols, return_inverse=True)
    named = np.array([table.add(*kernel.name(symbol)) for symbol in distinct.tolist()], np.uint32)
    frames[in_kernel] = named[inverse] if len(named) else unknown
    places = np.flatnonzero(~in_kernel)
    gaps: dict[str, Gap] = {}
    for group in _by_file(places, addresses, owners, spaces):
        frames[group.places] = _name_group(group, addresses, sources, table, gaps)
    return Symbolised(frames, gaps)


@dataclass(frozen=True, slots=True)
class _Group:
    path: str
    build_id: str
    pid: int
    places: I64
    offsets: U64


def _by_file(places: I64, addresses: U64, owners: I64, spaces: Spaces) -> list[_Group]:
    """Addresses with the file mapped there, gathered by file; those in code made while running, by process."""
    gathered: dict[tuple[str, str, int], list[tuple[I64, U64]]] = defaultdict(list)
    mapped_by: dict[str, int] = {}
    order = places[np.argsort(owners[places], kind="stable")]
    bounds = np.flatnonzero(np.diff(owners[order])) + 1
    for mine in np.split(order, bounds) if len(order) else []:
        owner = int(owners[mine[0]])
        maps = spaces.all[owner].maps if 0 <= owner < len(spaces.all) else []
        if not maps:
            continue
        starts = np.array([one.start for one in maps], np.uint64)
        found = np.searchsorted(starts, addresses[mine], side="right").astype(np.int64) - 1
        for number in np.unique(found[found >= 0]).tolist():
            one = maps[number]
            here = mine[found == number]
            here = here[addresses[here] < np.uint64(min(one.start + one.length, (1 << 64) - 1))]
            made_while_running = _is_made_while_running(one.path)
            pid = spaces.all[owner].pid
            key = (one.path, "", pid) if made_while_running else (one.path, one.build_id, 0)
            shift = np.uint64((one.offset - one.start) % (1 << 64))
            gathered[key].append((here, addresses[here] + shift))
            mapped_by.setdefault(one.path, pid)
    return [
        _Group(
            path,
            build_id,
            pid or mapped_by[path],
            np.concatenate([part for part, _ in parts]),
            np.concatenate([part for _, part in parts]),
        )
        for (path, build_id, pid), parts in gathered.items()
    ]


def _is_made_while_running(path: str) -> bool:
    return not path.startswith("/") or path.startswith(("//anon", "/memfd:", "/dev/zero"))


def _name_group(group: _Group, addresses: U64, sources: SymbolSources, table: Frames, gaps: dict[str, Gap]) -> U32:
    if _is_made_while_running(group.path):
        jit = sources.jit(group.pid)
        if jit is None:
            return np.full(len(group.places), table.add(UNKNOWN, group.path), np.uint32)
        return _named(jit.find(addresses[group.places]), jit, group.path, table)
    elf = sources.elf(group.path, group.build_id, group.pid)
    if isinstance(elf, Gap):
        gaps[group.path] = elf
        return np.full(len(group.places), table.add(UNKNOWN, group.path), np.uint32)
    return _named(elf.find(group.offsets), elf, group.path, table)


def _named(symbols: I64, source: ElfSymbols | JitMap, path: str, table: Frames) -> U32:
    distinct, inverse = np.unique(symbols, return_inverse=True)
    numbers = [table.add(source.name(symbol) if symbol >= 0 else UNKNOWN, path) for symbol in distinct.tolist()]
    return np.array(numbers, np.uint32)[inverse]
