# SPDX-License-Identifier: Apache-2.0
"""The optional scanner in C (`scanner.c`, built to `libscanner.so` beside it): used when it is there, never required."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from zombiescope.profiling.arrays import I64, U32, U64, Numbers
from zombiescope.profiling.broken import BrokenCapture
from zombiescope.profiling.call_tree import CallTree
from zombiescope.profiling.engine import Addresses

BUILT = Path(__file__).with_name("libscanner.so")
_VERSION = 1
_WHY = {-1: "there is not enough memory", -2: "a stack lies outside of the file"}


class Scanner:
    """Arrays are handed over as they are; the library checks every place that comes from a file."""

    def __init__(self, path: Path = BUILT) -> None:
        self._library = ctypes.CDLL(str(path))
        if self._library.zs_version() != _VERSION:
            raise OSError("it is of another version")
        for name in ("zs_distinct", "zs_addresses", "zs_tree"):
            getattr(self._library, name).restype = ctypes.c_int64

    def distinct(self, words: U64, starts: I64, lengths: I64, salts: U64) -> tuple[I64, I64]:
        count = len(starts)
        ids, chosen = np.empty(count, np.int64), np.empty(count, np.int64)
        given = (_at(words), _number(words), _at(starts), _at(lengths), _at(salts), ctypes.c_int64(count))
        kinds = _checked(self._library.zs_distinct(*given, _at(ids), _at(chosen)))
        return ids, chosen[:kinds].copy()

    def addresses(self, words: U64, starts: I64, lengths: I64, owners: I64, *, callers: bool) -> Addresses:
        count, most = len(starts), int(lengths.sum())
        ids = np.empty(most, np.uint32)
        new_starts, new_lengths = np.empty(count, np.int64), np.empty(count, np.int64)
        addresses, new_owners = np.empty(most, np.uint64), np.empty(most, np.int64)
        given = (_at(words), _number(words), _at(starts), _at(lengths), _at(owners), ctypes.c_int64(count))
        taken = (_at(ids), _at(new_starts), _at(new_lengths), _at(addresses), _at(new_owners))
        pairs = _checked(self._library.zs_addresses(*given, ctypes.c_int(callers), *taken))
        kept = int(new_lengths.sum())
        return Addresses(ids[:kept], new_starts, new_lengths, addresses[:pairs].copy(), new_owners[:pairs].copy())

    def tree(self, stacks: Addresses, frame_of: U32, roots: U32) -> tuple[CallTree, I64]:
        count = len(stacks.starts)
        room = int(stacks.lengths.sum()) + count + 1
        frames, sizes, leaves = np.empty(room, np.uint32), np.empty(room, np.uint32), np.empty(count, np.int64)
        given = (_at(stacks.ids), _number(stacks.ids), _at(frame_of), _number(frame_of), _at(stacks.starts))
        rest = (_at(stacks.lengths), _at(roots), ctypes.c_int64(count), ctypes.c_int64(room))
        nodes = _checked(self._library.zs_tree(*given, *rest, _at(frames), _at(sizes), _at(leaves)))
        return CallTree(frames[:nodes].copy(), sizes[:nodes].copy()), leaves


def _at(values: Numbers) -> ctypes.c_void_p:
    if not values.flags.c_contiguous:
        raise ValueError("the scanner takes whole arrays only")
    return ctypes.c_void_p(values.ctypes.data)


def _number(values: Numbers) -> ctypes.c_int64:
    return ctypes.c_int64(len(values))


def _checked(result: int) -> int:
    if result < 0:
        raise BrokenCapture(_WHY.get(result, f"the scanner answered {result}"), "record it again")
    return result


def built_scanner() -> Scanner | None:
    try:
        return Scanner()
    except (OSError, AttributeError):
        return None
