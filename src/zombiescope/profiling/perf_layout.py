# SPDX-License-Identifier: Apache-2.0
"""Where each field of a sample lies: perf's sample_type decides the layout, in 64-bit words with the record header as word 0."""

from __future__ import annotations

import struct
from typing import NamedTuple

from zombiescope.profiling.broken import BrokenCapture

IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU = (1 << bit for bit in range(8))
PERIOD, STREAM_ID, RAW, BRANCH_STACK, REGS_USER, STACK_USER = (1 << bit for bit in range(8, 14))
WEIGHT, DATA_SRC, IDENTIFIER, TRANSACTION, REGS_INTR, PHYS_ADDR = (1 << bit for bit in range(14, 20))
CGROUP = 1 << 21
WEIGHT_STRUCT = 1 << 24

_BEFORE_CHAIN = (IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD)
_TRAILER = (TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER)
_OF_ANY_LENGTH = RAW | BRANCH_STACK | REGS_USER | STACK_USER | REGS_INTR
_AFTER_CHAIN = (WEIGHT | WEIGHT_STRUCT, DATA_SRC, TRANSACTION, PHYS_ADDR)
_READ_ENABLED, _READ_RUNNING, _READ_ID, _READ_GROUP, _READ_LOST = (1 << bit for bit in range(5))
_FREQUENCY, _SAMPLE_ID_ALL, _USE_CLOCKID = 1 << 10, 1 << 18, 1 << 25
ATTR_WORDS_BYTES = 48
_KNOWN_EVENTS = {
    (0, 0): "cycles",
    (0, 1): "instructions",
    (1, 0): "cpu-clock",
    (1, 1): "task-clock",
    (1, 2): "page-faults",
    (1, 3): "context-switches",
}


class Layout(NamedTuple):
    at: dict[int, int]
    """The word of each fixed field."""
    chain: int | None
    """The word of the call chain's length, before what a group of counters takes."""
    read_group: tuple[int, int] | None
    """Where a group of counters precedes the chain: words before the counters (their number first), words a counter."""
    cgroup_after_chain: int | None
    least_words: int


class Event(NamedTuple):
    kind: int
    config: int
    rate: int
    """Samples a second when `is_frequency`, else events between two samples."""
    sample_type: int
    read_format: int
    flags: int
    clock: int | None
    ids: tuple[int, ...] = ()
    name: str = ""

    @property
    def is_frequency(self) -> bool:
        return bool(self.flags & _FREQUENCY)

    @property
    def title(self) -> str:
        return self.name or _KNOWN_EVENTS.get((self.kind, self.config), f"event {self.kind}:{self.config:#x}")

    def layout(self) -> Layout:
        at: dict[int, int] = {}
        word = 1
        for bit in _BEFORE_CHAIN:
            if self.sample_type & bit:
                at[bit] = word
                word += 1
        group: tuple[int, int] | None = None
        if self.sample_type & READ:
            fixed, group = self._counters()
            word += fixed
        chain = word if self.sample_type & CALLCHAIN else None
        return Layout(at, chain, group, self._cgroup(), word + (1 if chain is not None else 0))

    def _counters(self) -> tuple[int, tuple[int, int] | None]:
        form = self.read_format
        times = bool(form & _READ_ENABLED) + bool(form & _READ_RUNNING)
        each = 1 + bool(form & _READ_ID) + bool(form & _READ_LOST)
        return (0, (1 + times, each)) if form & _READ_GROUP else (times + each, None)

    def _cgroup(self) -> int | None:
        """Words between the end of the chain and the cgroup id; None where something of any length lies between."""
        if not self.sample_type & CGROUP or self.sample_type & _OF_ANY_LENGTH:
            return None
        return sum(1 for bits in _AFTER_CHAIN if self.sample_type & bits)

    def trailer(self) -> dict[int, int]:
        """Words from the end of a record that is no sample (negative), when the event asked for them."""
        if not self.flags & _SAMPLE_ID_ALL:
            return {}
        there = [bit for bit in _TRAILER if self.sample_type & bit]
        return {bit: index - len(there) for index, bit in enumerate(there)}


class Events(NamedTuple):
    all: tuple[Event, ...]
    by_id: dict[int, int]

    @classmethod
    def of(cls, events: list[Event]) -> Events:
        return cls(tuple(events), {number: index for index, event in enumerate(events) for number in event.ids})


def read_event(raw: bytes, ids: tuple[int, ...] = (), name: str = "") -> Event:
    """One perf_event_attr; older and newer kernels' lengths both."""
    if len(raw) < ATTR_WORDS_BYTES:
        raise BrokenCapture(f"an event description of {len(raw)} bytes is too short", "record it again")
    kind, _, config, rate, sample_type, read_format, flags = struct.unpack_from("<IIQQQQQ", raw)
    clock = struct.unpack_from("<i", raw, 92)[0] if flags & _USE_CLOCKID and len(raw) >= 96 else None
    return Event(kind, config, rate, sample_type, read_format, flags, clock, ids, name)
