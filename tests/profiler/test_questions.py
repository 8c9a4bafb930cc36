# SPDX-License-Identifier: Apache-2.0
"""Laws of the questions: counts add up, the tree is the stacks, a stored capture is the same capture."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profiler.perf_files import TOOLS, small_capture

from zombiescope.profiler.formats.capture_file import decode, encode
from zombiescope.profiler.formats.gathering import Gathering
from zombiescope.profiler.perf.engine import Interner
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.stacks.arrays import dense_ids, sequence_hashes
from zombiescope.profiler.stacks.call_tree import build_tree
from zombiescope.profiler.stacks.capture import (
    KERNEL_MODE,
    About,
    BrokenCapture,
    Capture,
    Selection,
    is_kernel_file,
    rows_of,
)
from zombiescope.profiler.stacks.flame_graph import FlameGraph, difference, flame_graph, paths, shape_of
from zombiescope.profiler.stacks.heat_map import heat_map
from zombiescope.profiler.stacks.saturation import Moment, explain, find_moments

STACKS = st.lists(st.lists(st.sampled_from("abcd"), max_size=6).map(tuple), min_size=1, max_size=60)


def gathered(stacks: list[tuple[str, ...]]) -> Capture:
    gathering = Gathering()
    for place, stack in enumerate(stacks):
        number = gathering.stack_number("t", [(name, "f") for name in stack])
        gathering.add(number, "t", time=place * 10_000_000, cpu=place % 3, thread=(1, 1))
    return gathering.capture(About("test", rate_hz=100.0))


def totals(graph: FlameGraph, capture: Capture) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    names: dict[int, tuple[str, ...]] = {0: ()}
    for entry in range(1, len(graph.total)):
        names[entry] = (*names[int(graph.parent[entry])], capture.frame_names[int(graph.frame[entry])])
        found[names[entry]] = int(graph.total[entry])
    return found


def counted(stacks: list[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    return dict(Counter(("t", *stack)[:depth] for stack in stacks for depth in range(1, len(stack) + 2)))


@given(STACKS)
def test_a_flame_graph_counts_every_prefix(stacks: list[tuple[str, ...]]) -> None:
    capture = gathered(stacks)
    graph = flame_graph(capture, shape_of(capture.tree), Selection(), narrowest=0)
    assert totals(graph, capture) == counted(stacks)
    assert int(graph.self.sum()) == len(stacks)


@given(STACKS, st.integers(0, 60), st.integers(0, 60))
def test_any_range_is_the_flame_graph_of_its_samples(stacks: list[tuple[str, ...]], one: int, other: int) -> None:
    capture = gathered(stacks)
    low, high = sorted((one, other))
    graph = flame_graph(capture, shape_of(capture.tree), Selection(low / 100, high / 100), narrowest=0)
    assert totals(graph, capture) == counted(stacks[low:high])


@given(STACKS, st.integers(1, 59))
def test_a_difference_has_both_counts(stacks: list[tuple[str, ...]], cut: int) -> None:
    capture = gathered(stacks)
    graph = difference(
        capture, shape_of(capture.tree), Selection(None, cut / 100), Selection(cut / 100, None), narrowest=0
    )
    assert graph.before is not None
    assert graph.before_samples + graph.samples == len(stacks)
    before = {
        key: value
        for key, value in totals(
            FlameGraph(graph.parent, graph.depth, graph.frame, graph.before, graph.self), capture
        ).items()
        if value
    }
    assert before == counted(stacks[:cut])


@given(STACKS)
def test_the_tree_gives_every_stack_back(stacks: list[tuple[str, ...]]) -> None:
    capture = gathered(stacks)
    found = [tuple(capture.frame_names[f] for f in path[1:]) for path in paths(capture, capture.node.astype(np.int64))]
    assert found == stacks


def test_equal_stacks_share_a_node_even_when_given_twice() -> None:
    frames = np.array([1, 2, 1, 2, 1], np.uint32)
    tree, leaves = build_tree(frames, np.array([0, 2, 4]), np.array([2, 2, 1]))
    assert leaves.tolist() == [2, 2, 1]
    assert tree.size.tolist() == [3, 2, 1]


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=60))
def test_a_node_is_as_large_as_what_begins_with_its_frames(stacks: list[list[int]]) -> None:
    lengths = np.array([len(one) for one in stacks])
    tree, leaves = build_tree(
        np.array([frame for one in stacks for frame in one], np.uint32), np.cumsum(lengths) - lengths, lengths
    )
    beginnings = {tuple(one[:depth]) for one in stacks for depth in range(len(one) + 1)}
    assert len(tree.frame) == len(beginnings)
    for stack, leaf in zip(stacks, leaves.tolist(), strict=True):
        assert tree.size[leaf] == sum(one[: len(stack)] == tuple(stack) for one in beginnings)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=300), st.integers(1, 4))
def test_dense_ids_are_equal_for_equal_keys_only(keys: list[int], times: int) -> None:
    repeated = np.array(keys * times, np.uint64)
    ids, chosen = dense_ids(repeated)
    assert len(set(keys)) == len(chosen)
    assert (repeated[chosen][ids] == repeated).all() if len(repeated) else not len(ids)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=200), st.integers(1, 40), st.booleans())
def test_numbers_given_piece_by_piece_are_equal_for_equal_keys_only(keys: list[int], piece: int, crowded: bool) -> None:
    # A crowded table: keys below 1024 with one slot each among few sends many through every way that there is.
    every = np.array([key % 1024 if crowded else key for key in keys * 2], np.uint64)
    interner = Interner(1)
    numbers: list[int] = []
    firsts: list[int] = []
    for begin in range(0, len(every), piece):
        given, new = interner.add(every[begin : begin + piece])
        numbers += given.tolist()
        firsts += (new + begin).tolist()
    assert [every[firsts[number - 1]] for number in numbers] == every.tolist()
    assert len(firsts) == len(set(every.tolist()))


def test_very_many_distinct_keys_overflow_the_table_and_keep_their_numbers() -> None:
    keys = np.random.default_rng(1).integers(0, 2**63, 20_000).astype(np.uint64)
    interner = Interner(1)
    first, new = interner.add(keys)
    again, none = interner.add(keys[::-1])
    assert np.array_equal(again[::-1], first)
    assert np.array_equal(keys[new][first - 1], keys)
    assert not len(none)


@given(st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=40))
def test_equal_sequences_have_equal_hashes(sequences: list[list[int]]) -> None:
    lengths = np.array([len(one) for one in sequences])
    words = np.array([word for one in sequences for word in one], np.uint64)
    hashes = sequence_hashes(words, np.cumsum(lengths) - lengths, lengths, np.zeros(len(sequences), np.uint64)).tolist()
    assert len(set(hashes)) == len({tuple(one) for one in sequences})
    assert len(set(zip(hashes, map(tuple, sequences), strict=True))) == len(set(hashes))


@given(STACKS, st.integers(1, 100))
def test_a_heat_map_holds_every_sample_once(stacks: list[tuple[str, ...]], rows: int) -> None:
    capture = gathered(stacks)
    found = heat_map(capture, Selection(), rows=rows)
    assert int(found.counts.sum()) >= len(stacks) - 1  # the last may begin the column after the end
    assert int(found.summed().sum()) == int(found.counts.sum())


@given(STACKS)
@settings(max_examples=30)
def test_a_stored_capture_is_the_same(stacks: list[tuple[str, ...]]) -> None:
    capture = gathered(stacks)
    again = decode(b"".join(encode(capture)))
    for name in ("time", "cpu", "pid", "tid", "mode", "comm", "node", "idle"):
        assert np.array_equal(getattr(again, name), getattr(capture, name)), name
    assert again.frame_names == capture.frame_names
    assert again.about == capture.about
    assert np.array_equal(again.tree.size, capture.tree.size)


def test_what_a_terminal_would_obey_is_escaped_when_it_is_read() -> None:
    capture = replace(gathered([("a\x1b[2J",)]), comms=("\x9b31m",), events=("\u202e",))
    again = decode(b"".join(encode(replace(capture, about=capture.about._replace(host="\x1b]0;x\x07")))))
    texts = (*again.frame_names, *again.comms, *again.events, again.about.host or "")
    assert "a\\x1b[2J" in texts and all(text.isprintable() for text in texts)


def test_what_looks_like_noise_is_stored_as_it_is() -> None:
    dice = np.random.default_rng(3)
    capture = gathered([("a",), ("a", "b")] * 20_000)
    time = np.sort(dice.integers(0, 2**40, len(capture)).astype(np.uint64))
    noisy = replace(capture, time=time, cpu=dice.integers(0, 65535, len(capture)).astype(np.uint16))
    again = decode(b"".join(encode(noisy)))
    assert np.array_equal(again.time, noisy.time)
    assert np.array_equal(again.cpu, noisy.cpu)


def test_a_damaged_store_is_refused_at_every_byte() -> None:
    raw = b"".join(encode(gathered([("a",), ("a", "b")] * 20)))
    for place in range(0, len(raw), 3):
        damaged = raw[:place] + bytes([raw[place] ^ 0xFF]) + raw[place + 1 :]
        with pytest.raises(BrokenCapture):
            decode(damaged)
    for end in range(0, len(raw), 7):
        with pytest.raises(BrokenCapture):
            decode(raw[:end])


def test_filters_choose_samples() -> None:
    capture = import_perf(small_capture().file(), TOOLS, "small")
    for selection, expected in (
        (Selection(), 201),
        (Selection(with_idle=True), 400),
        (Selection(cpus=(1,)), 200),
        (Selection(side="user"), 100),
        (Selection(side="kernel", comms=("read*",)), 100),
        (Selection(begin=1.0, pids=(10,)), 100),
        (Selection(pids=(99,)), 0),
    ):
        rows, wanted = rows_of(capture, selection)
        assert (rows.stop - rows.start if wanted is None else int(wanted.sum())) == expected, selection


def test_the_moment_a_core_leaves_its_baseline_is_found_and_explained() -> None:
    capture = import_perf(small_capture().file(), TOOLS, "small")
    moments = find_moments(capture)
    assert [(one.cpu, round(one.begin, 1), round(one.end, 1)) for one in moments] == [(1, 1.0, 2.0)]
    found = explain(capture, shape_of(capture.tree), moments[0])
    assert found.comm == "reader"
    assert found.stack == ("do_syscall_64", "vfs_read")
    assert found.stack_share == 1.0
    assert "vfs_read" in [risen.name for risen in found.risen]


def test_a_moment_with_many_ways_into_the_kernel_names_the_widest() -> None:
    gathering = Gathering()
    ways = {"page fault": 4, "system call": 3, "interrupt": 3}
    numbers = [
        gathering.stack_number("reader", [("main", "/bin/reader"), (way, "[kernel]"), (f"end of {way}", "[ena]")])
        for way, count in ways.items()
        for _ in range(count)
    ]
    for sample, number in enumerate(numbers):
        gathering.add(number, "reader", time=sample * 10_000_000, cpu=0, thread=(10, 10))
    made = gathering.capture(About("made", rate_hz=100.0))
    capture = replace(made, mode=np.full(len(made), KERNEL_MODE, np.uint8))
    found = explain(capture, shape_of(capture.tree), Moment(0, 0.0, 0.2, 1.0, 0.1, 9.0))
    assert found.stack == ("page fault", "end of page fault")
    assert found.stack_share == 0.4


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("[kernel]", True),
        ("[ena]", True),
        ("[bpf]", True),
        ("[vdso]", False),
        ("[unknown]", False),
        ("/bin/a", False),
        ("", False),
    ],
)
def test_modules_are_kernel_and_maps_of_a_process_are_not(file: str, expected: bool) -> None:
    assert is_kernel_file(file) is expected
