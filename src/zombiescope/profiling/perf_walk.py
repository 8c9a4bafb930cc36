# SPDX-License-Identifier: Apache-2.0
"""Record after record through perf.data, most of them without a step of Python.

Records are multiples of 8 bytes, so the data is one array of words. Words that look like a sample's header are candidates;
where each ends at the next one, the whole run is proved; only what lies between runs is walked one by one.
"""

from __future__ import annotations

import bisect
from typing import NamedTuple

import numpy as np

from zombiescope.profiling.arrays import I64, U64

SAMPLE = 9
_TRACING_DATA, _AUXTRACE = 66, 71
COMPRESSED, COMPRESSED2 = 81, 83
_PIECE_WORDS = 1 << 18


class Walk(NamedTuple):
    samples: I64
    """The word at which each sample begins, ascending."""
    others: list[int]
    """The words at which all other records begin."""
    end: int
    """The word where the walk ended: the end of the data, or where it makes no sense any more."""
    why: str = ""
    is_compressed: bool = False


def walk_records(words: U64, least_sample_words: int) -> Walk:
    plain = words.data.cast("B").cast("Q") if len(words) else memoryview(b"").cast("Q")
    candidates, following, breaks = _candidates(words, least_sample_words)
    runs: list[I64] = []
    others: list[int] = []
    at, total = 0, len(words)
    listed, ends, first = candidates.data, following.data, 0
    while at < total:
        header = plain[at]
        kind, size = header & 0xFFFFFFFF, header >> 48
        if kind in (COMPRESSED, COMPRESSED2) or _wrong(kind, size, at, total, least_sample_words):
            break
        if kind == SAMPLE:
            if first >= len(listed) or listed[first] != at:
                first = bisect.bisect_left(listed, at)
            last = breaks[bisect.bisect_left(breaks, first)]
            runs.append(candidates[first : last + 1])
            at, first = ends[last], last + 1
        else:
            others.append(at)
            at += (size >> 3) + _trailing_words(kind, plain, at, total)
    return ended_walk(words, least_sample_words, _joined(runs), others, at)


def ended_walk(words: U64, least_sample_words: int, samples: I64, others: list[int], at: int) -> Walk:
    """With the reason why it ended at this place."""
    total = len(words)
    if at >= total:
        return Walk(samples, others, total, "" if at == total else "the last record is cut off")
    header = int(words[at])
    kind, size = header & 0xFFFFFFFF, header >> 48
    if kind in (COMPRESSED, COMPRESSED2):
        return Walk(samples, others, at, is_compressed=True)
    return Walk(samples, others, at, _wrong(kind, size, at, total, least_sample_words))


def _candidates(words: U64, least: int) -> tuple[I64, I64, list[int]]:
    """Places of words that look like a sample's header, where each would end, and which do not end at the next one."""
    if not len(words):
        return np.empty(0, np.int64), np.empty(0, np.int64), []
    kinds = words.view(np.uint32)[::2]
    pieces = range(0, len(words), _PIECE_WORDS)
    places = np.concatenate([np.flatnonzero(kinds[at : at + _PIECE_WORDS] == SAMPLE) + at for at in pieces])
    headers = words[places]
    lengths = (headers >> np.uint64(51)).astype(np.int64)
    whole = ((headers >> np.uint64(48)) & np.uint64(7) == 0) & (lengths >= least) & (places + lengths <= len(words))
    places, lengths = places[whole], lengths[whole]
    following = places + lengths
    chained = np.zeros(len(places), bool)
    chained[:-1] = following[:-1] == places[1:]
    return places, following, np.flatnonzero(~chained).tolist()


def _wrong(kind: int, size: int, at: int, total: int, least_sample_words: int) -> str:
    if size < 8:
        return f"a record of {size} bytes"
    if size & 7 and kind not in (COMPRESSED, COMPRESSED2):
        return f"a record of {size} bytes, which is no multiple of 8"
    if at + (size >> 3) > total:
        return f"a record of {size} bytes, of which {(total - at) * 8} are there"
    if kind == SAMPLE and size >> 3 < least_sample_words:
        return f"a sample of {size} bytes, too short for its event"
    return ""


def _trailing_words(kind: int, plain: memoryview, at: int, total: int) -> int:
    if at + 1 >= total:
        return 0
    if kind == _AUXTRACE:
        return int(plain[at + 1]) >> 3
    return ((int(plain[at + 1]) & 0xFFFFFFFF) + 7) >> 3 if kind == _TRACING_DATA else 0


def _joined(runs: list[I64]) -> I64:
    return np.concatenate(runs) if runs else np.empty(0, np.int64)
