# SPDX-License-Identifier: Apache-2.0
"""A range of the history as columns, for pictures: every sample of it, or its slots of five minutes. Changes nothing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Happening, Sample
from zombiescope.history.chunks import Chunks
from zombiescope.history.log import read_log
from zombiescope.history.reader import require_history
from zombiescope.history.store import DATABASE, LOG
from zombiescope.history.summaries import pack_summary, unpack_summary

_HOUR = 3600.0
_BROKEN = (sqlite3.Error, OSError, ValueError, TypeError, OverflowError, UnicodeError)


class Columns(NamedTuple):
    """Samples of one boot, in order of time."""

    boot: str
    times: Sequence[float]
    values: Mapping[str, Sequence[float | None]]


class SlotColumns(NamedTuple):
    """Twelve slots of five minutes from `begin` on; NaN where nothing is known."""

    boot: str
    begin: float
    low: Mapping[str, Sequence[float]]
    high: Mapping[str, Sequence[float]]


class Bounds(NamedTuple):
    begin: float
    until: float
    boot: str


class Ranges:
    """`gaps` is whole when everything was read."""

    def __init__(self, folder: bytes) -> None:
        self._where = os.fsdecode(folder)
        self.gaps: list[Gap] = []
        require_history(folder)
        self._log = self._logged()
        self._folded = 0

    def span(self) -> tuple[float, float] | None:
        """From the first sample to the last."""
        times = [record.at for record in self._log if isinstance(record, Sample)]
        found = [(min(times), max(times))] if times else []
        with self._chunks() as chunks:
            if chunks and (folded := chunks.span()):
                found.append(folded)
        return (min(each[0] for each in found), max(each[1] for each in found)) if found else None

    def names(self) -> list[str]:
        found: dict[str, None] = {}
        with self._chunks() as chunks:
            if chunks:
                found = dict.fromkeys(chunks.series().values())
        for record in self._log:
            if isinstance(record, Sample):
                found |= dict.fromkeys(record.values)
        return list(found)

    def columns(self, since: float, until: float, wanted: frozenset[str]) -> Iterator[Columns]:
        with self._chunks() as chunks:
            if chunks:
                self._folded = chunks.folded
                for stretch in chunks.stretches(since, until, wanted):
                    times = [(milliseconds or 0.0) / 1000 for _, milliseconds in stretch.moments]
                    yield Columns(stretch.boot, times, stretch.columns)
                self._tell_damage(chunks)
        yield from self._log_columns(since, until, wanted)

    def slots(self, since: float, until: float, wanted: frozenset[str]) -> Iterator[SlotColumns]:
        with self._chunks() as chunks:
            if chunks:
                self._folded = chunks.folded
                names = {number: name for number, name in chunks.series().items() if name in wanted}
                for begin, boot, slots in chunks.summaries(since, until, names):
                    hour = begin // _HOUR * _HOUR
                    if slots is None:
                        yield from self._summed_up(hour, since, wanted)
                        continue
                    low = {names[each]: values for each, values in slots.low.items()}
                    high = {names[each]: values for each, values in slots.high.items()}
                    yield SlotColumns(boot, hour, low, high)
                self._tell_damage(chunks)
        for columns in self._log_columns(since, until, wanted):
            yield from _slots_of(columns)

    def bounds(self, since: float, until: float) -> list[Bounds]:
        """When each stretch began and ended: nothing of it is unpacked."""
        found: list[Bounds] = []
        with self._chunks() as chunks:
            if chunks:
                self._folded = chunks.folded
                found = [Bounds(*each) for each in chunks.bounds(since, until)]
        for columns in self._log_columns(since, until, frozenset()):
            found.append(Bounds(columns.times[0], columns.times[-1], columns.boot))
        return found

    def happenings(self, since: float, until: float) -> list[Happening]:
        found: dict[int, Happening] = {}
        with self._chunks() as chunks:
            if chunks:
                found = {each.number: each for each in chunks.happenings(since, until)}
        for record in self._log:
            if isinstance(record, Happening) and since <= record.at <= until:
                found.setdefault(record.number, record)
        return [found[number] for number in sorted(found)]

    def _summed_up(self, hour: float, since: float, wanted: frozenset[str]) -> Iterator[SlotColumns]:
        """Of an hour that an earlier version folded."""
        with self._chunks() as chunks:
            for stretch in chunks.stretches(max(hour, since), hour + _HOUR - 0.001, wanted) if chunks else ():
                times = [(milliseconds or 0.0) / 1000 for _, milliseconds in stretch.moments]
                if times and times[0] // _HOUR * _HOUR == hour:
                    yield from _slots_of(Columns(stretch.boot, times, stretch.columns))

    def _log_columns(self, since: float, until: float, wanted: frozenset[str]) -> Iterator[Columns]:
        """A stretch for each boot and hour, with the clock going forward; what is folded already is left out."""
        some: list[Sample] = []
        for record in self._log:
            if not isinstance(record, Sample) or record.number <= self._folded or not since <= record.at <= until:
                continue
            if some and (
                record.boot != some[-1].boot or record.at < some[-1].at or record.at // _HOUR != some[-1].at // _HOUR
            ):
                yield _columns_of(some, wanted)
                some = []
            some.append(record)
        if some:
            yield _columns_of(some, wanted)

    def _logged(self) -> list[Sample | Happening]:
        try:
            records, damaged = read_log(os.path.join(self._where, LOG))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            self.gaps.append(Gap("series", f"{LOG}: {why}", "run as the user of the agent"))
            return []
        if damaged:
            self.gaps.append(Gap("series", f"{LOG}: {damaged} lines are damaged and left out"))
        return list(records)

    def _tell_damage(self, chunks: Chunks) -> None:
        if chunks.damaged:
            self.gaps.append(Gap("series", f"{DATABASE}: {chunks.damaged:,} hours are damaged and left out"))

    def _chunks(self) -> _OpenChunks:
        return _OpenChunks(os.path.join(self._where, DATABASE), self.gaps)


class _OpenChunks:
    """None inside where there are none, or none that can be read: that is a gap."""

    def __init__(self, path: str, gaps: list[Gap]) -> None:
        self._path, self._gaps = path, gaps
        self._chunks: Chunks | None = None

    def __enter__(self) -> Chunks | None:
        if os.path.exists(self._path):
            try:
                self._chunks = Chunks(self._path, read_only=True)
            except _BROKEN as error:
                self._tell(error)
        return self._chunks

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if self._chunks is not None:
            self._chunks.close()
        if isinstance(error, sqlite3.Error):
            self._tell(error)
            return True
        return False

    def _tell(self, error: Exception) -> None:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        gap = Gap("series", f"{DATABASE}: {why}", "the agent puts a damaged store aside when it starts")
        if gap not in self._gaps:
            self._gaps.append(gap)


def _columns_of(samples: list[Sample], wanted: frozenset[str]) -> Columns:
    names = {name: None for sample in samples for name in sample.values if name in wanted}
    values = {name: [sample.values.get(name) for sample in samples] for name in names}
    return Columns(samples[0].boot, [sample.at for sample in samples], values)


def _slots_of(columns: Columns) -> Iterator[SlotColumns]:
    if not columns.times:
        return
    names = dict(enumerate(columns.values))
    slots = unpack_summary(pack_summary(columns.times, {number: columns.values[names[number]] for number in names}))
    begin = columns.times[0] // _HOUR * _HOUR
    yield SlotColumns(
        columns.boot,
        begin,
        {names[number]: values for number, values in slots.low.items()},
        {names[number]: values for number, values in slots.high.items()},
    )
