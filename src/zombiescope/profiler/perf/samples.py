# SPDX-License-Identifier: Apache-2.0
"""Samples as columns: time, core, thread, mode, event, and where the call chain lies. In time order."""

import bisect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from zombiescope.profiler.perf import data_file as layout_of
from zombiescope.profiler.perf.data_file import (
    COMPRESSED,
    COMPRESSED2,
    SAMPLE,
    Event,
    Events,
    Layout,
    trailing_bytes,
    why_ended,
    wrong_with,
)
from zombiescope.profiler.stacks.arrays import I64, U8, U16, U32, U64, Flags, Numbers

_PIECE_ROWS = 1 << 15


class Samples(NamedTuple):
    time: U64
    cpu: U32
    pid: U32
    tid: U32
    mode: U8
    """The processor mode of the record's header: 1 kernel, 2 user, 3 hypervisor, 4 and 5 a guest's."""
    event: U16
    cgroup: U64
    """Zero where the event did not ask for it."""
    chain_at: I64
    """The first word of the call chain, leaf first."""
    chain_words: I64
    broken: int = 0
    """Samples left out because their length lies."""

    def picked(self, order: I64 | slice) -> "Samples":
        return self._replace(**{name: getattr(self, name)[order] for name in _COLUMNS})


_COLUMNS = tuple(name for name in Samples._fields if name != "broken")
ColumnReader = Callable[[U64, I64, Event, int], Samples]


def read_samples(words: U64, places: I64, events: Events, read_columns: ColumnReader) -> Samples:
    which = _event_of(words, places, events)
    if not isinstance(which, int):
        joined = _joined(
            [read_columns(words, places[which == index], event, index) for index, event in enumerate(events.all)]
        )
        return joined.picked(np.argsort(joined.time, kind="stable"))
    # In order first: one column is moved instead of all.
    word = events.all[which].layout().at.get(layout_of.TIME)
    if word is not None and len(places):
        places = places[np.argsort(words[np.minimum(places + word, len(words) - 1)], kind="stable")]
    return read_columns(words, places, events.all[which], which)


def _joined(parts: list[Samples]) -> Samples:
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    return Samples(**columns, broken=sum(part.broken for part in parts))


def _event_of(words: U64, places: I64, events: Events) -> U16 | int:
    """Which event made each sample: by its id, which is in the same place for all of them. One number: all the same."""
    if len(events.all) == 1 or not events.by_id or not len(places):
        return 0
    first = events.all[0].layout().at
    word = first.get(layout_of.IDENTIFIER, first.get(layout_of.ID))
    if word is None:
        return 0
    ids = np.array(sorted(events.by_id), np.uint64)
    owners = np.array([events.by_id[int(number)] for number in ids], np.uint16)
    mine = words[np.minimum(places + word, len(words) - 1)]
    found = np.minimum(np.searchsorted(ids, mine), len(ids) - 1)
    which = np.where(ids[found] == mine, owners[found], np.uint16(0)).astype(np.uint16)
    return int(which[0]) if np.all(which == which[0]) else which


def columns_of(words: U64, places: I64, event: Event, index: int) -> Samples:
    """With numpy alone, in pieces that stay in the cache: the head of every sample is copied once, then cut into columns."""
    layout = event.layout()
    made = _piece(words, places[:_PIECE_ROWS], layout, index)
    if len(places) <= _PIECE_ROWS:
        return made
    columns = {name: np.empty(len(places), getattr(made, name).dtype) for name in _COLUMNS}
    rows = broken = 0
    for first in range(0, len(places), _PIECE_ROWS):
        made = _piece(words, places[first : first + _PIECE_ROWS], layout, index) if first else made
        for name, column in columns.items():
            column[rows : rows + len(made.time)] = getattr(made, name)
        rows, broken = rows + len(made.time), broken + made.broken
    return Samples(**{name: column[:rows] for name, column in columns.items()}, broken=broken)


def _piece(words: U64, places: I64, layout: Layout, index: int) -> Samples:
    given = len(places)
    sizes = (words[places] >> np.uint64(51)).astype(np.int64)
    places, sizes = _kept(sizes >= layout.least_words, places, sizes)
    # A view of as many words at every word: taking a row of it copies the head of a sample at once.
    rows = max(0, len(words) - layout.least_words + 1)
    heads = np.lib.stride_tricks.as_strided(words, (rows, layout.least_words), (8, 8), writeable=False)[places]
    chain_at, chain_words = _chains(words, places, heads, layout)
    fits = chain_at + chain_words <= places + sizes
    places, sizes, chain_at, chain_words, heads = _kept(fits, places, sizes, chain_at, chain_words, heads)
    zeros = np.zeros(len(places), np.uint64)

    def field(bit: int) -> U64:
        return heads[:, layout.at[bit]] if bit in layout.at else zeros

    thread = field(layout_of.TID)
    return Samples(
        field(layout_of.TIME),
        field(layout_of.CPU).astype(np.uint32),
        thread.astype(np.uint32),
        (thread >> np.uint64(32)).astype(np.uint32),
        ((heads[:, 0] >> np.uint64(32)) & np.uint64(7)).astype(np.uint8),
        np.full(len(places), index, np.uint16),
        _cgroups(words, places + sizes, chain_at + chain_words, layout),
        chain_at,
        chain_words,
        given - len(places),
    )


def _kept(which: Flags, *columns: Numbers) -> tuple[Numbers, ...]:
    return columns if which.all() else tuple(column[which] for column in columns)


def _chains(words: U64, places: I64, heads: U64, layout: Layout) -> tuple[I64, I64]:
    """Where the chain's addresses begin and how many there are; without a chain, the address of the sample alone."""
    if layout.chain is None:
        word = layout.at.get(layout_of.IP)
        return (places + word, np.ones(len(places), np.int64)) if word else (places, np.zeros(len(places), np.int64))
    at = places + layout.chain
    lengths = heads[:, layout.chain]
    if layout.read_group:
        before, each = layout.read_group
        at = at + before + np.minimum(lengths, np.uint64(8192)).astype(np.int64) * each
        lengths = words[np.minimum(at, len(words) - 1)]
    return at + 1, np.minimum(lengths, np.uint64(1 << 16)).astype(np.int64)


def _cgroups(words: U64, ends: I64, after_chain: I64, layout: Layout) -> U64:
    if layout.cgroup_after_chain is None:
        return np.zeros(len(ends), np.uint64)
    at = after_chain + layout.cgroup_after_chain
    return np.where(at < ends, words[np.minimum(at, len(words) - 1)], np.uint64(0)).astype(np.uint64)


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
    runs, others = [np.empty(0, np.int64)], list[int]()
    at, total = 0, len(words)
    listed, ends, first = candidates.data, following.data, 0
    while at < total:
        header = plain[at]
        kind, size = header & 0xFFFFFFFF, header >> 48
        if kind in (COMPRESSED, COMPRESSED2) or wrong_with(kind, size, at, total, least_sample_words):
            break
        if kind == SAMPLE:
            if first >= len(listed) or listed[first] != at:
                first = bisect.bisect_left(listed, at)
            last = breaks[bisect.bisect_left(breaks, first)]
            runs.append(candidates[first : last + 1])
            at, first = ends[last], last + 1
        else:
            others.append(at)
            at += (size >> 3) + (trailing_bytes(kind, plain[at + 1]) >> 3 if at + 1 < total else 0)
    return ended_walk(words, least_sample_words, np.concatenate(runs), others, at)


def ended_walk(words: U64, least_sample_words: int, samples: I64, others: list[int], at: int) -> Walk:
    """With the reason why it ended at this place."""
    return Walk(samples, others, *why_ended(words, least_sample_words, at))


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
