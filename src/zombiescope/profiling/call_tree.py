# SPDX-License-Identifier: Apache-2.0
"""All stacks as one tree, numbered so that what lies below a node follows it without a hole (preorder).

Stacks are sorted by their frames, root first; each adds only the frames in which it differs from the one before. Whatever is
counted below a node is then a difference of two counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zombiescope.profiling.arrays import I32, I64, U32, Numbers, copy_ranges

ROOT_FRAME = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class CallTree:
    frame: U32
    """The frame of each node; node 0 is the root, of which all stacks are part."""
    size: U32
    """How many nodes there are at and below a node: it and those below are `node … node + size - 1`."""


def build_tree(frames: U32, starts: I64, lengths: I64) -> tuple[CallTree, I64]:
    """The tree of distinct stacks `frames[start:start + length]`, root first, and the node where each ends."""
    order, shared = _sorted_stacks(frames, starts, lengths)
    added = lengths[order] - shared
    first = 1 + np.cumsum(added) - added
    total = 1 + int(added.sum())
    tree_frames = np.empty(total, np.uint32)
    tree_frames[0] = ROOT_FRAME
    copy_ranges(frames, starts[order] + shared, tree_frames, first, added)
    leaves = np.empty(len(order), np.int64)
    leaves[order] = first + added - 1
    return CallTree(tree_frames, _sizes(first, shared, added, total)), leaves


def _sorted_stacks(frames: U32, starts: I64, lengths: I64) -> tuple[I64, I64]:
    """The stacks in lexical order, and how many frames each shares with the one before.

    Level by level, only groups of stacks that are equal so far; most stacks are alone after a few levels.
    """
    count = len(starts)
    order = np.arange(count, dtype=np.int64)
    shared = np.zeros(count, np.int64)
    places = np.arange(count, dtype=np.int64)
    group = np.zeros(count, np.int64)
    deepest = int(lengths.max()) if count else 0
    for level in range(deepest + 1):
        if len(places) < 2:
            break
        stacks = order[places]
        left = lengths[stacks] > level
        here = np.zeros(len(places), np.uint64)
        here[left] = frames[starts[stacks[left]] + level].astype(np.uint64) + np.uint64(1)
        keys = (group.astype(np.uint64) << np.uint64(32)) | here
        by_key = np.argsort(keys)
        order[places] = stacks[by_key]
        keys = keys[by_key]
        begins = np.ones(len(places), bool)
        begins[1:] = keys[1:] != keys[:-1]
        parted = begins.copy()
        parted[0] = False
        parted[1:] &= group[1:] == group[:-1]
        shared[places[parted]] = level
        bounds = np.flatnonzero(begins)
        sizes = np.diff(np.append(bounds, len(places)))
        group = np.repeat(places[bounds], sizes)
        together = np.repeat(sizes > 1, sizes)
        places, group = places[together], group[together]
    if len(places) > 1:
        # Stacks that are equal to the end: they add nothing and end where the first of them ends.
        again = np.ones(len(places), bool)
        again[0] = False
        again[1:] = group[1:] == group[:-1]
        shared[places[again]] = lengths[order[places[again]]]
    return order, shared


def _sizes(first: I64, shared: I64, added: I64, total: int) -> U32:
    """A node ends where the first later stack begins that shares fewer frames than the node is deep."""
    count = len(first)
    if not count:
        return np.ones(total, np.uint32)
    # Half as wide as usual: there are as many nodes as all stacks have frames that differ.
    stack: I32 = np.repeat(np.arange(count, dtype=np.int32), added)
    depth: I32 = np.arange(total - 1, dtype=np.int32)
    depth -= np.repeat((first - 1 - shared).astype(np.int32), added)
    ends = np.empty(total, np.uint32)
    ends[0] = total
    ends[1:] = np.append(first[1:], total).astype(np.uint32)[stack]
    inner = np.flatnonzero(depth < np.append(shared[1:], -1).astype(np.int32)[stack])
    by_depth = inner[np.argsort(_narrow(depth[inner]), kind="stable")]
    after = np.append(first, total).astype(np.uint32)
    for nodes in np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1) if len(by_depth) else []:
        leaving = np.append(np.flatnonzero(shared <= depth[nodes[0]]), count)
        later = leaving[np.searchsorted(leaving, stack[nodes], side="right")]
        ends[1 + nodes] = after[later]
    ends -= np.arange(total, dtype=np.uint32)
    return ends


def _narrow(values: I32) -> Numbers:
    """Small numbers are sorted by counting, which is several times quicker."""
    return values.astype(np.uint16) if not len(values) or int(values.max()) < 1 << 16 else values
