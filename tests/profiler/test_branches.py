# SPDX-License-Identifier: Apache-2.0
"""An archived tree counts as one would by hand: every stack as a list of functions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.profiler.stacks.across_nodes import Counted, Merged, nesting, of_nodes, passed_on
from zombiescope.profiler.stacks.branches import (
    Branches,
    Rows,
    boxes,
    called_again,
    checked,
    functions,
    holding,
)
from zombiescope.profiler.stacks.call_tree import build_tree
from zombiescope.profiler.stacks.capture import BrokenCapture
from zombiescope.profiler.stacks.flame_graph import shape_of

Stacks = dict[tuple[int, ...], int]
STACKS = st.dictionaries(
    st.lists(st.integers(0, 4), min_size=1, max_size=6).map(tuple), st.integers(1, 9), min_size=1, max_size=12
)
KEYS = (*((f"f{number}", "[kernel]") for number in range(5)), ("all", ""))


def branches_of(stacks: Stacks) -> tuple[Branches, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    lengths = np.array([len(stack) for stack in stacks], np.int64)
    frames = np.array([frame for stack in stacks for frame in stack], np.uint32)
    tree, leaves = build_tree(frames, np.cumsum(lengths) - lengths, lengths)
    counts = np.zeros(len(tree.frame), np.int64)
    np.add.at(counts, leaves, list(stacks.values()))
    number = np.where(tree.frame < 5, tree.frame, 5).astype(np.int64)
    return checked(Branches(tree.size.astype(np.int64), called_again(tree), number, KEYS)), counts


@given(STACKS)
def test_functions_are_counted_once_a_stack(stacks: Stacks) -> None:
    branches, counts = branches_of(stacks)
    total, own = Counter[str](), Counter[str]()
    for stack, many in stacks.items():
        own[f"f{stack[-1]}"] += many
        for each in set(stack):
            total[f"f{each}"] += many
    found = functions(branches, counts, 0.0)
    assert {key[0]: int(many) for key, many in zip(found.keys, found.total, strict=True)} == total
    assert {key[0]: int(many) for key, many in zip(found.keys, found.own, strict=True) if many} == own


@given(STACKS, st.integers(0, 4))
def test_stacks_that_hold_a_function_are_known(stacks: Stacks, wanted: int) -> None:
    branches, counts = branches_of(stacks)
    held = holding(branches, np.array([number == wanted for number in range(len(KEYS))]))
    assert int(counts[held].sum()) == sum(many for stack, many in stacks.items() if wanted in stack)


@given(STACKS, STACKS)
def test_merged_captures_are_the_sum(one: Stacks, other: Stacks) -> None:
    merged, parts = Merged(), [Merged(), Merged()]
    for side, stacks in enumerate((one, other)):
        branches, counts = branches_of(stacks)
        for each in (merged, parts[side]):
            each.add(branches.keys, boxes(branches, counts, 0.0), side)
    parts[1].absorb(parts[0])
    prefixes: dict[tuple[int, ...], list[int]] = {}
    for side, stacks in enumerate((one, other)):
        for stack, many in stacks.items():
            for depth in range(len(stack) + 1):
                prefixes.setdefault(stack[:depth], [0, 0])[side] += many
    for each in (merged, parts[1]):
        graph, frames = each.graph(0.0, compared=True)
        paths: list[tuple[int, ...]] = []
        for parent, frame in zip(graph.parent.tolist(), graph.frame.tolist(), strict=True):
            paths.append(() if parent < 0 else (*paths[parent], int(frames[frame][0][1:])))
        assert graph.before is not None
        counted = zip(graph.total.tolist(), graph.before.tolist(), strict=True)
        assert {path: list(pair) for path, pair in zip(paths, counted, strict=True)} == prefixes


def test_who_only_passes_a_change_on_is_known() -> None:
    """main calls work, which calls hot, here more often; and idle, as often as there."""
    merged = Merged()
    for side, stacks in enumerate(({(0, 1, 2): 60, (0, 3): 40}, {(0, 1, 2): 20, (0, 1): 10, (0, 3): 70})):
        branches, counts = branches_of(stacks)
        merged.add(branches.keys, boxes(branches, counts, 0.0), side)
    chosen = KEYS[1:3]
    nested = nesting(merged, chosen)
    assert nested.change[KEYS[2]] == pytest.approx(0.4)
    assert nested.callers[KEYS[2]] == ("f1", "f0")
    assert passed_on(nested, KEYS[1], chosen) == KEYS[2]
    assert passed_on(nested, KEYS[2], chosen) is None


def test_a_node_counts_once_however_often_it_was_sampled() -> None:
    def counted(node: str, samples: int, hot: int) -> Counted:
        return Counted(node, samples, Rows((KEYS[0],), np.array([hot]), np.array([0])))

    found = of_nodes([counted("b", 1000, 500), counted("a", 10, 1), counted("b", 1000, 100)], 0.001)
    assert found.nodes == ("a", "b")
    assert found.samples.tolist() == [10, 2000]
    assert found.total[:, 0].tolist() == pytest.approx([0.1, 0.3])
    assert of_nodes([], 0.1).keys == ()


@pytest.mark.parametrize("size", [[], [0], [2], [2, 2], [3, 1], [2, -1]])
def test_what_is_no_tree_is_refused(size: list[int]) -> None:
    rows = np.array(size, np.int64)
    with pytest.raises(BrokenCapture):
        checked(Branches(rows, np.zeros(len(rows), bool), np.zeros(len(rows), np.int64), KEYS))


def test_parents_are_those_of_the_tree() -> None:
    lengths = np.array([2, 2, 1], np.int64)
    tree, _ = build_tree(np.array([0, 1, 0, 2, 3], np.uint32), np.array([0, 2, 4]), lengths)
    assert shape_of(tree).parent.tolist() == [0, 0, 1, 1, 0]
