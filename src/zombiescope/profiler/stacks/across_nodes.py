# SPDX-License-Identifier: Apache-2.0
"""Captures of many nodes put together: one flame graph of two groups, and each function's share of each node's time; and what
questions over many nodes are answered with."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.profiler.stacks.arrays import F64, I64, U64
from zombiescope.profiler.stacks.branches import Boxes, Rows
from zombiescope.profiler.stacks.flame_graph import FlameGraph, Key, graph_of

WHERE, AGAINST = 0, 1
_MOST_CALLERS = 3
_PASSED_ON = 0.8
"""As in one capture: whoever hands this much of its change to one function that it calls only passes it on."""


_ROOT = np.uint64(0x5851F42D4C957F2D)
_SPREAD = np.uint64(0xFF51AFD7ED558CCD)
_MOST_PENDING = 1 << 20


class Paths(NamedTuple):
    """Boxes by the hash of their path of functions: what is equal is one box, in whichever capture it was."""

    path: U64
    parent: U64
    key: U64
    depth: I64
    counts: tuple[I64, ...]
    """Total and own time of one side, then of the other."""


class Merged:
    """Boxes of many captures with a count for each side."""

    def __init__(self) -> None:
        self.keys: dict[int, Key] = {}
        """By their hash."""
        self._waiting: list[Paths] = []
        self._rows = 0

    def add(self, keys: Sequence[Key], boxes: Boxes, side: int) -> None:
        numbers = np.array([_hashed(key) for key in keys], np.uint64)
        self.keys.update({int(numbers[each]): keys[each] for each in np.unique(boxes.key).tolist()})
        path, depth = np.full(len(boxes.key), _ROOT), np.zeros(len(boxes.key), np.int64)
        key = numbers[boxes.key]
        for number, level in enumerate(boxes.levels[1:], 1):
            mixed = (path[boxes.parent[level]] ^ key[level]) * _SPREAD
            path[level] = mixed ^ (mixed >> np.uint64(32))
            depth[level] = number
        none = np.zeros(len(path), np.int64)
        counts = (none, none, boxes.total, boxes.own) if side else (boxes.total, boxes.own, none, none)
        self._take(Paths(path, path[boxes.parent], key, depth, counts))

    def absorb(self, other: "Merged") -> None:
        self.keys.update(other.keys)
        self._take(other.paths())

    def _take(self, paths: Paths) -> None:
        self._waiting.append(paths)
        self._rows += len(paths.path)
        if self._rows > _MOST_PENDING:
            self.paths()

    def paths(self) -> Paths:
        """Each box once, those above it before it."""
        if len(self._waiting) != 1:
            self._waiting = [_united(self._waiting)]
            self._rows = len(self._waiting[0].path) // 2  # what is left is not united again for a few more
        return self._waiting[0]

    def graph(self, narrowest: float, *, compared: bool) -> tuple[FlameGraph, list[Key]]:
        """With what is wide enough on either side; those above it are."""
        paths, place = self.paths(), _places(self.paths())
        if not len(place):
            return FlameGraph(*(np.zeros(0, np.int64),) * 2, np.zeros(0, np.uint32), *(np.zeros(0, np.int64),) * 2), []
        total, own, before, _ = paths.counts
        wide = total >= max(1.0, narrowest * int(total[0]))
        if compared:
            wide |= before >= max(1.0, narrowest * int(before[0]))
        wide[0] = True
        above = np.where(np.arange(len(place)) == 0, -1, (np.cumsum(wide) - 1)[place])[wide]
        hashes = list(dict.fromkeys(paths.key[wide].tolist()))
        frame = {each: at for at, each in enumerate(hashes)}
        keys = np.array([frame[each] for each in paths.key[wide].tolist()], np.int64)
        rows = np.stack([above, paths.depth[wide], keys, total[wide], own[wide], before[wide]], axis=1).tolist()
        return graph_of(rows, int(before[0]) if compared else None), [self.keys[each] for each in hashes]


@lru_cache(1 << 16)
def _hashed(key: Key) -> int:
    text = f"{key[0]}\0{key[1]}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _united(several: Sequence[Paths]) -> Paths:
    """In the order of depth, then of hashes: the same whoever counted which part."""
    if not several:
        return Paths(*(np.zeros(0, np.uint64),) * 3, np.zeros(0, np.int64), (np.zeros(0, np.int64),) * 4)
    path = np.concatenate([each.path for each in several])
    _, first, place = np.unique(path, return_index=True, return_inverse=True)
    sums = [
        np.bincount(place, weights=np.concatenate([each.counts[count] for each in several])).astype(np.int64)
        for count in range(4)
    ]
    depth = np.concatenate([each.depth for each in several])[first]
    order = np.argsort(depth, kind="stable")
    chosen = first[order]
    parent, key = (np.concatenate([getattr(each, name) for each in several])[chosen] for name in ("parent", "key"))
    return Paths(path[chosen], parent, key, depth[order], tuple(each[order] for each in sums))


def _places(paths: Paths) -> I64:
    """Of each box, which one is its parent; the root is its own."""
    order = np.argsort(paths.path)
    found: I64 = order[np.searchsorted(paths.path[order], paths.parent)]
    return found


class OfNodes(NamedTuple):
    """One row a node, one column a function."""

    nodes: tuple[str, ...]
    samples: I64
    keys: tuple[Key, ...]
    total: F64
    own: F64


class Counted(NamedTuple):
    """What one capture adds to its node."""

    node: str
    samples: int
    rows: Rows


def of_nodes(captures: Iterable[Counted], least: float) -> OfNodes:
    """Functions that take at least this share of the time of all nodes, on the mean; every node counts the same."""
    nodes, keys = dict[str, int](), dict[Key, int]()
    parts, samples = list[tuple[I64, I64, I64, I64]](), list[int]()
    for each in captures:
        number = nodes.setdefault(each.node, len(nodes))
        samples += [0] * (len(nodes) - len(samples))
        samples[number] += each.samples
        known = np.array([keys.setdefault(key, len(keys)) for key in each.rows.keys], np.int64)
        parts.append((np.full(len(known), number), known, each.rows.total, each.rows.own))
    order = sorted(nodes)
    place = np.empty(len(nodes), np.int64)
    place[[nodes[name] for name in order]] = np.arange(len(nodes))
    whole = np.array(samples, np.int64)
    columns = [np.concatenate([part[column] for part in parts]) for column in range(4)] if parts else [whole[:0]] * 4
    divided = np.maximum(whole, 1)[columns[0]]
    mean = np.bincount(columns[1], weights=columns[2] / divided, minlength=len(keys)) / max(1, len(nodes))
    names = sorted((list(keys)[number], number) for number in np.flatnonzero(mean >= least).tolist())
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
    paths = merged.paths()
    if not len(paths.path) or not chosen:
        return Nesting({}, {}, {})
    numbers = {_hashed(key): key for key in chosen}
    parents, keys = _places(paths).tolist(), paths.key.tolist()
    after, before = (paths.counts[side] / max(1, int(paths.counts[side][0])) for side in (0, 2))
    rises, widths = (after - before).tolist(), np.maximum(after, before).tolist()
    within, change = dict[tuple[Key, Key], float](), dict.fromkeys(chosen, 0.0)
    widest, above = dict[Key, tuple[float, int]](), list[tuple[int, ...]]()
    for number, (parent, key, rise) in enumerate(zip(parents, keys, rises, strict=True)):
        outer = above[parent] if number else ()
        mine = numbers.get(key)
        if mine is None or key in outer:
            above.append(outer)
            continue
        above.append((*outer, key))
        change[mine] += rise
        widest[mine] = max(widest.get(mine, (-1.0, -1)), (widths[number], number))
        for each in outer:
            pair = (numbers[each], mine)
            within[pair] = within.get(pair, 0.0) + rise
    return Nesting(within, change, {key: _callers(merged, parents, keys, box) for key, (_, box) in widest.items()})


def _callers(merged: Merged, parents: Sequence[int], keys: Sequence[int], box: int) -> tuple[str, ...]:
    found, at = list[str](), parents[box]
    while at > 0 and len(found) < _MOST_CALLERS:
        found.append(merged.keys[keys[at]][0])
        at = parents[at]
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


class Group(NamedTuple):
    nodes: int
    captures: int
    samples: int


class Shift(Protocol):
    @property
    def mean(self) -> float: ...
    @property
    def other(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def p_value(self) -> float: ...
    @property
    def q_value(self) -> float: ...
    @property
    def is_found(self) -> bool: ...


class Judged(Protocol):
    @property
    def shifts(self) -> Sequence[Shift]: ...
    @property
    def too_few(self) -> str: ...
    @property
    def unsure(self) -> str: ...


Judge = Callable[[Sequence[tuple[Sequence[float], Sequence[float]]], int, int], Judged]


class Top(NamedTuple):
    group: Group
    shares: OfNodes
    gaps: tuple[Gap, ...]


class Flame(NamedTuple):
    group: Group
    graph: FlameGraph
    frames: list[Key]
    gaps: tuple[Gap, ...]


class Changed(NamedTuple):
    key: Key
    shift: Shift
    callers: tuple[str, ...]
    passed_to: Key | None
    """The function below it that has most of the change."""
    is_own: bool = False
    """Of the time that it takes itself, not with what it calls."""


class Difference(NamedTuple):
    where: Group
    against: Group
    compared: int
    found: tuple[Changed, ...]
    """The largest rise first, then what fell; those that only pass a change on are not among them."""
    passing: tuple[Changed, ...]
    """Found, too, but only pass on what one of those changed."""
    largest: tuple[Changed, ...]
    """Where nothing was found: what differs most, by chance as far as can be told."""
    too_few: str
    """Why nothing could be found; empty where something could."""
    unsure: str
    """Why a function that differs alone could have been missed."""
    graph: FlameGraph
    frames: list[Key]
    gaps: tuple[Gap, ...]


class Moment(NamedTuple):
    """Of one core: windows that follow each other."""

    node: str
    title: str
    core: int
    begin: int
    end: int
    samples: int
    share: float | None
    """The highest of its windows."""


class Moments(NamedTuple):
    group: Group
    moments: tuple[Moment, ...]
    samples: int
    gaps: tuple[Gap, ...]


class Shipped(NamedTuple):
    title: str
    name: str
    """In the archive."""
    samples: int
    bytes_written: int | None
    """None: it was there already, and nothing was written."""
