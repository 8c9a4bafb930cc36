# SPDX-License-Identifier: Apache-2.0
"""Functions of an ELF file: .symtab, else .dynsym and the small table in .gnu_debugdata; those of a Go program by its own table of
them (.gopclntab), which stays when a program is stripped. Read in place, hostile files included."""

import struct
from typing import NamedTuple

import numpy as np

from zombiescope.facts.names import shown
from zombiescope.profiler.stacks.arrays import I64, U64, Numbers, find_within

OUTSIDE_OF_IT = "its tables lie outside of it"
_SYMBOL = [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
SYMBOL_BYTES = 24
_LOAD, NO_BITS, EXECUTABLE = 1, 8, 4
_FUNCTION, _INDIRECT_FUNCTION, _NO_TYPE = 2, 10, 0
MOST_SECTIONS, _MOST_DEBUG_BYTES = 65_536, 64 << 20
_LAST_SYMBOL_BYTES, _STUB_BYTES, _PLACE_BITS = 4096, 16, 40
_ADDRESSES = (1 << 64) - 1
_USUAL_NAME_BYTES, _LONGEST_NAME_BYTES = 128, 4096


class BrokenElf(Exception):  # noqa: N818 (it names the thing)
    pass


class Section(NamedTuple):
    flags: int
    address: int
    at: int
    length: int
    """Of what lies in the file: none of a section that it only names, and of one that would reach beyond its end."""
    link: int
    kind: int


class Elf(NamedTuple):
    raw: memoryview
    loads: tuple[tuple[int, int, int], ...]
    """File offset, address, length in the file."""
    sections: tuple[Section, ...]
    by_name: dict[bytes, Section]

    def build_id(self) -> str:
        note = self.by_name.get(b".note.gnu.build-id")
        if note is None or note.length < 16:
            return ""
        name_bytes, id_bytes, _ = struct.unpack_from("<III", self.raw, note.at)
        at = note.at + 12 + ((name_bytes + 3) & ~3)
        return bytes(self.raw[at : at + min(id_bytes, 64)]).hex() if name_bytes < note.length else ""

    def addresses(self, file_offsets: U64) -> U64:
        out = file_offsets.copy()
        for at, address, length in self.loads:
            within = file_offsets - np.uint64(at)
            inside = within < np.uint64(length)  # those before it are far beyond it here
            out[inside] = within[inside] + np.uint64(address)
        return out


class ElfSymbols(NamedTuple):
    elf: Elf
    starts: U64
    """Ascending addresses."""
    ends: U64
    name_at: I64
    """Where the name lies in `names`; below zero, counted from -1 down: a stub of the linker for the name there in the file."""
    names: memoryview

    def find(self, file_offsets: U64) -> I64:
        """The symbol at each offset of the file, or -1."""
        return find_within(self.starts, self.ends, self.elf.addresses(file_offsets))

    def name(self, symbol: int) -> str:
        return name_in_file(self.elf, self.names, int(self.name_at[symbol]))


def name_in_file(elf: Elf, names: memoryview, at: int) -> str:
    """Below zero: of a stub, whose name is in the file itself."""
    return shown(_text(elf.raw, -at - 1) + b"@plt" if at < 0 else _text(names, at))


def _text(raw: memoryview, at: int) -> bytes:
    name = bytes(raw[at : at + _USUAL_NAME_BYTES])
    return (name if b"\0" in name else bytes(raw[at : at + _LONGEST_NAME_BYTES])).split(b"\0", 1)[0]


def open_elf(raw: bytes | memoryview) -> Elf:
    buffer = memoryview(raw)
    if len(buffer) < 64 or bytes(buffer[:4]) != b"\x7fELF":
        raise BrokenElf("it is no ELF file")
    if buffer[4] != 2 or buffer[5] != 1:
        raise BrokenElf("it is not 64-bit little-endian")
    try:
        return _open(buffer)
    except (struct.error, OverflowError) as error:
        raise BrokenElf(OUTSIDE_OF_IT) from error


def _open(buffer: memoryview) -> Elf:
    programs_at, sections_at = struct.unpack_from("<QQ", buffer, 32)
    program_bytes, programs, section_bytes, sections, names_in = struct.unpack_from("<HHHHH", buffer, 54)
    segments = (struct.unpack_from("<IIQQQQ", buffer, programs_at + row * program_bytes) for row in range(programs))
    headers = [
        struct.unpack_from("<IIQQQQI", buffer, sections_at + row * section_bytes)
        for row in range(min(sections, MOST_SECTIONS))
    ]
    found: list[Section] = []
    for _, kind, flags, address, at, length, link in headers:
        inside = kind != NO_BITS and at + length <= len(buffer)
        found.append(Section(flags, address, 0 if kind == NO_BITS else at, length if inside else 0, link, kind))
    by_name: dict[bytes, Section] = {}
    if names_in < len(found):
        starts = [found[names_in].at + name for name, *_ in headers]
        names = [bytes(buffer[start : start + 64]).split(b"\0", 1)[0] for start in starts]
        by_name = dict(zip(names, found, strict=True))
    loads = ((at, address, min(length, len(buffer))) for kind, _, at, address, _, length in segments if kind == _LOAD)
    return Elf(buffer, tuple(loads), tuple(found), by_name)


def read_symbols(elf: Elf, debug: Elf | None = None) -> ElfSymbols:
    """The functions of a file, named by itself, by its separate debug file, or by the table packed into it; and the linker's
    stubs (`memcpy@plt`), which no table names. Raises BrokenElf."""
    try:
        return _with_stubs(_own_symbols(elf, debug))
    except (OverflowError, ValueError, IndexError) as error:
        raise BrokenElf(OUTSIDE_OF_IT) from error


def _own_symbols(elf: Elf, debug: Elf | None) -> ElfSymbols:
    for source in (elf, debug):
        symbols = _table(elf, source, b".symtab")
        if len(symbols.starts):
            return symbols
    if (found := go_section(elf)) is not None:
        section, text = found
        go = read_go_table(elf.raw, section.at, section.length, text)  # a stripped program still knows its functions
        if go is not None:
            return ElfSymbols(elf, *go, elf.raw)
    packed = _table(elf, _unpacked(elf, elf.by_name.get(b".gnu_debugdata")), b".symtab")
    # It leaves out what .dynsym has: names from both need one buffer.
    dynamic = _table(elf, elf, b".dynsym")
    if not len(packed.starts):
        return dynamic
    if not len(dynamic.starts):
        return packed
    names = memoryview(bytes(packed.names) + bytes(elf.raw))
    return _with(packed, dynamic.starts, dynamic.ends, dynamic.name_at + len(packed.names))._replace(names=names)


def _with(symbols: ElfSymbols, starts: U64, ends: U64, places: I64) -> ElfSymbols:
    """And these, by address."""
    starts, ends = np.concatenate([symbols.starts, starts]), np.concatenate([symbols.ends, ends])
    order = np.argsort(starts, kind="stable")
    places = np.concatenate([symbols.name_at, places])
    return symbols._replace(starts=starts[order], ends=ends[order], name_at=places[order])


def go_section(elf: Elf) -> tuple[Section, int] | None:
    """The table of a Go program, and where its code begins."""
    section = next((elf.by_name[name] for name in GO_SECTIONS if name in elf.by_name), None)
    text = elf.by_name.get(b".text")
    return None if section is None or section.kind == NO_BITS else (section, text.address if text else 0)


def _unpacked(elf: Elf, packed: Section | None) -> Elf | None:
    if packed is None:
        return None
    import lzma  # noqa: PLC0415 (few files have a packed table)

    try:
        unpacker = lzma.LZMADecompressor(memlimit=_MOST_DEBUG_BYTES * 2)
        return open_elf(unpacker.decompress(bytes(elf.raw[packed.at : packed.at + packed.length]), _MOST_DEBUG_BYTES))
    except (lzma.LZMAError, BrokenElf, EOFError):
        return None


def _table(elf: Elf, source: Elf | None, name: bytes) -> ElfSymbols:
    section = source.by_name.get(name) if source is not None else None
    if source is None or section is None or section.kind == NO_BITS or section.link >= len(source.sections):
        return ElfSymbols(elf, np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64), elf.raw)
    rows = np.frombuffer(source.raw, np.dtype(_SYMBOL), section.length // SYMBOL_BYTES, section.at)
    strings = source.sections[section.link]
    kind = rows["info"] & 15
    code = np.zeros(65_536, bool)
    code[[index for index, other in enumerate(source.sections) if other.flags & EXECUTABLE]] = True
    wanted = (kind == _FUNCTION) | (kind == _INDIRECT_FUNCTION)
    # Labels without a type, as hand-written assembly has them, count where code lies: perf does the same.
    wanted |= (kind == _NO_TYPE) & code[rows["section"]] & (rows["name"] != 0)
    wanted &= (rows["value"] != 0) & (rows["section"] != 0) & (rows["name"] < max(strings.length, 1))
    rows = rows[wanted]
    best = _first_of_each(rows)
    starts = rows["value"][best].astype(np.uint64)
    ends = starts + rows["size"][best].astype(np.uint64)
    # A symbol without a size reaches to the next one.
    ends = np.where(ends == starts, np.append(starts[1:], starts[-1:] + np.uint64(_LAST_SYMBOL_BYTES)), ends)
    return ElfSymbols(elf, starts, ends, rows["name"][best].astype(np.int64) + strings.at, source.raw)


def _first_of_each(rows: Numbers) -> I64:
    """Of several names for one address the global one, then the weak, then whichever comes first; by address, ascending."""
    if not len(rows):
        return np.empty(0, np.int64)
    binding, values = rows["info"] >> 4, np.ascontiguousarray(rows["value"])
    rank = np.where(binding == 1, 0, np.where(binding == 2, 1, 2)) << _PLACE_BITS | np.arange(len(rows))
    order = np.argsort(values)  # quicker than one that keeps the order of equals, which the rank has
    ordered = values[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return np.minimum.reduceat(rank[order], first) & ((1 << _PLACE_BITS) - 1)


class Stubs(NamedTuple):
    """One of 16 bytes a relocation."""

    relocations: Section
    total: int
    first: int
    """Its address."""
    dynamic: Section
    strings: Section


def stubs_of(elf: Elf) -> Stubs | None:
    """x86-64: in `.plt.sec`, or in `.plt` after its own first 16."""
    by_name = elf.by_name
    relocations, dynamic, secure = by_name.get(b".rela.plt"), by_name.get(b".dynsym"), by_name.get(b".plt.sec")
    place = secure or by_name.get(b".plt")
    if relocations is None or dynamic is None or place is None or dynamic.link >= len(elf.sections):
        return None
    before = 0 if secure else _STUB_BYTES
    room = max(0, place.length - before) // _STUB_BYTES
    return Stubs(
        relocations, min(relocations.length // 24, room), place.address + before, dynamic, elf.sections[dynamic.link]
    )


def _with_stubs(symbols: ElfSymbols) -> ElfSymbols:
    stubs = stubs_of(symbols.elf)
    if stubs is None:
        return symbols
    rows = np.frombuffer(symbols.elf.raw, "<u8", stubs.total * 3, stubs.relocations.at).reshape(-1, 3)
    dynamic, first = stubs.dynamic, np.uint64(stubs.first & _ADDRESSES)
    table = np.frombuffer(symbols.elf.raw, np.dtype(_SYMBOL), dynamic.length // SYMBOL_BYTES, dynamic.at)
    numbers = (rows[:, 1] >> np.uint64(32)).astype(np.int64)
    known = np.flatnonzero((numbers > 0) & (numbers < len(table)))
    at = stubs.strings.at + table["name"][numbers[known]].astype(np.int64)
    stubs_at = first + (known * _STUB_BYTES).astype(np.uint64)
    return _with(symbols, stubs_at, stubs_at + np.uint64(_STUB_BYTES), -1 - at)


GO_SECTIONS = (b".gopclntab", b".data.rel.ro.gopclntab")
_GO_1_2, _GO_1_16, _GO_1_18, _GO_1_20 = 0xFFFFFFFB, 0xFFFFFFFA, 0xFFFFFFF0, 0xFFFFFFF1
_MOST_FUNCTIONS = 1 << 22


class GoTable(NamedTuple):
    starts: U64
    """Ascending addresses."""
    ends: U64
    name_at: I64
    """From the begin of the file."""


class GoLayout(NamedTuple):
    many: int
    functions: int
    """Where the table of entries begins."""
    width: int
    """Of an entry's two numbers."""
    names: int
    base: int
    records: int
    """What the second number counts from."""


def go_layout(raw: memoryview, at: int, length: int, text: int) -> GoLayout | None:
    """`at`, `length`: of the table in the file; `text`: where its code begins, if the table does not say. None: it is none."""
    table = raw[at : at + length]
    try:
        found = _go_layout_in(table, text)
    except struct.error:
        return None
    if found is None or not 0 < found.many <= _MOST_FUNCTIONS:
        return None
    return found if found.functions + (2 * found.many + 1) * found.width <= len(table) else None


def _go_layout_in(table: memoryview, text: int) -> GoLayout | None:
    magic, zero, _, pointer = struct.unpack_from("<IHBB", table)
    if zero or pointer != 8:
        return None
    if magic in (_GO_1_18, _GO_1_20):
        count, _, text_start, names, _, _, _, functions = struct.unpack_from("<8Q", table, 8)
        return GoLayout(count, functions, 4, names, text_start or text, functions)
    if magic == _GO_1_16:
        count, _, names, _, _, _, functions = struct.unpack_from("<7Q", table, 8)
        return GoLayout(count, functions, 8, names, 0, functions)
    if magic == _GO_1_2:
        return GoLayout(struct.unpack_from("<Q", table, 8)[0], 16, 8, 0, 0, 0)
    return None


def read_go_table(raw: memoryview, at: int, length: int, text: int) -> GoTable | None:
    """As `go_layout`."""
    layout = go_layout(raw, at, length, text)
    try:
        return None if layout is None else _go_table(raw[at : at + length], at, layout)
    except (ValueError, OverflowError):
        return None


def _go_table(table: memoryview, at: int, layout: GoLayout) -> GoTable:
    count, width = layout.many, layout.width
    entries = np.frombuffer(table, f"<u{width}", 2 * count + 1, layout.functions).astype(np.int64)
    starts, records, following = entries[0:-1:2], entries[1::2] + layout.records, entries[2::2]
    inside = (records >= 0) & (records <= len(table) - width - 4) & (starts >= 0) & (following > starts)
    bytes_ = np.frombuffer(table, np.uint8)
    places = records[inside] + width
    offsets = np.zeros(len(places), np.int64)
    for byte in range(4):
        offsets |= bytes_[places + byte].astype(np.int64) << (8 * byte)
    name_at = offsets + layout.names
    known = name_at < len(table)
    starts, ends = starts[inside][known] + layout.base, following[inside][known] + layout.base
    order = np.argsort(starts, kind="stable")
    return GoTable(
        starts[order].astype(np.uint64), ends[order].astype(np.uint64), (name_at[known][order] + at).astype(np.int64)
    )
