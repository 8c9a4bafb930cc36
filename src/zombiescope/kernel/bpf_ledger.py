# SPDX-License-Identifier: Apache-2.0
"""The in-kernel ledger of births, deaths and releases (bpf/ledger.bpf.c): load, attach, read. It lives by descriptors alone, so
that a killed agent leaves nothing behind. Between readings nothing runs here.

A reading switches the side on which flows are counted, lets what is still counting end, then empties the other side. The kernel's
own totals run ahead of that by whatever happens meanwhile: what is told is what was booked, and they are the check (`Books`).
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, Dead, EventTier, Flow, Histogram, Lifecycle
from zombiescope.kernel.bpf_object import BpfObject, drained, entries, packaged

_NAME = "ledger.blob"
_BUCKETS = 48
_STATE = struct.Struct(f"<II3Q3Q3Q{_BUCKETS}Q{_BUCKETS}Q")
_FLOW_KEY_BYTES = 72
_FLOW = struct.Struct("<3QII256s")
_DEAD = struct.Struct("<QQII256s")
_SECONDS_FOR_A_PROGRAM_TO_END = 0.02


class Books:
    """Totals that are the sum of their flows in every reading. What the kernel had counted before a reading is booked by the end
    of the next one at the latest (its program may have been between the total and the flow); what is not by then is lost."""

    def __init__(self) -> None:
        self.total = Counts()
        self.lost = 0
        self._due = Counts()

    def take(self, counted_before: Counts, booked: Counts) -> None:
        """`counted_before`: the kernel's totals before the switch of sides; `booked`: flows and `other` of this reading."""
        self.total = self.total.plus(booked)
        missing = sum(max(due - there, 0) for due, there in zip(self._due, self.total, strict=True))
        self.lost = max(self.lost, missing)
        self._due = counted_before


class BpfLedger:
    tier = EventTier.BPF
    refused: tuple[Gap, ...] = ()

    def __init__(
        self,
        hierarchy_number: int,
        wait: Callable[[float], None],
        wall_clock: Callable[[], float],
        entries: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._object = BpfObject(packaged(_NAME), entries)
        self._wait, self._wall_clock = wait, wall_clock
        self._other = Counts()
        self._books = Books()
        try:
            self._state = self._object.map_memory("bss", _STATE.size, writable=True)
            struct.pack_into("<II", self._state, 0, hierarchy_number, 0)
            # Releases first and births last: what is seen to be born is also seen to die.
            self._object.hold(("on_release", "on_rmdir", "on_mkdir"))
        except BaseException:
            self.close()
            raise

    def read(self) -> Lifecycle:
        at = self._wall_clock()
        side, *counted = struct.unpack_from("<I3Q", self._state, 4)
        struct.pack_into("<I", self._state, 4, 1 - side)
        self._wait(_SECONDS_FOR_A_PROGRAM_TO_END)
        flows = self._drain("flows_b" if side else "flows_a")
        values = _STATE.unpack_from(self._state)
        other = Counts(*values[5:8])
        since, self._other = other.less(self._other), other
        self._books.take(Counts(*counted), sum_of(since, flows))
        dead_full = values[8]
        missed = sum(self._object.missed_runs(name) for name in ("on_mkdir", "on_rmdir", "on_release"))
        return Lifecycle(
            EventTier.BPF,
            at,
            self._books.total,
            tuple(flows),
            since,
            dead_full + missed + self._books.lost,
            Histogram(values[11 : 11 + _BUCKETS]),
            Histogram(values[11 + _BUCKETS :]),
        )

    def moved(self) -> tuple[int, int]:
        births, deaths = struct.unpack_from("<2Q", self._state, 8)
        return births, deaths

    def catch_up(self) -> float:
        """The kernel counts by itself: there is nothing to take in between."""
        return math.inf

    def dead(self) -> Iterator[Dead]:
        """Those that died since the ledger began and are not released, ordinary deaths on their way among them."""
        boot = self._wall_clock() - time.clock_gettime(time.CLOCK_BOOTTIME)
        for key, value in entries(self._object.map_descriptor("dead"), 8, _DEAD.size):
            died, born, size, _, path = _DEAD.unpack(value)
            born_at = boot + born / 1e9 if born else None
            yield Dead(int.from_bytes(key, "little"), _path(path, size), boot + died / 1e9, born_at)

    def close(self) -> None:
        self._object.close()

    def _drain(self, side: str) -> list[Flow]:
        found: dict[bytes, Counts] = {}
        for _, value in drained(self._object.map_descriptor(side), _FLOW_KEY_BYTES, _FLOW.size):
            births, deaths, releases, size, _, path = _FLOW.unpack(value)
            name, counts = _path(path, size), Counts(births, deaths, releases)
            found[name] = found[name].plus(counts) if name in found else counts
        return [Flow(path, counts) for path, counts in found.items()]


def sum_of(first: Counts, flows: Sequence[Flow]) -> Counts:
    births, deaths, releases = first
    for _, counts in flows:
        births, deaths, releases = births + counts[0], deaths + counts[1], releases + counts[2]
    return Counts(births, deaths, releases)


def _path(raw: bytes, size: int) -> bytes:
    """The tracepoint says `/` plus names; what was longer than its place is cut."""
    path = raw[: max(size - 1, 0)].partition(b"\0")[0]
    return path if path.startswith(b"/") else b"/" + path
