# SPDX-License-Identifier: Apache-2.0
"""Kernel code that comes and goes: an address means what was there at that time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profiler.perf_files import KALLSYMS, KERNEL_MARK, TOOLS, USER_MARK, PerfFileBuilder
from tests.profiler.test_perf_import import stacks

from zombiescope.profiler.files.reading import Choices, read_capture
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.perf.kernel_code import _lookup, spells
from zombiescope.profiler.perf.side_records import KernelSymbol

PLACE = 0xFFFFFFFFC0100000
CALLER = 0xFFFFFFFF81000150


def leaves(built: PerfFileBuilder) -> list[str]:
    return [stack[-1] for stack in stacks(import_perf(built.file(), TOOLS, "spells"))]


def sampled(built: PerfFileBuilder, *times: int, address: int = PLACE + 0x10) -> PerfFileBuilder:
    for time in times:
        built.sample(time, 0, 10, [KERNEL_MARK, address, CALLER])
    return built


def test_programs_at_one_address_are_told_apart_by_time() -> None:
    built = PerfFileBuilder().ksymbol(100, PLACE, 64, b"first").ksymbol(200, PLACE, 64, b"first", is_gone=True)
    built.ksymbol(300, PLACE, 80, b"second")
    sampled(built, 350, 150, 100, 250, 199, 200)
    assert leaves(built) == ["first", "first", "first", "[unknown]", "[unknown]", "second"]


def test_the_caller_of_a_program_keeps_its_name() -> None:
    built = sampled(PerfFileBuilder().ksymbol(100, PLACE, 64, b"first"), 150)
    assert stacks(import_perf(built.file(), TOOLS, "x"))[0][1:] == ["do_syscall_64", "first"]


def test_the_next_that_overlaps_ends_the_one_before() -> None:
    """The record of its going was lost."""
    built = PerfFileBuilder().ksymbol(100, PLACE, 64, b"first").ksymbol(300, PLACE - 16, 64, b"second")
    assert leaves(sampled(built, 200, 400)) == ["first", "second"]


def test_one_that_is_only_seen_to_go_was_there_before() -> None:
    built = PerfFileBuilder().ksymbol(200, PLACE, 64, b"early", is_gone=True)
    assert leaves(sampled(built, 100, 300)) == ["early", "[unknown]"]


def test_what_was_there_all_the_time_reaches_as_far_as_it_is_long() -> None:
    built = PerfFileBuilder().ksymbol(0, PLACE, 0x5000, b"long")
    sampled(built, 100, address=PLACE + 0x4FFF)
    assert leaves(sampled(built, 200, address=PLACE + 0x5000)) == ["long", "[unknown]"]


def test_where_no_record_says_more_kallsyms_is_believed() -> None:
    place = 0xFFFFFFFFC0000000  # nf_hook
    built = PerfFileBuilder().ksymbol(200, place, 64, b"program").ksymbol(300, place, 64, b"program", is_gone=True)
    assert leaves(sampled(built, 100, 250, 350, address=place + 8)) == ["nf_hook", "program", "nf_hook"]


def test_a_word_that_is_no_address_is_not_named_after_a_program() -> None:
    """Chains of code without frame pointers hold what lay on the stack: the highest bit and a small number, often."""
    built = PerfFileBuilder().ksymbol(100, PLACE, 64, b"first").ksymbol(200, PLACE, 64, b"first", is_gone=True)
    for word in (1 << 63, 1 << 63 | 5, 1 << 63 | 1 << 32):
        built.sample(150, 0, 10, [USER_MARK, 0x400100, word], mode=2)
    assert all("first" not in stack for stack in stacks(import_perf(built.file(), TOOLS, "x")))


def test_the_file_is_not_written_to(tmp_path: Path) -> None:
    built = sampled(PerfFileBuilder().ksymbol(100, PLACE, 64, b"first"), 150)
    file, saved = tmp_path / "perf.data", tmp_path / "kallsyms"
    file.write_bytes(built.file())
    saved.write_bytes(KALLSYMS)
    capture = read_capture(bytes(file), Choices(bytes(saved)))
    assert stacks(capture)[0][-1] == "first"
    assert file.read_bytes() == built.file()


RECORD = st.tuples(st.integers(0, 12), st.integers(1, 6), st.booleans())


@given(st.lists(RECORD, max_size=30))
@settings(max_examples=200)
def test_a_lookup_agrees_with_playing_the_records(records: list[tuple[int, int, bool]]) -> None:
    """Against the plain way: a set of present symbols, changed record by record."""
    told = [
        KernelSymbol(10 * number + 10, PLACE + start, length, f"s{number}", is_gone)
        for number, (start, length, is_gone) in enumerate(records)
        if not is_gone or any(start == other for other, _, gone in records[:number] if not gone)
    ]
    held = spells(told)
    if not held:
        return
    lookup = _lookup(held)
    present: list[KernelSymbol] = []
    for symbol in told:
        reach = range(symbol.start, symbol.start + symbol.length)
        if symbol.is_gone:
            present = [one for one in present if one.start != symbol.start]
        else:
            present = [one for one in present if one.start >= reach.stop or one.start + one.length <= reach.start]
            present.append(symbol)
        for address in range(PLACE, PLACE + 20):
            at = np.array([address], np.uint64), np.array([symbol.time + 5], np.uint64)
            found = int(lookup.find(*at)[0])
            expected = [one.name for one in present if one.start <= address < one.start + one.length]
            early = [one for one in held if one.begin == 0]
            if expected or not early:
                assert [held[found].name] * (found >= 0) == expected


@pytest.mark.parametrize("length", [0, 0xFFFFFFFF])
def test_lengths_that_lie_do_no_harm(length: int) -> None:
    built = PerfFileBuilder().ksymbol(100, (1 << 64) - 4096, length, b"x")
    for time in (100, 110, 120):
        built.ksymbol(time, PLACE, length, b"y")
    built.ksymbol(130, PLACE, 0, b"y", is_gone=True).ksymbol(140, PLACE, 64, b"z")
    assert len(leaves(sampled(built, 150))) == 1
