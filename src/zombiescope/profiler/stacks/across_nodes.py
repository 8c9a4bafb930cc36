# SPDX-License-Identifier: Apache-2.0
"""Captures of many nodes put together: one flame graph of two groups, and each function's share of each node's time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zombiescope.profiler.stacks.arrays import I64
from zombiescope.profiler.stacks.branches import Boxes, Rows
from zombiescope.profiler.stacks.flame_graph import ALL, FlameGraph, Key, parents_first

WHERE, AGAINST = 0, 1
_MOST_CALLERS = 3
_PASSED_ON = 0.8
"""As in one capture: whoever hands this much of its change to one function that it calls only passes it on."""
Shares = NDArray[np.float64]


class Merged:
    """Boxes of many captures by their path of functions, with a count for each side."""

    def __init__(self) -> None:
        self.keys: dict[Key, int] = {ALL: 0}
        self.rows: list[list[int]] = []
        """Parent, key, total and own time of one side, then of the other."""
        self._places: dict[tuple[int, int], int] = {}

    def add(self, keys: Sequence[Key], boxes: Boxes, side: int) -> None:
        columns = (boxes.parent.tolist(), boxes.key.tolist(), boxes.total.tolist(), boxes.own.tolist())
        counts = ([0, 0, total, own] if side else [total, own, 0, 0] for total, own in zip(*columns[2:], strict=True))
        self._put(keys, columns[0], columns[1], counts)

    def absorb(self, other: Merged) -> None:
        parents, numbers = [row[0] for row in other.rows], [row[1] for row in other.rows]
        self._put(tuple(other.keys), parents, numbers, (row[2:] for row in other.rows))

    def _put(
        self, keys: Sequence[Key], parents: Sequence[int], numbers: Sequence[int], counts: Iterable[list[int]]
    ) -> None:
        known = [self.keys.setdefault(key, len(self.keys)) for key in keys]
        place: list[int] = []
        rows, places = self.rows, self._places
        for parent, number, added in zip(parents, numbers, counts, strict=True):
            above, key = (place[parent], known[number]) if parent >= 0 else (-1, 0)
            box = places.setdefault((above, key), len(rows))
            if box == len(rows):
                rows.append([above, key, *added])
            else:
                row = rows[box]
                for number_of_count in range(4):
                    row[2 + number_of_count] += added[number_of_count]
            place.append(box)

    def graph(self, narrowest: float, *, compared: bool) -> tuple[FlameGraph, list[Key]]:
        """With what is wide enough on either side; those above it are."""
        depth: list[int] = []
        whole = self.rows[0] if self.rows else [-1, 0, 0, 0, 0, 0]
        least = [max(1.0, narrowest * whole[2]), max(1.0, narrowest * whole[4])]
        place: dict[int, int] = {}
        kept: list[list[int]] = []
        for number, (parent, key, total, own, before, _) in enumerate(self.rows):
            depth.append(depth[parent] + 1 if parent >= 0 else 0)
            if parent < 0 or total >= least[0] or (compared and before >= least[1]):
                place[number] = len(kept)
                kept.append([place.get(parent, -1), depth[number], key, total, own, before])
        columns = np.array(parents_first(kept), np.int64).reshape(-1, 6).T
        before_samples = whole[4] if compared else 0
        found = (columns[0], columns[1], columns[2].astype(np.uint32), columns[3], columns[4])
        return FlameGraph(*found, columns[5] if compared else None, before_samples), list(self.keys)


class OfNodes(NamedTuple):
    """One row a node, one column a function."""

    nodes: tuple[str, ...]
    samples: I64
    keys: tuple[Key, ...]
    total: Shares
    own: Shares


class Counted(NamedTuple):
    """What one capture adds to its node."""

    node: str
    samples: int
    rows: Rows


def of_nodes(captures: Iterable[Counted], least: float) -> OfNodes:
    """Functions that take at least this share of the time of all nodes, on the mean; every node counts the same."""
    nodes: dict[str, int] = {}
    keys: dict[Key, int] = {}
    parts: list[tuple[I64, I64, I64, I64]] = []
    samples: list[int] = []
    for each in captures:
        number = nodes.setdefault(each.node, len(nodes))
        samples += [0] * (len(nodes) - len(samples))
        samples[number] += each.samples
        known = np.array([keys.setdefault(key, len(keys)) for key in each.rows.keys], np.int64)
        parts.append((np.full(len(known), number), known, each.rows.total, each.rows.own))
    order = sorted(nodes, key=lambda name: name)
    place = np.empty(len(nodes), np.int64)
    place[[nodes[name] for name in order]] = np.arange(len(nodes))
    whole = np.array(samples, np.int64)
    columns = [np.concatenate([part[column] for part in parts]) for column in range(4)] if parts else [whole[:0]] * 4
    divided = np.maximum(whole, 1)[columns[0]]
    mean = np.bincount(columns[1], weights=columns[2] / divided, minlength=len(keys)) / max(1, len(nodes))
    chosen = np.flatnonzero(mean >= least)
    names = sorted((list(keys)[number], number) for number in chosen.tolist())
    column_of = np.full(len(keys), -1, np.int64)
    column_of[[number for _, number in names]] = np.arange(len(names))
    inside = column_of[columns[1]] >= 0
    cells = place[columns[0][inside]] * len(names) + column_of[columns[1][inside]]
    shape = (len(nodes), len(names))
    total, own = (
        np.bincount(cells, weights=(values / divided)[inside], minlength=shape[0] * shape[1])
        .astype(np.float64)
        .reshape(shape)
        for values in columns[2:]
    )
    ordered = whole[[nodes[name] for name in order]] if order else whole
    return OfNodes(tuple(order), ordered, tuple(key for key, _ in names), total, own)


class Nesting(NamedTuple):
    """How the changes of functions are nested in a graph of two groups."""

    within: Mapping[tuple[Key, Key], float]
    """How much of the first one's change lies in the second, which it calls, near or far."""
    change: Mapping[Key, float]
    callers: Mapping[Key, tuple[str, ...]]
    """Of the widest box of each, the nearest first."""


def nesting(merged: Merged, chosen: Sequence[Key]) -> Nesting:
    numbers = {merged.keys[key]: key for key in chosen if key in merged.keys}
    if not merged.rows:
        return Nesting({}, {}, {})
    after, before = max(1, merged.rows[0][2]), max(1, merged.rows[0][4])
    within: dict[tuple[Key, Key], float] = {}
    change: dict[Key, float] = dict.fromkeys(chosen, 0.0)
    widest: dict[Key, tuple[float, int]] = {}
    above: list[tuple[int, ...]] = []
    for number, (parent, key, total, _, other, _) in enumerate(merged.rows):
        outer = above[parent] if parent >= 0 else ()
        mine = numbers.get(key)
        above.append(outer if mine is None or key in outer else (*outer, key))
        if mine is None or key in outer:
            continue
        rise = total / after - other / before
        change[mine] += rise
        widest[mine] = max(widest.get(mine, (-1.0, -1)), (max(total / after, other / before), number))
        for each in outer:
            pair = (numbers[each], mine)
            within[pair] = within.get(pair, 0.0) + rise
    names = list(merged.keys)
    return Nesting(within, change, {key: _callers(merged, names, box) for key, (_, box) in widest.items()})


def _callers(merged: Merged, names: Sequence[Key], box: int) -> tuple[str, ...]:
    found: list[str] = []
    at = merged.rows[box][0]
    while at > 0 and len(found) < _MOST_CALLERS:
        found.append(names[merged.rows[at][1]][0])
        at = merged.rows[at][0]
    return tuple(found)


def passed_on(nested: Nesting, key: Key, others: Iterable[Key]) -> Key | None:
    """The function below it that takes most of its change: the innermost one."""
    whole = nested.change.get(key, 0.0)
    if not whole:
        return None
    shares = [(nested.within.get((key, other), 0.0) / whole, other) for other in others if other != key]
    taking = [other for share, other in shares if share >= _PASSED_ON]
    inner = [
        other
        for other in taking
        if not any(nested.within.get((other, each), 0.0) / whole >= _PASSED_ON for each in taking)
    ]
    return min(inner or taking, default=None)
