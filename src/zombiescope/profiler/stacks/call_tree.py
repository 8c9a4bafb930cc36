# SPDX-License-Identifier: Apache-2.0
"""All stacks as one tree, numbered so that what lies below a node follows it without a hole (preorder).

Stacks are sorted by their frames, root first; each adds only the frames in which it differs from the one before. Whatever is
counted below a node is then a difference of two counts.
"""

from typing import NamedTuple

import numpy as np

from zombiescope.profiler.stacks.arrays import I64, U32, U64, copy_ranges, pieces, ranges

ROOT_FRAME = 0xFFFFFFFF
_PIECE_STACKS = 1 << 13


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

    As many levels at a time as fit into a number beside the group: stacks that were equal so far. Most are alone after a few steps.
    """
    count = len(starts)
    order = np.arange(count)
    shared = np.zeros(count, np.int64)
    places, stacks, group = order.copy(), order.copy(), np.zeros(count, np.int64)
    deepest = int(lengths.max()) if count else 0
    bits = (int(frames.max()) + 1).bit_length() if len(frames) else 1
    level, groups = 0, 1
    while len(places) > 1 and level <= deepest:
        levels = max(1, (64 - groups.bit_length()) // bits)
        keys = _next_frames(frames, starts[stacks] + level, lengths[stacks] - level, levels, bits)
        keys |= group.astype(np.uint64) << np.uint64(levels * bits)
        by_key = np.argsort(keys)
        stacks, keys = stacks[by_key], keys[by_key]
        order[places] = stacks
        differ = keys[1:] ^ keys[:-1]
        parted = np.flatnonzero((differ != 0) & (differ >> np.uint64(levels * bits) == 0))
        shared[places[parted + 1]] = level + _levels_shared(differ[parted], levels, bits)
        begins = np.append(True, differ != 0)
        together = np.flatnonzero(~(begins & np.append(begins[1:], True)))
        places, stacks, group = places[together], stacks[together], np.cumsum(begins[together].astype(np.int64))
        level, groups = level + levels, int(group.max(initial=0))
    if len(places) > 1:
        # Stacks that are equal to the end: they add nothing and end where the first of them ends.
        again = places[1:][group[1:] == group[:-1]]
        shared[again] = lengths[order[again]]
    return order, shared


def _next_frames(frames: U32, places: I64, left: I64, levels: int, bits: int) -> U64:
    """Some frames of each stack as one number, the first on top; zero where the stack has ended.

    In pieces: the frames of a stack are still in the cache when the next of them is asked for.
    """
    keys = np.zeros(len(places), np.uint64)
    for begin in range(0, len(places), _PIECE_STACKS):
        some = slice(begin, begin + _PIECE_STACKS)
        mine = keys[some]
        for ahead in range(levels):
            mine <<= np.uint64(bits)
            mine |= (frames.take(places[some] + ahead, mode="clip") + np.uint32(1)) * (left[some] > ahead)
    return keys


def _levels_shared(differ: U64, levels: int, bits: int) -> I64:
    """How many of the frames on top are equal, where two keys differ."""
    shared = np.zeros(len(differ), np.int64)
    for ahead in range(1, levels):
        shared += differ >> np.uint64(bits * (levels - ahead)) == 0
    return shared


def _sizes(first: I64, shared: I64, added: I64, total: int) -> U32:
    """A node ends where the first later stack begins that shares fewer frames than the node is deep: mostly the next one."""
    if not len(first):
        return np.ones(total, np.uint32)
    after = np.append(first, total).astype(np.uint32)
    sizes = np.empty(total, np.uint32)
    sizes[0] = total
    for some in pieces(added):
        begin, end = int(after[some.start]), int(after[some.stop])
        np.subtract(
            np.repeat(after[1:][some], added[some]), np.arange(begin, end, dtype=np.uint32), out=sizes[begin:end]
        )
    # The frames that a stack shares with the one before it were added by the last one that shares fewer, and the next one that
    # shares fewer ends them. What either of these two shares, another pair holds; so does the first of those that share as many.
    made = len(shared) - 1 - _next_smaller(shared[::-1], or_equal=True)[::-1]
    ended = _next_smaller(shared, or_equal=False)
    least = np.maximum(np.where(made < 0, shared, shared[made]), np.append(shared, 0)[ended])
    held = np.maximum(shared - least, 0)
    begins = first[made] + least - shared[made]
    for some in pieces(held):
        nodes = ranges(begins[some], held[some])
        sizes[nodes] = np.repeat(after[ended[some]], held[some]) - nodes.astype(np.uint32)
    return sizes


def _next_smaller(values: I64, *, or_equal: bool) -> I64:
    """For each place the next one with a smaller value, or the end. From there on what lies between need not be looked at again."""
    smaller = np.less_equal if or_equal else np.less
    found = np.arange(1, len(values) + 1)
    bounded = np.append(values, np.iinfo(np.int64).min)
    left = np.arange(len(values))
    while len(left := left[~smaller(bounded[found[left]], values[left])]):
        found[left] = found[found[left]]
    return found
