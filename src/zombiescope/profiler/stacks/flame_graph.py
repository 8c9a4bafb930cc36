# SPDX-License-Identifier: Apache-2.0
"""Samples of any range as one tree of frames, widest first, without what is too narrow to be seen; and two ranges compared.

What lies below a node of the call tree is a run of numbers, so its count is a difference of two places in the sorted nodes of
the samples. Only nodes that are wide enough are ever looked at.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import overload

import numpy as np

from zombiescope.profiler.stacks.arrays import I64, U32, Numbers, ranges
from zombiescope.profiler.stacks.call_tree import CallTree
from zombiescope.profiler.stacks.capture import Capture, Selection, row_numbers

NARROWEST = 1 / 4000


@dataclass(frozen=True, slots=True)
class FlameGraph:
    """One entry a box, parents before children, siblings as the tree has them."""

    parent: I64
    """Entry of the parent; -1 for the root, entry 0."""
    depth: I64
    frame: U32
    total: I64
    self: I64
    """Of the total, what ended here; boxes too narrow to be shown are part of neither child nor self."""
    before: I64 | None = None
    """The total in the range compared with, when there is one."""
    before_samples: int = 0

    @property
    def samples(self) -> int:
        return int(self.total[0]) if len(self.total) else 0

    def shares(self) -> Numbers:
        """Of all samples, for each entry."""
        return self.total / max(1, self.samples)

    def shares_before(self) -> Numbers:
        assert self.before is not None
        return self.before / max(1, self.before_samples)

    def children(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(len(self.total))]
        for entry, parent in enumerate(self.parent.tolist()[1:], 1):
            found[parent].append(entry)
        return found

    def own_changes(self, least: float, *, only_risen: bool = False) -> list[int]:
        """Entries whose share changed, most first; outer ones that only pass it on are left out."""
        rise = self.shares() - self.shares_before()
        changed = rise if only_risen else np.abs(rise)
        passed_on = np.zeros(len(changed))
        np.maximum.at(passed_on, self.parent[1:], changed[1:])
        own = np.flatnonzero((changed >= least) & (passed_on < 0.8 * changed))
        return [int(entry) for entry in own[np.argsort(-changed[own], kind="stable")] if entry]


@dataclass(frozen=True)
class Shape:
    """What questions need of a tree beyond its nodes; made once a capture."""

    ends: I64
    by_level: tuple[I64, ...]
    """The nodes of each level, ascending."""

    @cached_property
    def parent(self) -> I64:
        """Of each node: on the level above, the last one that comes before it. The root is its own."""
        parent = np.zeros(len(self.ends), np.int64)
        for above, level in pairwise(self.by_level):
            parent[level] = above[np.searchsorted(above, level) - 1]
        return parent


def shape_of(tree: CallTree) -> Shape:
    count = len(tree.frame)
    ends = tree.size.astype(np.int64) + np.arange(count, dtype=np.int64)
    depth = np.arange(count, dtype=np.int64) - np.cumsum(np.bincount(ends, minlength=count + 1)[:count])
    deepest = int(depth.max()) if count else 0
    narrow = depth.astype(np.uint8 if deepest < 256 else np.uint16 if deepest < 65536 else np.int64)
    order = np.argsort(narrow, kind="stable").astype(np.int64)
    bounds = np.cumsum(np.bincount(depth.clip(0), minlength=deepest + 1))
    return Shape(ends, tuple(np.split(order, bounds[:-1])))


def paths(capture: Capture, nodes: Numbers, shape: Shape | None = None) -> Iterator[tuple[int, ...]]:
    """The frames of each node, root first, in the order given."""
    parent, frames = (shape or shape_of(capture.tree)).parent.tolist(), capture.tree.frame.tolist()
    known: dict[int, tuple[int, ...]] = {0: ()}
    for node in nodes.tolist():
        above, at = [], node
        while at not in known:
            above.append(at)
            at = parent[at]
        if above:
            known[node] = (*known[at], *[frames[step] for step in reversed(above)])
        yield known[node]


Count = Callable[[I64], I64]


def _counter(capture: Capture, selection: Selection) -> tuple[Count, int]:
    """A function from places to how much weight lies before them, and the whole weight."""
    numbers = row_numbers(capture, selection)
    nodes = capture.node[numbers]
    if capture.weight is None:
        ascending = np.sort(nodes)
        return (lambda places: np.searchsorted(ascending, places.astype(np.uint32)).astype(np.int64)), len(nodes)
    order = np.argsort(nodes, kind="stable")
    sorted_nodes = nodes[order]
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(capture.weight[numbers][order]).astype(np.int64)])
    return (lambda places: sums[np.searchsorted(sorted_nodes, places.astype(np.uint32))]), int(sums[-1])


def flame_graph(capture: Capture, shape: Shape, selection: Selection, narrowest: float = NARROWEST) -> FlameGraph:
    return _expand(capture.tree, shape, [_counter(capture, selection)], narrowest)


def difference(
    capture: Capture, shape: Shape, before: Selection, after: Selection, narrowest: float = NARROWEST
) -> FlameGraph:
    """Both ranges over one tree; a box is shown when it is wide enough in either."""
    return _expand(capture.tree, shape, [_counter(capture, after), _counter(capture, before)], narrowest)


def _expand(tree: CallTree, shape: Shape, counts: list[tuple[Count, int]], narrowest: float) -> FlameGraph:
    least = [max(1, int(np.ceil(whole * narrowest))) for _, whole in counts]
    nodes, parents = np.zeros(1, np.int64), np.full(1, -1, np.int64)
    totals = [np.array([whole], np.int64) for _, whole in counts]
    parts: list[tuple[I64, I64, list[I64]]] = [(nodes, parents, totals)]
    place = 1
    for level in shape.by_level[1:]:
        low = np.searchsorted(level, nodes + 1)
        many = np.searchsorted(level, shape.ends[nodes]) - low
        children = level[ranges(low, many)]
        if not len(children):
            break
        below = [count(shape.ends[children]) - count(children) for count, _ in counts]
        wide = np.logical_or.reduce([total >= limit for total, limit in zip(below, least, strict=True)])
        parents = np.repeat(np.arange(place - len(nodes), place), many)[wide]
        nodes, totals = children[wide], [total[wide] for total in below]
        parts.append((nodes, parents, totals))
        place += len(nodes)
    return _gathered(tree, parts, counts)


def _gathered(tree: CallTree, parts: list[tuple[I64, I64, list[I64]]], counts: list[tuple[Count, int]]) -> FlameGraph:
    nodes = np.concatenate([part[0] for part in parts])
    total = np.concatenate([part[2][0] for part in parts])
    count = counts[0][0]
    return FlameGraph(
        np.concatenate([part[1] for part in parts]),
        np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts]),
        tree.frame[nodes],
        total,
        count(nodes + 1) - count(nodes),
        np.concatenate([part[2][1] for part in parts]) if len(counts) > 1 else None,
        counts[1][1] if len(counts) > 1 else 0,
    )


def widest_first(graph: FlameGraph) -> FlameGraph:
    """Level by level, below each box its widest child first: as it is drawn, so that whoever draws need not sort."""
    shares = graph.shares() if graph.before is None else np.maximum(graph.shares(), graph.shares_before())
    bounds = np.flatnonzero(np.diff(graph.depth)) + 1
    order, place = np.empty(len(shares), np.int64), np.empty(len(shares), np.int64)
    for level in np.split(np.arange(len(shares)), bounds) if len(shares) else []:
        above = place[graph.parent[level]] if graph.depth[level[0]] else np.zeros(len(level), np.int64)
        mine = level[np.lexsort((-shares[level], above))]
        order[level] = mine
        place[mine] = level
    parent = graph.parent[order]
    parent[1:] = place[parent[1:]]
    before = None if graph.before is None else graph.before[order]
    columns = (graph.depth[order], graph.frame[order], graph.total[order], graph.self[order], before)
    return FlameGraph(parent, *columns, graph.before_samples)


Key = tuple[str, str]
"""A function and its file."""
ALL: Key = ("all", "")


def compare(before: tuple[Capture, FlameGraph], after: tuple[Capture, FlameGraph]) -> tuple[FlameGraph, list[Key]]:
    """One graph with both counts, and the frames that its numbers mean. Boxes only the earlier one had are kept with a zero."""
    frames, boxes, rows = dict[Key, int](), dict[tuple[int, int], int](), list[list[int]]()
    for side, (capture, graph) in enumerate((after, before)):
        names, place = frames_of(capture), dict[int, int]()
        for entry, (parent, frame) in enumerate(zip(graph.parent.tolist(), graph.frame.tolist(), strict=True)):
            number = frames.setdefault(names[frame] if frame < len(names) else ALL, len(frames))
            above = place.get(parent, -1)
            box = boxes.setdefault((above, number), len(rows))
            if box == len(rows):
                rows.append([above, rows[above][1] + 1 if above >= 0 else 0, number, 0, 0, 0])
            place[entry] = box
            rows[box][3 if side == 0 else 5] += int(graph.total[entry])
            rows[box][4] += int(graph.self[entry]) if side == 0 else 0
    return graph_of(rows, before[1].samples), list(frames)


class _Frames(Sequence[Key]):
    """Of a capture: hundreds of thousands, of which a graph uses few."""

    def __init__(self, capture: Capture) -> None:
        self._names, self._files = capture.frame_names, capture.frame_files

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, at: int) -> Key: ...

    @overload
    def __getitem__(self, at: slice) -> list[Key]: ...

    def __getitem__(self, at: int | slice) -> Key | list[Key]:
        if isinstance(at, slice):
            return list(zip(self._names[at], self._files[at], strict=True))
        return self._names[at], self._files[at]


def frames_of(capture: Capture) -> Sequence[Key]:
    return _Frames(capture)


def graph_of(rows: list[list[int]], before_samples: int | None) -> FlameGraph:
    """Rows of parent, depth, frame, total, own time and the total before, which counts where its samples are given. By depth, as
    every flame graph here is: siblings stay together."""
    children, ordered = defaultdict[int, list[int]](list), list[list[int]]()
    for index, row in enumerate(rows):
        children[row[0]].append(index)
    level = [(-1, index) for index in children[-1]]
    while level:
        following: list[tuple[int, int]] = []
        for above, index in level:
            following += [(len(ordered), child) for child in children[index]]
            ordered.append([above, *rows[index][1:]])
        level = following
    parent, depth, frame, total, own, before = np.array(ordered, np.int64).reshape(-1, 6).T
    counted = None if before_samples is None else before
    return FlameGraph(parent, depth, frame.astype(np.uint32), total, own, counted, before_samples or 0)
