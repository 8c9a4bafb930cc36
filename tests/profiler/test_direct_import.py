# SPDX-License-Identifier: Apache-2.0
"""The import without numpy: the same captures as with it, step by step and as a whole, and never numpy."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bench.profile.fuzz import DIRECT, LIKE_DIRECT, difference, several
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profiler.perf_files import KALLSYMS, PerfFileBuilder, small_capture
from tools.build_scanner import build

from zombiescope.facts.gap import Gap
from zombiescope.profiler.files.columns import Column, Lent, Library, UnusualError
from zombiescope.profiler.files.columns import library as built_library
from zombiescope.profiler.files.direct import Made, import_directly
from zombiescope.profiler.files.direct_names import Told, kernel_table, names_in
from zombiescope.profiler.files.symbol_files import SymbolFiles
from zombiescope.profiler.formats.capture_file import decode
from zombiescope.profiler.perf.elf_symbols import BrokenElf, open_elf, read_symbols
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.perf.kernel_code import read_kallsyms
from zombiescope.profiler.stacks.capture import Capture

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler: the scanner is optional")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    target = tmp_path_factory.mktemp("built") / "libscanner.so"
    assert build(target, ("-Werror",))
    return Library(target)


def directly(library: Library, raw: bytes) -> tuple[Made, Capture]:
    made = import_directly(memoryview(bytearray(raw)), "x", DIRECT, library)
    return made, decode(b"".join(made.pieces))


@pytest.mark.parametrize("form", ["file", "pipe"])
def test_it_is_the_same_capture(library: Library, form: str) -> None:
    raw = getattr(small_capture(), form)()
    made, capture = directly(library, raw)
    with_numpy = import_perf(raw, LIKE_DIRECT, "x")
    assert difference(capture, with_numpy) == ""
    assert (made.about, made.rows, made.cores) == (with_numpy.about, len(with_numpy), with_numpy.core_count)
    assert made.seconds == with_numpy.seconds


HEADS = [(0xFE, 0, 0), (3, 1, 0), (20, 0, 0), (16, 0, 0), (21, 0, 0), (8, 0, 0), (8, 0, 1), (0, 0, 0)]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "body", [bytes(range(20)), bytes(range(8)), bytes([1, 0, 0, 0, 11, 251, 3, 0]), bytes([1, 2, 0x10])]
)
def test_what_is_marked_as_a_build_id_is_one_for_both_or_none(
    library: Library, head: tuple[int, int, int], body: bytes
) -> None:
    marked = struct.pack("<BBH20s", *head, body)
    built = PerfFileBuilder().mmap2(0, 10, 0x1000, 0x1000, 0, b"/bin/true", marked=marked)
    for time in range(1, 40):
        built.sample(time, 0, 10, [(1 << 64) - 512, 0x1100], mode=2)
    raw = built.file()
    made, capture = directly(library, raw)
    with_numpy = import_perf(raw, LIKE_DIRECT, "x")
    assert difference(capture, with_numpy) == ""
    assert made.about == with_numpy.about


def test_samples_of_several_events_are_left_to_the_other_way(library: Library) -> None:
    with pytest.raises(UnusualError):
        directly(library, several())


EVENTS = st.tuples(st.integers(0, 40), st.integers(1, 4), st.integers(0, 3), st.integers(0, 6))


@given(st.lists(EVENTS, min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_names_forks_and_maps_are_followed_alike(library: Library, events: list[tuple[int, int, int, int]]) -> None:
    built = PerfFileBuilder()
    for time, pid, what, place in events:
        start = 0x1000 * place
        match what:
            case 0:
                built.comm(time, pid, b"n%d" % place, is_exec=place % 2 == 0)
            case 1:
                built.fork(time, pid, place)
            case 2:
                built.mmap2(time, pid, start, 0x1800, 0x1000 * (place % 3), b"/bin/%d" % (time % 3))
            case _:
                built.ksymbol(time, (0xFFFFC000 << 32) + start, 0x1800, b"bpf_%d" % pid, is_gone=place % 2 == 0)
        kernel = (0xFFFFC000 << 32) + start + 0x10
        built.sample(time + 1, 0, pid, [(1 << 64) - 128, kernel, (1 << 64) - 512, start + 0x20, start + 0x1020])
    raw = built.file()
    assert difference(directly(library, raw)[1], import_perf(raw, LIKE_DIRECT, "x")) == ""


LINE = st.tuples(st.integers(0, 40), st.sampled_from("TtWwdD"), st.sampled_from(["a", "b\t[m]", "", "x y"]))


@given(st.lists(LINE, max_size=40), st.lists(st.integers(-5, 45), min_size=1, max_size=20))
@settings(max_examples=80, deadline=None)
def test_kernel_symbols_are_found_alike(
    library: Library, tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[int, str, str]], asked: list[int]
) -> None:
    text = "".join(f"{0xFFFFFFFF81000000 + at * 0x3000:016x} {kind} {name}\n" for at, kind, name in lines).encode()
    file = tmp_path_factory.mktemp("kernel") / "kallsyms"
    file.write_bytes(text)
    table, gaps = kernel_table(library, bytes(file), None)
    expected = read_kallsyms(text)
    if isinstance(expected, Gap):
        assert gaps == [expected]
        return
    assert table.starts.view[: table.total].tolist() == expected.starts.tolist()
    addresses = [0xFFFFFFFF81000000 + at * 0x3000 + 5 for at in asked]
    told: list[Told] = []
    found = in_kernel(library, table.starts, table.total, told, addresses)
    assert found == expected.find(np.array(addresses, np.uint64)).tolist()


def in_kernel(library: Library, starts: Column, count: int, told: list[Told], addresses: list[int]) -> list[int]:
    given = Column.of("Q", addresses)
    symbols, distinct = Column("I", len(addresses)), Column("q", count + len(told) + 1)
    lists = Column.of("Q", [one[0] for one in told]), Column.of("Q", [one[1] for one in told])
    library.call("zs_kernel", starts, count, *lists, len(told), given, len(addresses), symbols, distinct)
    return [max(-1, distinct.view[number]) for number in symbols.view]


def test_functions_of_files_are_found_alike_also_in_mutated_ones(library: Library, tmp_path: Path) -> None:
    """Whatever their tables say, both have the same names, or both call the file broken."""
    target = tmp_path / "libscanner.so"
    assert build(target)
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", stripped, target], check=True)
    dice, compared = random.Random(7), 0
    for number in range(300):
        raw = bytearray((target if number % 2 else stripped).read_bytes())
        for _ in range(number // 20):
            place, value = dice.randrange(len(raw) // 8) * 8, dice.choice((0, 1, 24, 1 << 31, (1 << 64) - 1, 4096))
            struct.pack_into("<Q", raw, place, value)
        offsets = [dice.randrange(len(raw)) for _ in range(100)]
        try:
            elf = open_elf(bytes(raw))
        except BrokenElf:
            continue
        try:
            symbols, names = names_in(library, elf, None, Column.of("Q", offsets), SymbolFiles(demangle=False))
        except BrokenElf:
            with pytest.raises(BrokenElf):
                read_symbols(elf, None)
            continue
        here = [names[number] for number in symbols.view]
        try:
            table = read_symbols(elf, None)
        except BrokenElf:
            continue
        found = table.find(np.array(offsets, np.uint64)).tolist()
        assert here == [table.name(symbol) if symbol >= 0 else "[unknown]" for symbol in found], number
        compared += 1
    assert compared > 100


def test_a_file_with_maps_that_cannot_be_is_left_to_the_other_way(library: Library) -> None:
    built = PerfFileBuilder().mmap2(0, 10, (1 << 64) - 4096, 8192, 0, b"/bin/x").sample(1, 0, 10, [(1 << 64) - 512, 5])
    with pytest.raises(UnusualError):
        directly(library, built.file())


@pytest.mark.parametrize("length", [0, 1, 7, 300])
def test_bytes_that_are_lent_are_where_they_are_said_to_be(library: Library, length: int) -> None:
    content = bytes(range(256)) * 2
    starts, names = Column("Q", 30), Column("q", 30)
    assert library.answer("zs_kallsyms", Lent(memoryview(content)[:length]), length, starts, names) == -4


def test_the_command_never_loads_numpy(tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes(small_capture().file())
    (tmp_path / "kallsyms").write_bytes(KALLSYMS)
    if built_library() is None:
        pytest.skip("the scanner is not built beside its sources")
    words = ["import", str(tmp_path / "perf.data"), "--kallsyms", str(tmp_path / "kallsyms"), "--output", str(tmp_path)]
    code = (
        "import sys; from zombiescope.cli.main import main\n"
        f"assert main(['profile', *{words!r}]) == 0\n"
        "assert 'numpy.linalg' not in sys.modules, 'numpy was loaded'"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    assert "400 samples, 2.0 s, 2 cores" in run.stdout


@pytest.mark.parametrize("value", [0, 1, 8, 24, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 16, (1 << 64) - 1])
def test_a_program_whose_headers_lie_is_broken_or_has_names(tmp_path: Path, value: int) -> None:
    """Any neighbour may run one while we record: no word of its headers may end an import."""
    target = tmp_path / "libscanner.so"
    assert build(target)
    whole = target.read_bytes()
    sections = struct.unpack_from("<Q", whole, 40)[0]
    opened = 0
    for place in (*range(32, 64, 8), *range(64, 64 + 56 * 8, 8), *range(sections, len(whole) - 7, 8)):
        raw = bytearray(whole)
        struct.pack_into("<Q", raw, place, value)
        try:
            elf = open_elf(bytes(raw))
            table = read_symbols(elf, None)
        except BrokenElf:
            continue
        found = table.find(np.array([0, 4096, len(raw), (1 << 64) - 1], np.uint64)).tolist()
        assert all(isinstance(table.name(symbol), str) for symbol in found if symbol >= 0)
        assert len(elf.build_id()) <= 128
        opened += 1
    assert opened > 100
