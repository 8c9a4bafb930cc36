# SPDX-License-Identifier: Apache-2.0
"""The scanner in C: the same answers as numpy, places outside refused, and clean under the compiler's sanitizers."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profiler.perf_files import TOOLS, small_capture
from tools.build_scanner import build

from zombiescope.profiler.files.scanner import Scanner
from zombiescope.profiler.perf.data_file import read_event
from zombiescope.profiler.perf.engine import Addresses, ArrayEngine
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.stacks.arrays import U32
from zombiescope.profiler.stacks.call_tree import CallTree
from zombiescope.profiler.stacks.capture import BrokenCapture

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler: the scanner is optional")
WORD = st.sampled_from([0, 1, 2, 0x401000, 0xFFFFFFFF81000200, (1 << 64) - 128, (1 << 64) - 512])
STACKS = st.lists(st.lists(WORD, max_size=6), min_size=1, max_size=40)


@pytest.fixture(scope="module")
def scanner(tmp_path_factory: pytest.TempPathFactory) -> Scanner:
    target = tmp_path_factory.mktemp("built") / "libscanner.so"
    assert build(target, ("-Werror",))
    return Scanner(target)


def paths(tree: CallTree, leaves: list[int]) -> list[list[int]]:
    """Each leaf's frames, found by going down into the child that holds it."""
    found = []
    for leaf in leaves:
        at, path = 0, []
        while at != leaf:
            child = at + 1
            while child + int(tree.size[child]) <= leaf:
                child += int(tree.size[child])
            path.append(int(tree.frame[child]))
            at = child
        found.append(path)
    return found


@given(STACKS, st.booleans())
@settings(max_examples=80)
def test_both_engines_give_the_same(scanner: Scanner, stacks: list[list[int]], callers: bool) -> None:
    lengths = np.array([len(one) for one in stacks], np.int64)
    words = np.array([word for one in stacks for word in one], np.uint64)
    starts = np.cumsum(lengths) - lengths
    salts = np.zeros(len(stacks), np.uint64)
    owners = np.arange(len(stacks), dtype=np.int64) % 2
    roots: U32 = (owners + 900).astype(np.uint32)
    answers = []
    for engine in (ArrayEngine(), scanner):
        ids, chosen = engine.distinct(words, starts, lengths, salts)
        assert [stacks[chosen[number]] for number in ids.tolist()] == stacks
        found = engine.addresses(words, starts, lengths, owners, callers=callers)
        frame_of = (found.addresses % np.uint64(800)).astype(np.uint32)
        tree, leaves = engine.tree(found, frame_of, roots)
        answers.append((len(chosen), len(tree.frame), paths(tree, leaves.tolist())))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("form", ["file", "pipe"])
def test_both_engines_read_the_same_file(scanner: Scanner, form: str) -> None:
    raw = getattr(small_capture(), form)()
    first, second = (import_perf(raw, TOOLS._replace(engine=engine), "x") for engine in (ArrayEngine(), scanner))
    for name in ("time", "cpu", "pid", "tid", "mode", "event", "comm", "cgroup", "idle"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    stacks = [
        [[one.frame_names[frame] for frame in path] for path in paths(one.tree, one.node.tolist())]
        for one in (first, second)
    ]
    assert stacks[0] == stacks[1]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=3000), st.integers(1, 4))
@settings(max_examples=20)
def test_equal_keys_have_one_number(scanner: Scanner, keys: list[int], times: int) -> None:
    repeated = np.array(keys * times, np.uint64)
    ids, chosen = scanner.numbers(repeated)
    assert len(chosen) == len(set(keys))
    assert np.array_equal(repeated[chosen][ids], repeated)


def test_a_sample_outside_is_refused(scanner: Scanner) -> None:
    event = read_event(struct.pack("<IIQQQQQ", 1, 64, 0, 99, 0x27, 0, 0))
    words = np.array([9 | 40 << 48, 0, 0, 0, 0], np.uint64)
    assert len(scanner.columns(words, np.array([0]), event, 0).time) == 1
    for place in (-1, 5, 2**40):
        with pytest.raises(BrokenCapture, match="outside"):
            scanner.columns(words, np.array([place]), event, 0)
    long = words.copy()
    long[0] = 9 | 48 << 48
    with pytest.raises(BrokenCapture, match="outside"):
        scanner.columns(long, np.array([0]), event, 0)


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, 99), (10, 1), (0, -1), (2**62, 2**62)])
def test_a_place_outside_is_refused(scanner: Scanner, start: int, length: int) -> None:
    words = np.zeros(10, np.uint64)
    one = np.array([start], np.int64), np.array([length], np.int64)
    with pytest.raises(BrokenCapture, match="outside"):
        scanner.distinct(words, *one, np.zeros(1, np.uint64))


def stacks_of(ids: list[int], start: int, length: int) -> Addresses:
    return Addresses(
        np.array(ids, np.uint32), np.array([start]), np.array([length]), np.zeros(1, np.uint64), np.zeros(1, np.int64)
    )


def test_an_id_without_a_frame_is_refused(scanner: Scanner) -> None:
    with pytest.raises(BrokenCapture, match="outside"):
        scanner.tree(stacks_of([0, 5, 0], 1, 1), np.zeros(1, np.uint32), np.zeros(1, np.uint32))


@pytest.mark.parametrize(
    ("start", "length"), [(0, 1), (1, 2), (2, 1), (3, 0), (-1, 1), (1, 2**40), (2**62, 1), (1, -1)]
)
def test_a_stack_without_room_for_its_root_and_its_end_is_refused(scanner: Scanner, start: int, length: int) -> None:
    with pytest.raises(BrokenCapture, match="outside"):
        scanner.tree(stacks_of([0, 0, 0], start, length), np.zeros(1, np.uint32), np.zeros(1, np.uint32))


def test_mutations_under_sanitizers(tmp_path: Path) -> None:
    """A few hundred here; `bench/profile/fuzz.py 10000 --scanner LIBRARY --sanitized` for more."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("the sanitizers of gcc are used")
    target = tmp_path / "libscanner.so"
    assert build(target, ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    runtime = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = os.environ | {
        "LD_PRELOAD": ":".join(runtime),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": str(ROOT / "src"),
    }
    run = subprocess.run(
        [sys.executable, ROOT / "bench/profile/fuzz.py", "200", "--seed", "3", "--scanner", target, "--sanitized"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert "200 mutations of 5 captures, 2 engines" in run.stdout


def test_addresses_chosen_for_the_table_are_named_all_the_same(scanner: Scanner) -> None:
    """All at one place of the table: more pairs than needed, and each the right one."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    chosen = np.arange(1, 20_001, dtype=np.uint64) * np.uint64(inverse)
    chosen = chosen[chosen < np.uint64(1 << 62)]
    words = np.concatenate([chosen, chosen])[: len(chosen) // 5 * 10]
    starts, lengths = np.arange(0, len(words), 10), np.full(len(words) // 10, 10)
    found = scanner.addresses(words, starts, lengths, np.zeros(len(starts), np.int64), callers=False)
    for stack in range(len(starts)):
        begin = int(found.starts[stack])
        mine = found.addresses[found.ids[begin : begin + 10]]
        assert mine[::-1].tolist() == words[stack * 10 : stack * 10 + 10].tolist()


def test_keys_chosen_for_the_table_are_numbered_all_the_same(scanner: Scanner) -> None:
    keys = np.repeat(np.arange(40_000, dtype=np.uint64) << np.uint64(40), 2)
    ids, chosen = scanner.numbers(keys)
    assert (keys[chosen][ids] == keys).all()
