# SPDX-License-Identifier: Apache-2.0
"""Addresses to frames by the scanner, without numpy; as `perf/symbolise.py` does it, and with the same numbers."""

import struct
from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.profiler.files.columns import OUTSIDE, Column, Lent, Library
from zombiescope.profiler.files.symbol_files import RUNNING_KALLSYMS, SymbolFiles, boot_gap, broken_file, kallsyms_text
from zombiescope.profiler.perf.elf_symbols import (
    EXECUTABLE,
    MOST_SECTIONS,
    NO_BITS,
    OUTSIDE_OF_IT,
    SYMBOL_BYTES,
    BrokenElf,
    Elf,
    go_layout,
    go_section,
    name_in_file,
    read_symbols,
    stubs_of,
)
from zombiescope.profiler.perf.frames import (
    ALL_ZERO,
    KERNEL,
    NO_FUNCTION,
    OF_RECORDS,
    UNKNOWN,
    Frames,
    is_made_while_running,
    name_in,
)

_UNNAMED = -(1 << 63)
_NO_FUNCTION, _ALL_ZERO = -4, -5
_NO_GO = (0,) * 8
_LEAST_LINE_BYTES = 20
"""Of kallsyms."""
Told = tuple[int, int, str]


class Pairs(NamedTuple):
    """Distinct (address, space) pairs, and the frame of each."""

    total: int
    addresses: Column
    owners: Column
    frames: Column


class KernelTable(NamedTuple):
    text: bytes
    starts: Column
    name_at: Column
    total: int


def kernel_table(library: Library, saved: bytes | None, began: int | None) -> tuple[KernelTable, list[Gap]]:
    """As `kernel_symbols`."""
    path = saved or RUNNING_KALLSYMS
    text = kallsyms_text(path)
    none = KernelTable(b"", Column("Q", 0), Column("q", 0), 0)
    if isinstance(text, Gap):
        return none, [text]
    room = len(text) // _LEAST_LINE_BYTES + 1
    starts, name_at = Column("Q", room), Column("q", room)
    count = library.answer("zs_kallsyms", Lent(text), len(text), starts, name_at)
    if count in (_NO_FUNCTION, _ALL_ZERO):
        return none, [NO_FUNCTION if count == _NO_FUNCTION else ALL_ZERO]
    gap = boot_gap(text, path, began)
    return (none, [gap]) if gap else (KernelTable(text, starts, name_at, Library.checked(count)), [])


def name_kernel(library: Library, pairs: Pairs, kernel: KernelTable, told: list[Told], table: Frames) -> None:
    """`told`: start, length and name of symbols that records told of; of those at one place the last counts."""
    told = sorted({one[0]: one for one in told}.values())
    symbols, distinct = Column("I", pairs.total), Column("q", kernel.total + len(told) + 1)
    found = library.call(
        "zs_kernel",
        *(kernel.starts, kernel.total),
        *(Column.of("Q", [start for start, _, _ in told]), Column.of("Q", [length for _, length, _ in told])),
        *(len(told), pairs.addresses, pairs.total, symbols, distinct),
    )
    numbers = array("I")
    for at in distinct.view[:found]:
        if at == _UNNAMED:
            name = (UNKNOWN, KERNEL)
        elif at < 0:
            name = (told[-at - 1][2], OF_RECORDS)
        else:
            name = name_in(kernel.text, kernel.name_at.view[at])
        numbers.append(table.add(*name))
    library.call("zs_assign", pairs.frames, pairs.addresses, None, symbols, pairs.total, Lent(numbers), len(numbers))


class Group(NamedTuple):
    """Addresses in one file, or in what one process made while running."""

    path: str
    build_id: str
    pid: int
    places: Column
    """Which pairs."""
    first: int
    total: int


def name_group(
    library: Library, group: Group, offsets: Column, pairs: Pairs, sources: SymbolFiles, table: Frames
) -> Gap | None:
    """What is missing, where nothing is named."""
    here = Column("q", group.total)
    here.view[:] = group.places.view[group.first : group.first + group.total]
    if is_made_while_running(group.path):
        jit = sources.jit(group.pid)
        if jit is None or isinstance(jit, Gap):
            _all_unknown(library, here, group, pairs, table)
            return jit
        mine = _gathered(library, pairs.addresses, here, group.total)
        found = jit.find(np.frombuffer(mine.view, np.uint64))
        symbols, names = _numbered(found.tolist(), lambda symbol: sources.plain(jit.name(symbol)))
    else:
        opened = sources.open_elf(group.path, group.build_id, group.pid)
        if isinstance(opened, Gap):
            _all_unknown(library, here, group, pairs, table)
            return opened
        try:
            symbols, names = names_in(library, *opened, _gathered(library, offsets, here, group.total), sources)
        except BrokenElf as error:
            _all_unknown(library, here, group, pairs, table)
            return broken_file(error)
    numbers = array("I", [table.add(name, group.path) for name in names])
    library.call("zs_assign", pairs.frames, pairs.addresses, here, symbols, group.total, Lent(numbers), len(numbers))
    return None


def _gathered(library: Library, values: Column, places: Column, count: int) -> Column:
    made = Column("Q", count)
    library.answer("zs_gather", values, places, count, made)
    return made


def _all_unknown(library: Library, here: Column, group: Group, pairs: Pairs, table: Frames) -> None:
    numbers = array("I", [table.add(UNKNOWN, group.path)])
    library.call(
        "zs_assign",
        pairs.frames,
        pairs.addresses,
        here,
        Column("I", group.total, zeros=True),
        group.total,
        Lent(numbers),
        len(numbers),
    )


def _numbered(symbols: list[int], name: Callable[[int], str]) -> tuple[Column, list[str]]:
    """The distinct ones by their order, with the name of each; below zero is none."""
    distinct = sorted(set(symbols))
    number = {symbol: index for index, symbol in enumerate(distinct)}
    return Column.of("I", [number[one] for one in symbols]), [UNKNOWN if one < 0 else name(one) for one in distinct]


def names_in(
    library: Library, elf: Elf, debug: Elf | None, offsets: Column, sources: SymbolFiles
) -> tuple[Column, list[str]]:
    """From the table that `read_symbols` would choose; what few files have is left to that. Raises BrokenElf as it does."""
    for source in (elf, debug):
        if source is not None and b".symtab" in source.by_name:
            found = _names_by(library, elf, (source, b".symtab"), offsets, sources)
            if found is not None:
                return found
    go = _go_numbers(elf)
    if go is not None or b".gnu_debugdata" not in elf.by_name:
        table = (elf, b".dynsym" if go is None else b"")
        found = _names_by(library, elf, table, offsets, sources, go or _NO_GO)
        if found is not None:
            return found
    symbols = read_symbols(elf, debug)
    numbers = symbols.find(np.frombuffer(offsets.view, np.uint64)).tolist()
    return _numbered(numbers, lambda symbol: sources.plain(symbols.name(symbol)))


def _names_by(
    library: Library,
    elf: Elf,
    table: tuple[Elf, bytes],
    offsets: Column,
    sources: SymbolFiles,
    go: tuple[int, ...] | None = None,
) -> tuple[Column, list[str]] | None:
    source = table[0]
    count = len(offsets.view)
    symbols, names_at = Column("I", count), Column("q", count + 1)
    try:
        shape = struct.pack("<19q", *_shape(elf, *table), *(go or _NO_GO), go is not None)
        loads = struct.pack(f"<{3 * len(elf.loads)}Q", *(number for load in elf.loads for number in load))
    except struct.error:
        return None
    found = library.answer(
        "zs_elf",
        *(Lent(elf.raw), len(elf.raw), Lent(source.raw), len(source.raw)),
        *(Lent(shape), Lent(_code(source)), Lent(loads), len(elf.loads)),
        *(offsets, count, symbols, names_at),
    )
    if found == _NO_FUNCTION:
        return None
    if found == OUTSIDE:
        raise BrokenElf(OUTSIDE_OF_IT)
    places = names_at.view[: Library.checked(found)].tolist()
    return symbols, [UNKNOWN if at == _UNNAMED else sources.plain(name_in_file(elf, source.raw, at)) for at in places]


def _go_numbers(elf: Elf) -> tuple[int, ...] | None:
    found = go_section(elf)
    if found is None:
        return None
    section, text = found
    layout = go_layout(elf.raw, section.at, section.length, text)
    return None if layout is None else (section.at, min(section.length, len(elf.raw) - section.at), *layout)


def _shape(elf: Elf, source: Elf, name: bytes) -> list[int]:
    """In the order of the struct in naming.c."""
    table, stubs = source.by_name.get(name), stubs_of(elf)
    numbers = [0] * 10
    if table is not None and table.kind != NO_BITS and table.link < len(source.sections):
        strings = source.sections[table.link]
        numbers[:4] = table.at, table.length // SYMBOL_BYTES, strings.at, strings.length
    if stubs is not None:
        numbers[4:7] = stubs.relocations.at, stubs.total, stubs.first
        numbers[7:] = stubs.dynamic.at, stubs.dynamic.length // SYMBOL_BYTES, stubs.strings.at
    return numbers


def _code(source: Elf) -> bytes:
    """Which sections hold code, one byte each."""
    return bytes(bool(section.flags & EXECUTABLE) for section in source.sections).ljust(MOST_SECTIONS, b"\0")
