# SPDX-License-Identifier: Apache-2.0
"""All stacks as one tree, numbered so that what lies below a node follows it without a hole (preorder).

Stacks are sorted by their frames, root first; each adds only the frames in which it differs from the one before. Whatever is
counted below a node is then a difference of two counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zombiescope.profiling.arrays import I32, I64, U32, U64, Numbers, copy_ranges

ROOT_FRAME = 0xFFFFFFFF


class CallTree(NamedTuple):
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

    A few levels at a time, only groups of stacks that are equal so far; most stacks are alone after a few steps.
    """
    count = len(starts)
    order = np.arange(count, dtype=np.int64)
    shared = np.zeros(count, np.int64)
    places = np.arange(count, dtype=np.int64)
    group = np.zeros(count, np.int64)
    deepest = int(lengths.max()) if count else 0
    bits = (int(frames.max()) + 1).bit_length() if len(frames) else 1
    levels = max(1, (64 - count.bit_length()) // bits)
    for level in range(0, deepest + 1, levels):
        if len(places) < 2:
            break
        stacks = order[places]
        keys = _next_frames(frames, starts[stacks] + level, lengths[stacks] - level, levels, bits)
        keys |= group.astype(np.uint64) << np.uint64(levels * bits)
        by_key = np.argsort(keys)
        order[places] = stacks[by_key]
        keys = keys[by_key]
        differ = keys[1:] ^ keys[:-1]
        begins = np.ones(len(places), bool)
        begins[1:] = differ != 0
        parted = np.flatnonzero(begins[1:] & (differ >> np.uint64(levels * bits) == 0))
        shared[places[parted + 1]] = level + _levels_shared(differ[parted], levels, bits)
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


def _next_frames(frames: U32, places: I64, left: I64, levels: int, bits: int) -> U64:
    """Some frames of each stack as one number, the first on top; zero where the stack has ended."""
    keys = np.zeros(len(places), np.uint64)
    for ahead in range(levels):
        there = np.flatnonzero(left > ahead)
        if not len(there):
            break
        here = frames[places[there] + ahead].astype(np.uint64) + np.uint64(1)
        keys[there] |= here << np.uint64(bits * (levels - 1 - ahead))
    return keys


def _levels_shared(differ: U64, levels: int, bits: int) -> I64:
    """How many of the frames on top are equal, where two keys differ."""
    shared = np.zeros(len(differ), np.int64)
    for ahead in range(1, levels):
        shared += differ >> np.uint64(bits * (levels - ahead)) == 0
    return shared


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
