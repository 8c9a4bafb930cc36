# SPDX-License-Identifier: Apache-2.0
"""The optional scanner in C (`scanner.c` and others, built to `libscanner.so` beside them): used when there, never required."""

import ctypes
import os

import numpy as np

from zombiescope.profiler.files.columns import BUILT, VERSION, layout_words
from zombiescope.profiler.perf.data_file import Event
from zombiescope.profiler.perf.engine import Addresses
from zombiescope.profiler.perf.samples import Samples, Walk, ended_walk
from zombiescope.profiler.stacks.arrays import I64, U32, U64, Numbers
from zombiescope.profiler.stacks.call_tree import CallTree
from zombiescope.profiler.stacks.capture import BrokenCapture

_WHY = {-1: "there is not enough memory", -2: "a stack lies outside of the file"}


class Scanner:
    """Arrays are handed over as they are; the library checks every place that comes from a file.

    Answers are the beginning of arrays with room for the worst: what was never written takes no memory, a copy would.
    """

    def __init__(self, path: str | os.PathLike[str] = BUILT) -> None:
        self._library = ctypes.CDLL(str(path))
        if self._library.zs_version() != VERSION:
            raise OSError("it is of another version")
        for name in ("zs_walk", "zs_columns", "zs_numbers", "zs_distinct", "zs_addresses", "zs_tree"):
            getattr(self._library, name).restype = ctypes.c_int64

    def walk(self, words: U64, least_sample_words: int) -> Walk:
        samples = np.empty(len(words) // max(1, least_sample_words) + 1, np.int64)
        others, told = np.empty(len(words) + 1, np.int64), np.zeros(2, np.int64)
        given = (_at(words), _number(words), ctypes.c_int64(least_sample_words))
        found = _checked(self._library.zs_walk(*given, _at(samples), _at(others), _at(told)))
        end, rest = told.tolist()
        return ended_walk(words, least_sample_words, samples[:found], others[:rest].tolist(), end)

    def columns(self, words: U64, places: I64, event: Event, index: int) -> Samples:
        count = len(places)
        layout = np.array(layout_words(event.layout()), np.int64)
        time, cgroup = np.empty(count, np.uint64), np.empty(count, np.uint64)
        cpu, pid, tid = np.empty(count, np.uint32), np.empty(count, np.uint32), np.empty(count, np.uint32)
        mode = np.empty(count, np.uint8)
        chain_at, chain_words = np.empty(count, np.int64), np.empty(count, np.int64)
        given = (_at(words), _number(words), _at(places), ctypes.c_int64(count), _at(layout))
        taken = (_at(time), _at(cpu), _at(pid), _at(tid), _at(mode), _at(cgroup), _at(chain_at), _at(chain_words))
        rows = _checked(self._library.zs_columns(*given, *taken))
        made = Samples(time, cpu, pid, tid, mode, np.full(count, index, np.uint16), cgroup, chain_at, chain_words)
        return made.picked(slice(rows))._replace(broken=count - rows)

    def numbers(self, keys: U64) -> tuple[I64, I64]:
        ids, chosen = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        kinds = _checked(self._library.zs_numbers(_at(keys), _number(keys), _at(ids), _at(chosen)))
        return ids, chosen[:kinds]

    def distinct(self, words: U64, starts: I64, lengths: I64, salts: U64) -> tuple[I64, I64]:
        count = len(starts)
        ids, chosen = np.empty(count, np.int64), np.empty(count, np.int64)
        given = (_at(words), _number(words), _at(starts), _at(lengths), _at(salts), ctypes.c_int64(count))
        kinds = _checked(self._library.zs_distinct(*given, _at(ids), _at(chosen)))
        return ids, chosen[:kinds]

    def addresses(self, words: U64, starts: I64, lengths: I64, owners: I64, *, callers: bool) -> Addresses:
        count, most = len(starts), int(lengths.sum())
        ids = np.empty(most + 2 * count, np.uint32)
        new_starts, new_lengths = np.empty(count, np.int64), np.empty(count, np.int64)
        addresses, new_owners = np.empty(most, np.uint64), np.empty(most, np.int64)
        given = (_at(words), _number(words), _at(starts), _at(lengths), _at(owners), ctypes.c_int64(count))
        taken = (_at(ids), _at(new_starts), _at(new_lengths), _at(addresses), _at(new_owners))
        pairs = _checked(self._library.zs_addresses(*given, ctypes.c_int(callers), *taken))
        kept = int(new_lengths.sum()) + 2 * count
        return Addresses(ids[:kept], new_starts, new_lengths, addresses[:pairs], new_owners[:pairs])

    def tree(self, stacks: Addresses, frame_of: U32, roots: U32) -> tuple[CallTree, I64]:
        count, room = len(stacks.starts), len(stacks.ids) + 1
        frames, sizes, leaves = np.empty(room, np.uint32), np.empty(room, np.uint32), np.empty(count, np.int64)
        given = (_at(stacks.ids), _number(stacks.ids), _at(frame_of), _number(frame_of), _at(stacks.starts))
        rest = (_at(stacks.lengths), _at(roots), ctypes.c_int64(count), ctypes.c_int64(room))
        nodes = _checked(self._library.zs_tree(*given, *rest, _at(frames), _at(sizes), _at(leaves)))
        return CallTree(frames[:nodes], sizes[:nodes]), leaves


def _at(values: Numbers) -> ctypes.c_void_p:
    if not (values.flags.c_contiguous and values.flags.aligned):
        raise ValueError("the scanner takes whole, aligned arrays only")
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
