# SPDX-License-Identifier: Apache-2.0
"""The three steps of an import that touch every word of every stack, with numpy alone. The optional scanner does the same in C."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from zombiescope.profiling.arrays import I64, U32, U64, Flags, dense_ids, ranges, sequence_hashes
from zombiescope.profiling.call_tree import CallTree, build_tree

FIRST_KERNEL_ADDRESS = 1 << 63
FIRST_MARKER = (1 << 64) - 4095
"""Above: PERF_CONTEXT_* words that say what follows, no addresses."""


class Addresses(NamedTuple):
    """Stacks as ids of distinct (address, owner) pairs, root first, without marker words."""

    ids: U32
    starts: I64
    lengths: I64
    addresses: U64
    owners: I64


class Engine(Protocol):
    def distinct(self, words: U64, starts: I64, lengths: I64, salts: U64) -> tuple[I64, I64]:
        """As `dense_ids`, of whole sequences with a salt each."""
        ...

    def addresses(self, words: U64, starts: I64, lengths: I64, owners: I64, *, callers: bool) -> Addresses:
        """`callers`: an address that a call returns to becomes the one before it, which is inside the call."""
        ...

    def tree(self, stacks: Addresses, frame_of: U32, roots: U32) -> tuple[CallTree, I64]:
        """The tree of all stacks below their roots, and the node where each ends."""
        ...


class ArrayEngine:
    def distinct(self, words: U64, starts: I64, lengths: I64, salts: U64) -> tuple[I64, I64]:
        if not len(starts):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return dense_ids(_hashes(words, starts, lengths, salts))

    def addresses(self, words: U64, starts: I64, lengths: I64, owners: I64, *, callers: bool) -> Addresses:
        found = words[ranges(starts, lengths)]
        owner = np.repeat(owners, lengths)
        markers = found >= np.uint64(FIRST_MARKER)
        if callers:
            found = _calls(found, markers, lengths)
        in_kernel = found >= np.uint64(FIRST_KERNEL_ADDRESS)
        keys = np.where(in_kernel, found, found ^ ((owner.astype(np.uint64) + np.uint64(1)) << np.uint64(47)))
        ids, chosen = dense_ids(keys)
        kept = ~markers
        counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        ends = np.cumsum(lengths)
        lengths = counts[ends] - counts[ends - lengths]
        # Leaf first becomes root first: reversed as a whole, each stack lies at the mirrored place.
        backwards = ids[kept][::-1].astype(np.uint32)
        return Addresses(backwards, len(backwards) - np.cumsum(lengths), lengths, found[chosen], owner[chosen])

    def tree(self, stacks: Addresses, frame_of: U32, roots: U32) -> tuple[CallTree, I64]:
        """Stacks that became equal when addresses became functions are one."""
        frames = frame_of[stacks.ids]
        ids, chosen = dense_ids(
            _hashes(frames.astype(np.uint64), stacks.starts, stacks.lengths, roots.astype(np.uint64))
        )
        starts, lengths, roots = stacks.starts[chosen], stacks.lengths[chosen], roots[chosen]
        joined = np.empty(int(lengths.sum()) + len(lengths), np.uint32)
        begins = np.cumsum(lengths + 1) - (lengths + 1)
        joined[begins] = roots
        joined[ranges(begins + 1, lengths)] = frames[ranges(starts, lengths)]
        tree, leaves = build_tree(joined, begins, lengths + 1)
        return tree, leaves[ids]


def _hashes(words: U64, starts: I64, lengths: I64, salts: U64) -> U64:
    if not np.any(starts[1:] < starts[:-1]):
        return sequence_hashes(words, starts, lengths, salts)
    order = np.argsort(starts)
    hashes = np.empty(len(starts), np.uint64)
    hashes[order] = sequence_hashes(words, starts[order], lengths[order], salts[order])
    return hashes


def _calls(addresses: U64, markers: Flags, lengths: I64) -> U64:
    """Every address but the first of its kind is where a call returns to: one less lies inside the call."""
    returns = ~markers
    returns[1:] &= ~markers[:-1]
    starts = np.cumsum(lengths) - lengths
    returns[starts[lengths > 0]] = False
    calls: U64 = addresses - (returns & (addresses != 0))
    return calls
