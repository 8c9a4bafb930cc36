# SPDX-License-Identifier: Apache-2.0
"""Births, deaths and releases: counted in the kernel (bpf/ledger.bpf.c), which lives by descriptors alone, so that a killed agent
leaves nothing behind, and between readings nothing runs here; or streamed from a private tracefs instance, where BPF is refused.

A reading of the former switches the side on which flows are counted, lets what is still counting end, then empties the other. The
kernel's own totals run ahead of that by whatever happens meanwhile: what is told is what was booked (`Books`).
"""

import math
import os
import re
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, Dead, EventTier, Flow, Histogram, Lifecycle
from zombiescope.kernel.bpf_object import BpfObject, drained, entries, packaged
from zombiescope.kernel.tracefs import Instance, TracefsError

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
        self.total, self._due, self.lost = Counts(), Counts(), 0

    def take(self, counted_before: Counts, booked: Counts) -> None:
        """`counted_before`: the kernel's totals before the switch of sides; `booked`: flows and `other` of this reading."""
        self.total = self.total.plus(booked)
        self.lost = max(self.lost, sum(max(due - there, 0) for due, there in zip(self._due, self.total, strict=True)))
        self._due = counted_before


class Ledger(ABC):
    """What every tier tells; those that do not say otherwise have nothing to do between two readings, and hold nothing."""

    tier: EventTier
    refused: tuple[Gap, ...] = ()
    """Why it is not a better tier."""

    @abstractmethod
    def read(self) -> Lifecycle:
        """What happened since the reading before."""

    def moved(self) -> tuple[int, int] | None:
        """Births and deaths at this very moment, where knowing costs nothing."""
        return None

    def catch_up(self) -> float:
        """Between two readings: empties what could overflow. Seconds until that should be done again; infinite where never."""
        return math.inf

    def dead(self) -> Iterator[Dead]:
        """Who died since the ledger began and is not released; nobody where the tier keeps no names."""
        return iter(())

    def close(self) -> None:
        return


class BpfLedger(Ledger):
    """The kernel counts by itself: there is nothing to take in between."""

    tier = EventTier.BPF

    def __init__(
        self,
        hierarchy_number: int,
        wait: Callable[[float], None],
        wall_clock: Callable[[], float],
        entries: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._object = BpfObject(packaged("ledger.blob"), entries)
        self._wait, self._wall_clock = wait, wall_clock
        self._other, self._books = Counts(), Books()
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
        missed = sum(self._object.missed_runs(name) for name in ("on_mkdir", "on_rmdir", "on_release"))
        return Lifecycle(
            EventTier.BPF,
            at,
            self._books.total,
            tuple(flows),
            since,
            values[8] + missed + self._books.lost,  # the first: how many dead found no room
            Histogram(values[11 : 11 + _BUCKETS]),
            Histogram(values[11 + _BUCKETS :]),
        )

    def moved(self) -> tuple[int, int]:
        return struct.unpack_from("<2Q", self._state, 8)

    def dead(self) -> Iterator[Dead]:
        """Those that died since the ledger began and are not released, ordinary deaths on their way among them."""
        boot = self._wall_clock() - time.clock_gettime(time.CLOCK_BOOTTIME)
        for key, value in entries(self._object.maps["dead"], 8, _DEAD.size):
            died, born, size, _, path = _DEAD.unpack(value)
            born_at = boot + born / 1e9 if born else None
            yield Dead(int.from_bytes(key, "little"), _path(path, size), boot + died / 1e9, born_at)

    def close(self) -> None:
        self._object.close()

    def _drain(self, side: str) -> list[Flow]:
        found: dict[bytes, Counts] = {}
        for _, value in drained(self._object.maps[side], _FLOW_KEY_BYTES, _FLOW.size):
            births, deaths, releases, size, _, path = _FLOW.unpack(value)
            name, counts = _path(path, size), Counts(births, deaths, releases)
            found[name] = found[name].plus(counts) if name in found else counts
        return [Flow(path, counts) for path, counts in found.items()]


def sum_of(first: Counts, flows: Sequence[Flow]) -> Counts:
    return Counts(*map(sum, zip(first, *(flow.counts for flow in flows), strict=True)))


def _path(raw: bytes, size: int) -> bytes:
    """The tracepoint says `/` plus names; what was longer than its place is cut."""
    path = raw[: max(size - 1, 0)].partition(b"\0")[0]
    return path if path.startswith(b"/") else b"/" + path


_FIELD = re.compile(rb"field:(.*?);\s*offset:(\d+);\s*size:(\d+);")
_PADDING, _EXTEND, _COMMIT_MASK = 29, 30, 0xFFFFF
_WORD = struct.Struct("<I")


class Field(NamedTuple):
    offset: int
    size: int


class EventFormat(NamedTuple):
    id: Field
    path: Field


class Event(NamedTuple):
    kind: int
    id: int
    path: bytes
    stamp_ns: int


def parse_fields(text: bytes) -> dict[bytes, Field]:
    """By the last word of each declaration, without brackets."""
    return {
        declaration.split()[-1].partition(b"[")[0]: Field(int(offset), int(size))
        for declaration, offset, size in _FIELD.findall(text)
    }


def parse_event_format(text: bytes) -> EventFormat | None:
    fields = parse_fields(text)
    return EventFormat(fields[b"id"], fields[b"path"]) if b"id" in fields and b"path" in fields else None


class PageReader:
    """`kinds`: the number of an event type in the ring buffer -> our kind and its format."""

    def __init__(self, header_page: bytes, kinds: dict[int, tuple[int, EventFormat]]) -> None:
        fields = parse_fields(header_page)
        self._commit, self._data, self._kinds = fields[b"commit"], fields[b"data"], kinds
        self.page_bytes = self._data.offset + self._data.size

    def events(self, page: bytes) -> Iterator[Event]:
        """Of a whole page; a damaged one ends where it makes no sense."""
        with suppress(struct.error):
            (commit,) = _WORD.unpack_from(page, self._commit.offset)
            content = page[: self._data.offset + (commit & _COMMIT_MASK)]
            for record, stamp in self._records(content):
                if event := self._event(record, stamp):
                    yield event

    def _records(self, page: bytes) -> Iterator[tuple[bytes, int]]:
        (stamp,) = struct.unpack_from("<Q", page)
        at = self._data.offset
        while at < len(page):
            (header,) = _WORD.unpack_from(page, at)
            kind, delta = header & 31, header >> 5
            at += 4
            if kind >= _EXTEND:
                later = (_WORD.unpack_from(page, at)[0] << 27) + delta
                stamp, at = (stamp + later if kind == _EXTEND else later), at + 4
                continue
            stamp += delta
            size = kind * 4
            if kind in (0, _PADDING):
                (size,) = _WORD.unpack_from(page, at)
            if kind == _PADDING and delta == 0:
                return
            start = at + 4 if kind == 0 else at
            at += max(size, 4)
            if kind != _PADDING and at <= len(page):
                yield page[start:at], stamp

    def _event(self, record: bytes, stamp: int) -> Event | None:
        if (known := self._kinds.get(int.from_bytes(record[:2], "little"))) is None:
            return None
        kind, form = known
        place = int.from_bytes(record[form.path.offset : form.path.offset + 4], "little")
        start, size = place & 0xFFFF, place >> 16
        number = int.from_bytes(record[form.id.offset : form.id.offset + form.id.size], "little")
        return Event(kind, number, record[start : start + size].partition(b"\0")[0], stamp)


_UNIT = re.compile(rb"(?!run-).+\.(?:service|slice|socket|mount|swap)")
_LONG_ID = re.compile(rb"(?=[a-f]*[0-9])[0-9a-f]{8,}")
_ID = re.compile(rb"(?<![0-9A-Za-z])(?=[a-f]*[0-9])[0-9a-f]{6,7}(?![0-9A-Za-z])|(?=[a-f]*[0-9])[0-9a-f]{8,}")
_DIGITS = re.compile(rb"[0-9]+")


def fold_leaf(name: bytes) -> bytes:
    if _UNIT.fullmatch(name):
        return _LONG_ID.sub(b"*", name)
    return _DIGITS.sub(b"*", _ID.sub(b"*", name))


def pattern_of(path: bytes) -> tuple[bytes, bytes]:
    """The parent's path and the folded leaf."""
    parent, _, leaf = path.rpartition(b"/")
    return parent, fold_leaf(leaf)


EVENTS = ("cgroup_mkdir", "cgroup_rmdir", "cgroup_release")
_BUFFER_KIBIBYTES = 1024
_PACES = ((0.5, 0.1), (0.2, 0.25), (0.05, 0.5), (0.0, 1.0))
"""How full the fullest buffer was, and after how many seconds to look again."""
_MOST_PATTERNS, _MOST_DEAD = 4096, 65536
_BIRTH, _DEATH = 0, 1
_LOST = (b"overrun:", b"commit overrun:", b"dropped events:")


class TraceLedger(Ledger):
    tier = EventTier.TRACEFS

    def __init__(
        self,
        hierarchy_number: int,
        wall_clock: Callable[[], float],
        buffer_kibibytes: int = _BUFFER_KIBIBYTES,
        refused: tuple[Gap, ...] = (),
    ) -> None:
        """`refused`: why it is not a better tier; told with each reading."""
        self.refused, self._wall_clock = refused, wall_clock
        self._buffer_bytes = buffer_kibibytes * 1024
        self._instance = Instance()
        self._pipes: list[int] = []
        self._total = Counts()
        self._flows: dict[tuple[bytes, bytes], tuple[bytes, list[int]]] = {}
        self._other = [0, 0, 0]
        self._died: dict[int, int] = {}
        self._zombie_times = [0] * _BUCKETS
        try:
            self._pages = self._begin(hierarchy_number, buffer_kibibytes)
            self._pipes.extend(self._instance.open(f"per_cpu/{cpu}/trace_pipe_raw") for cpu in self._instance.cpus())
        except OSError as error:
            self.close()
            raise TracefsError(
                "cannot watch cgroup events",
                f"the cgroup events cannot be switched on: {(error.strerror or str(error)).lower()}",
                "",
            ) from error
        except TracefsError:
            self.close()
            raise

    def read(self) -> Lifecycle:
        at = self._wall_clock()
        self._drain()
        flows = tuple(Flow(path, Counts(*counts)) for path, counts in self._flows.values())
        other = Counts(*self._other)
        self._flows, self._other = {}, [0, 0, 0]
        times = Histogram(tuple(self._zombie_times))
        return Lifecycle(
            EventTier.TRACEFS, at, self._total, flows, other, self._lost(), Histogram(), times, self.refused
        )

    def catch_up(self) -> float:
        """Take what waits before the buffer is full; seconds until that should be done again."""
        filled = self._drain()
        return next(seconds for share, seconds in _PACES if filled >= share)

    def close(self) -> None:
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes = []
        with suppress(OSError):
            self._instance.write("tracing_on", "0")
        self._instance.close()

    def _begin(self, hierarchy_number: int, buffer_kibibytes: int) -> PageReader:
        instance = self._instance
        instance.write("buffer_size_kb", str(buffer_kibibytes))
        instance.write("trace_clock", "boot")
        kinds: dict[int, tuple[int, EventFormat]] = {}
        for kind, name in enumerate(EVENTS):
            if (form := parse_event_format(instance.read(f"events/cgroup/{name}/format"))) is None:
                raise TracefsError("cannot watch cgroup events", f"the event {name} is not in a form we know", "")
            kinds[int(instance.read(f"events/cgroup/{name}/id"))] = (kind, form)
            instance.write(f"events/cgroup/{name}/filter", f"root=={hierarchy_number}")
        for name in reversed(EVENTS):
            instance.write(f"events/cgroup/{name}/enable", "1")
        return PageReader(instance.read("events/header_page", shared=True), kinds)

    def _drain(self) -> float:
        """How full the fullest buffer was, as a share."""
        seen, most = [0, 0, 0], 0
        for pipe in self._pipes:
            pages = 0
            while True:
                try:
                    page = os.read(pipe, self._pages.page_bytes)
                except BlockingIOError:
                    break
                if not page:
                    break
                pages += 1
                for event in self._pages.events(page):
                    seen[event.kind] += 1
                    self._count(event)
            most = max(most, pages)
        self._total = self._total.plus(Counts(*seen))
        return most * self._pages.page_bytes / self._buffer_bytes

    def _count(self, event: Event) -> None:
        key = pattern_of(event.path)
        flow = self._flows.get(key)
        if flow is None and len(self._flows) < _MOST_PATTERNS:
            flow = self._flows[key] = (event.path, [0, 0, 0])
        (flow[1] if flow else self._other)[event.kind] += 1
        if event.kind == _DEATH:
            if (
                len(self._died) >= _MOST_DEAD
            ):  # the oldest may never be released: they must not keep the others from being timed
                del self._died[next(iter(self._died))]
            self._died[event.id] = event.stamp_ns
        elif event.kind != _BIRTH and (died := self._died.pop(event.id, None)) is not None:
            micros = max(event.stamp_ns - died, 0) // 1000
            self._zombie_times[min(micros.bit_length(), _BUCKETS - 1)] += 1

    def _lost(self) -> int:
        return sum(
            int(line.rpartition(b" ")[2])
            for cpu in self._instance.cpus()
            for line in self._instance.read(f"per_cpu/{cpu}/stats").splitlines()
            if line.startswith(_LOST)
        )
