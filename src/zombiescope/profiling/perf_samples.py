# SPDX-License-Identifier: Apache-2.0
"""Samples as columns: time, core, thread, mode, event, and where the call chain lies. In time order."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from zombiescope.profiling import perf_layout as layout_of
from zombiescope.profiling.arrays import I64, U8, U16, U32, U64
from zombiescope.profiling.perf_layout import Event, Events, Layout


@dataclass(frozen=True, slots=True)
class Samples:
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

    def __len__(self) -> int:
        return len(self.time)

    def picked(self, order: I64) -> Samples:
        columns = {item.name: getattr(self, item.name)[order] for item in fields(self) if item.name != "broken"}
        return replace(self, **columns)


def read_samples(words: U64, places: I64, events: Events) -> Samples:
    which = _event_of(words, places, events)
    parts = [_columns(words, places[which == index], event, index) for index, event in enumerate(events.all)]
    columns: dict[str, Any] = {
        item.name: np.concatenate([getattr(part, item.name) for part in parts])
        for item in fields(Samples)
        if item.name != "broken"
    }
    joined = Samples(**columns, broken=sum(part.broken for part in parts))
    return joined.picked(np.argsort(joined.time, kind="stable"))


def _event_of(words: U64, places: I64, events: Events) -> U16:
    """Which event made each sample: by its id, which is in the same place for all of them, or there is only one event."""
    none = np.zeros(len(places), np.uint16)
    if len(events.all) == 1 or not events.by_id:
        return none
    first = events.all[0].layout().at
    word = first.get(layout_of.IDENTIFIER, first.get(layout_of.ID))
    if word is None:
        return none
    ids = np.array(sorted(events.by_id), np.uint64)
    owners = np.array([events.by_id[int(number)] for number in ids], np.uint16)
    mine = words[np.minimum(places + word, len(words) - 1)]
    found = np.minimum(np.searchsorted(ids, mine), len(ids) - 1)
    return np.where(ids[found] == mine, owners[found], np.uint16(0)).astype(np.uint16)


def _columns(words: U64, places: I64, event: Event, index: int) -> Samples:
    layout = event.layout()
    sizes = (words[places] >> np.uint64(51)).astype(np.int64)
    whole = sizes >= layout.least_words
    places, sizes = places[whole], sizes[whole]
    chain_at, chain_words = _chains(words, places, layout)
    fits = (chain_words >= 0) & (chain_at + chain_words <= places + sizes)
    broken = len(whole) - int(np.count_nonzero(fits))
    places, sizes, chain_at, chain_words = places[fits], sizes[fits], chain_at[fits], chain_words[fits]
    zeros = np.zeros(len(places), np.uint64)

    def field(bit: int) -> U64:
        return words[places + layout.at[bit]] if bit in layout.at else zeros

    thread = field(layout_of.TID)
    return Samples(
        field(layout_of.TIME),
        field(layout_of.CPU).astype(np.uint32),
        thread.astype(np.uint32),
        (thread >> np.uint64(32)).astype(np.uint32),
        ((words[places] >> np.uint64(32)) & np.uint64(7)).astype(np.uint8),
        np.full(len(places), index, np.uint16),
        _cgroups(words, places + sizes, chain_at + chain_words, layout),
        chain_at,
        chain_words,
        broken,
    )


def _chains(words: U64, places: I64, layout: Layout) -> tuple[I64, I64]:
    """Where the chain's addresses begin and how many there are; without a chain, the address of the sample alone."""
    if layout.chain is None:
        word = layout.at.get(layout_of.IP)
        return (places + word, np.ones(len(places), np.int64)) if word else (places, np.zeros(len(places), np.int64))
    at = places + layout.chain
    last = len(words) - 1
    if layout.read_group:
        before, each = layout.read_group
        counters = np.minimum(words[np.minimum(at, last)], np.uint64(8192)).astype(np.int64)
        at = np.minimum(at + before + counters * each, last)
    return at + 1, np.minimum(words[at], np.uint64(1 << 16)).astype(np.int64)


def _cgroups(words: U64, ends: I64, after_chain: I64, layout: Layout) -> U64:
    if layout.cgroup_after_chain is None:
        return np.zeros(len(ends), np.uint64)
    at = after_chain + layout.cgroup_after_chain
    return np.where(at < ends, words[np.minimum(at, len(words) - 1)], np.uint64(0)).astype(np.uint64)
