# SPDX-License-Identifier: Apache-2.0
"""Functions of Go programs, stripped ones too: the three layouts of their table, damaged ones, and a real program."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.profiler.files.symbol_files import SymbolFiles
from zombiescope.profiler.perf.elf_symbols import GoTable, _table, open_elf, read_go_table, read_symbols
from zombiescope.profiler.perf.frames import go_name

NAMES = (b"main.main", b"gopkg.in/yaml%2ev2.(*Decoder).Decode", b"runtime.goexit")
TEXT = 0x401000
BEGINS = (0, 0x40, 0x200, 0x280)
"""And where the last one ends."""


def header(magic: int, *numbers: int) -> bytes:
    return struct.pack("<IHBB", magic, 0, 1, 8) + struct.pack(f"<{len(numbers)}Q", *numbers)


def name_table() -> tuple[bytes, list[int]]:
    offsets, table = [], b""
    for name in NAMES:
        offsets.append(len(table))
        table += name + b"\0"
    return table + b"\0" * (-len(table) % 8), offsets


def build(magic: int) -> bytes:
    names, offsets = name_table()
    if magic == 0xFFFFFFFB:  # 1.2: everything counts from the begin of the table
        entries_at, records_at = 16, 16 + 8 * 7
        names_at = records_at + 16 * 3
        numbers = [n for i in range(3) for n in (TEXT + BEGINS[i], records_at + 16 * i)] + [TEXT + BEGINS[3]]
        records = b"".join(struct.pack("<QiI", TEXT + BEGINS[i], names_at + offsets[i], 0) for i in range(3))
        assert entries_at == 16
        return header(magic, 3) + struct.pack("<7Q", *numbers) + records + names
    if magic == 0xFFFFFFFA:  # 1.16
        names_at = 8 + 8 * 7
        functions = names_at + len(names)
        numbers = [n for i in range(3) for n in (TEXT + BEGINS[i], 56 + 16 * i)] + [TEXT + BEGINS[3]]
        records = b"".join(struct.pack("<QiI", TEXT + BEGINS[i], offsets[i], 0) for i in range(3))
        head = header(magic, 3, 1, names_at, 0, 0, 0, functions)
        return head + names + struct.pack("<7Q", *numbers) + records
    names_at = 8 + 8 * 8
    functions = names_at + len(names)
    numbers = [n for i in range(3) for n in (BEGINS[i], 28 + 8 * i)] + [BEGINS[3]]
    records = b"".join(struct.pack("<Ii", BEGINS[i], offsets[i]) for i in range(3))
    return header(magic, 3, 1, TEXT, names_at, 0, 0, 0, functions) + names + struct.pack("<7I", *numbers) + records


@pytest.mark.parametrize("magic", [0xFFFFFFFB, 0xFFFFFFFA, 0xFFFFFFF0, 0xFFFFFFF1])
def test_every_layout_names_its_functions(magic: int) -> None:
    raw = b"before" + build(magic)
    table = read_go_table(memoryview(raw), 6, len(raw) - 6, 0)
    assert isinstance(table, GoTable)
    assert table.starts.tolist() == [TEXT + begin for begin in BEGINS[:3]]
    assert table.ends.tolist() == [TEXT + begin for begin in BEGINS[1:]]
    assert [raw[at:].split(b"\0")[0] for at in table.name_at.tolist()] == list(NAMES)


def test_code_that_begins_where_the_section_does() -> None:
    """A program that can lie anywhere has a zero there, until it is loaded."""
    raw = bytearray(build(0xFFFFFFF1))
    struct.pack_into("<Q", raw, 8 + 16, 0)
    table = read_go_table(memoryview(bytes(raw)), 0, len(raw), 0x7000)
    assert table is not None
    assert table.starts.tolist()[0] == 0x7000


@given(st.data())
def test_a_damaged_table_gives_a_table_or_nothing(data: st.DataObject) -> None:
    raw = bytearray(build(data.draw(st.sampled_from([0xFFFFFFFB, 0xFFFFFFFA, 0xFFFFFFF0]))))
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    found = read_go_table(memoryview(cut), 0, len(cut), 0)
    assert found is None or bool(np.all(found.name_at < len(cut)))


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("gopkg.in/yaml%2ev2.(*Decoder).Decode", "gopkg.in/yaml.v2.(*Decoder).Decode"),
        ("main.main", "main.main"),
        ("odd%2ename%0aevil", "odd.name%0aevil"),
        ("100%25", "100%25"),
    ],
)
def test_a_name_as_its_author_wrote_it(written: str, plain: str) -> None:
    assert go_name(written) == plain
    assert SymbolFiles().plain(written) == plain
    assert SymbolFiles(demangle=False).plain(written) == written


REAL = Path("/usr/bin/prometheus")


@pytest.mark.skipif(not REAL.exists(), reason="no Go program is installed here")
def test_a_real_program_agrees_with_what_its_linker_exports() -> None:
    elf = open_elf(REAL.read_bytes())
    symbols, exported = read_symbols(elf), _table(elf, elf, b".dynsym")
    ours = {symbols.name(place): int(at) for place, at in enumerate(symbols.starts.tolist())}
    assert len(ours) > 10_000
    theirs = {exported.name(place): int(at) for place, at in enumerate(exported.starts.tolist())}
    both = ours.keys() & theirs.keys()
    assert len(both) >= 3
    assert {name: ours[name] for name in both} == {name: theirs[name] for name in both}
