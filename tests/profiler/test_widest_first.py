# SPDX-License-Identifier: Apache-2.0
"""A flame graph in the order it is drawn in: level by level, below each box its widest child first."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.profiler.formats.gathering import Gathering
from zombiescope.profiler.stacks.capture import About, Selection
from zombiescope.profiler.stacks.flame_graph import (
    FlameGraph,
    difference,
    flame_graph,
    frames_of,
    shape_of,
    widest_first,
)

Stack = list[int]
stacks = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=30)


def paths(graph: FlameGraph) -> dict[tuple[int, ...], tuple[int, int, int | None]]:
    """Each box by the functions above it, whatever its place."""
    found: list[tuple[int, ...]] = []
    told = {}
    for box, parent in enumerate(graph.parent.tolist()):
        found.append((*found[parent], int(graph.frame[box])) if parent >= 0 else ())
        before = None if graph.before is None else int(graph.before[box])
        told[found[box]] = (int(graph.total[box]), int(graph.self[box]), before)
        assert int(graph.depth[box]) == len(found[box])
    return told


@given(stacks, st.booleans())
def test_it_is_the_same_graph_with_the_widest_first(given_stacks: list[Stack], is_difference: bool) -> None:
    gathering = Gathering()
    for time, stack in enumerate(given_stacks):
        number = gathering.stack_number("c", [(f"f{each}", "/bin/x") for each in stack])
        gathering.add(number, "c", time=time * 10**9)
    capture = gathering.capture(About("made", rate_hz=1.0))
    shape, middle = shape_of(capture.tree), capture.seconds / 2
    graph = (
        difference(capture, shape, Selection(0, middle), Selection(middle, None))
        if is_difference
        else flame_graph(capture, shape, Selection())
    )
    sorted_graph = widest_first(graph)
    assert paths(sorted_graph) == paths(graph)
    assert sorted_graph.before_samples == graph.before_samples
    parent = sorted_graph.parent
    assert bool((np.diff(parent) >= 0).all()), "children stand together, in the order of those above them"
    shares = sorted_graph.shares()
    if is_difference:
        shares = np.maximum(shares, sorted_graph.shares_before())
    same = np.flatnonzero(np.diff(parent) == 0)
    assert bool((shares[same] >= shares[same + 1]).all())


def test_frames_of_a_capture_are_told_one_by_one() -> None:
    gathering = Gathering()
    gathering.add(gathering.stack_number("c", [("f", "/bin/x"), ("g", "/bin/y")]), "c")
    frames = frames_of(gathering.capture(About("made")))
    assert list(frames) == [("c", ""), ("f", "/bin/x"), ("g", "/bin/y")]
    assert frames[1:] == [("f", "/bin/x"), ("g", "/bin/y")]
    assert len(frames) == 3
