# SPDX-License-Identifier: Apache-2.0
"""The call tree of an archived capture: what each function took, in all and itself, and its boxes that are wide enough to matter.

A row is a node of the tree, parents first, what lies below a row right behind it: counts below are differences of two sums.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zombiescope.profiler.stacks.arrays import I64, Flags
from zombiescope.profiler.stacks.call_tree import CallTree
from zombiescope.profiler.stacks.capture import BrokenCapture, is_kernel_file
from zombiescope.profiler.stacks.flame_graph import Key, shape_of

DAMAGED = "its stacks are no tree"


class Branches(NamedTuple):
    size: I64
    """How many rows lie at and below it."""
    is_again: Flags
    """The same function calls it, near or far: its time is counted there already."""
    function: I64
    """Which of `keys`."""
    keys: tuple[Key, ...]


class Rows(NamedTuple):
    """What the functions of a capture took."""

    keys: tuple[Key, ...]
    total: I64
    own: I64


class Boxes(NamedTuple):
    """The widest boxes of a capture, parents first."""

    parent: I64
    """The root is its own."""
    levels: tuple[I64, ...]
    """The boxes of each level."""
    key: I64
    total: I64
    own: I64


def called_again(tree: CallTree) -> Flags:
    """Whether the same frame stands above a node: an earlier node of that frame ends behind it."""
    count = len(tree.frame)
    few = count and int(tree.frame.max()) < 1 << 16
    order = np.argsort(tree.frame.astype(np.uint16) if few else tree.frame, kind="stable").astype(np.int64)
    frames = tree.frame[order]
    begins = np.append(True, frames[1:] != frames[:-1]) if count else np.zeros(0, bool)
    group = np.cumsum(begins.astype(np.int64)) * (count + 1)
    furthest = np.maximum.accumulate(group + order + tree.size[order].astype(np.int64))
    again: Flags = np.zeros(count, bool)
    again[order[1:]] = (~begins[1:]) & (furthest[:-1] > (group + order)[1:])
    return again


def checked(branches: Branches) -> Branches:
    """A stranger's rows lead nowhere outside them, or are refused."""
    count = len(branches.size)
    ends = np.arange(count, dtype=np.int64) + branches.size
    if (
        not count
        or int(branches.size[0]) != count
        or int(branches.size.min()) < 1
        or int(ends.max()) > count
        or int(branches.function.min()) < 0
        or int(branches.function.max()) >= len(branches.keys)
    ):
        raise BrokenCapture(DAMAGED)
    return branches


def everywhere(name: str, file: str) -> Key:
    """A function as every node calls it: folders of user code differ between images, files of the kernel do not."""
    return name, file if is_kernel_file(file) else file.rpartition("/")[2]


def merged_keys(names: Sequence[str], files: Sequence[str]) -> tuple[tuple[Key, ...], I64]:
    """Distinct keys, and which of them each pair is."""
    numbers: dict[Key, int] = {}
    place = [numbers.setdefault(everywhere(*pair), len(numbers)) for pair in zip(names, files, strict=True)]
    return tuple(numbers), np.array(place, np.int64)


def below(branches: Branches, counts: I64) -> I64:
    """What was counted at and below each row."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    found: I64 = sums[np.arange(len(counts)) + branches.size] - sums[:-1]
    return found


def functions(branches: Branches, counts: I64, least: float) -> Rows:
    """Those that took at least this share of the capture; the root is none."""
    first = ~branches.is_again
    first[0] = False
    total = _summed(branches.function[first], below(branches, counts)[first], len(branches.keys))
    own = _summed(branches.function[1:], counts[1:], len(branches.keys))
    wide = np.flatnonzero(total >= max(1, np.ceil(least * int(counts.sum()))))
    return Rows(tuple(branches.keys[number] for number in wide.tolist()), total[wide], own[wide])


def _summed(numbers: I64, counts: I64, size: int) -> I64:
    """Exact: no sum of samples comes near 2**53."""
    return np.bincount(numbers, weights=counts, minlength=size).astype(np.int64)


def boxes(branches: Branches, counts: I64, least: float) -> Boxes:
    """Those above a wide box are as wide at least: what is kept is a tree again."""
    total = below(branches, counts)
    wide = total >= max(1, np.ceil(least * int(counts.sum())))
    wide[0] = True
    kept = np.flatnonzero(wide)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(wide)])
    size = before[kept + branches.size[kept]] - before[kept]
    shape = shape_of(CallTree(np.zeros(len(kept), np.uint32), size.astype(np.uint32)))
    if (shape.parent[1:] >= np.arange(1, len(kept))).any():
        raise BrokenCapture(DAMAGED)
    return Boxes(shape.parent, shape.by_level, branches.function[kept], total[kept], counts[kept])


def holding(branches: Branches, chosen: Flags) -> Flags:
    """Rows whose stack holds one of the chosen functions (a flag a key)."""
    rows = np.flatnonzero(chosen[branches.function])
    count = len(branches.size) + 1
    opened = np.bincount(rows, minlength=count) - np.bincount(rows + branches.size[rows], minlength=count)
    found: Flags = np.cumsum(opened)[:-1] > 0
    return found
