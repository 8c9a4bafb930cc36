# SPDX-License-Identifier: Apache-2.0
"""Reads the store of a state folder, also while an agent writes it. Changes nothing."""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from zombiescope.errors import KEPT_BY_NEWER, ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Happening, Sample
from zombiescope.facts.names import shown
from zombiescope.history.chunks import Chunks, UnknownStoreError
from zombiescope.history.log import read_log
from zombiescope.history.store import DATABASE, LOG
from zombiescope.history.summaries import pack_summary, unpack_summary
from zombiescope.host.bounds import Budget, bounded, input_bytes

EVER = 1e12
_MEMORY_TIMES = 256
"""A number takes two bytes in the store and 100 in memory, with the name of its series."""
FILES = (LOG, DATABASE)


class Remembered(NamedTuple):
    samples: list[Sample]
    happenings: list[Happening]
    gaps: tuple[Gap, ...]


def has_history(folder: bytes) -> bool:
    """Raises OSError where that cannot be told."""
    where = os.fsdecode(folder)
    if any(os.path.exists(os.path.join(where, name)) for name in FILES):
        return True
    try:
        names = os.listdir(where)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(name in names for name in FILES)


def require_history(folder: bytes) -> None:
    """Raises ObservationError where none is kept, or it may not be read."""
    what = f"cannot read a history from {shown(folder)}"
    try:
        is_kept = has_history(folder)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ObservationError(what, why, "run as root, or as the agent's user") from error
    if not is_kept:
        why = "there is no history in it" if os.path.isdir(folder) else "there is no such folder"
        raise ObservationError(what, why, "zombiescope agent --state DIR keeps one")


class Past:
    """Samples one after another, in the order they were written, so that a long time takes no more memory than an hour of it.
    After the last of them `happenings` and `gaps` are whole. `wanted` limits the series."""

    def __init__(
        self, folder: bytes, since: float = 0.0, until: float = EVER, wanted: frozenset[str] | None = None
    ) -> None:
        self._where = os.fsdecode(folder)
        self._since, self._until, self._wanted = since, until, wanted
        self.gaps: list[Gap] = []
        self._happenings: dict[int, Happening] = {}
        require_history(folder)

    @property
    def happenings(self) -> list[Happening]:
        return [self._happenings[number] for number in sorted(self._happenings)]

    def samples(self) -> Iterator[Sample]:
        """The log first: what is folded meanwhile is then seen twice rather than not at all, and numbers tell."""
        waiting = deque(sorted(self._logged(), key=lambda sample: sample.number))
        for sample in self._folded():
            while waiting and waiting[0].number <= sample.number:
                logged = waiting.popleft()
                if logged.number < sample.number:
                    yield logged
            yield sample
        yield from waiting

    def _logged(self) -> Iterator[Sample]:
        try:
            records, damaged = read_log(os.path.join(self._where, LOG))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            self.gaps.append(Gap("series", f"{LOG}: {why}", "run as the user of the agent"))
            return
        if damaged:
            self.gaps.append(Gap("series", f"{LOG}: {damaged} lines are damaged and left out"))
        for record in records:
            if not self._since <= record.at <= self._until:
                continue
            if isinstance(record, Happening):
                self._happenings[record.number] = record
            elif self._wanted is None:
                yield record
            else:
                yield record._replace(values={n: v for n, v in record.values.items() if n in self._wanted})

    def _folded(self) -> Iterator[Sample]:
        path = os.path.join(self._where, DATABASE)
        if not os.path.exists(path):
            return
        try:
            chunks = Chunks(path, read_only=True)
            try:
                yield from chunks.samples(self._since, self._until, self._wanted)
                if chunks.damaged:
                    why = f"{DATABASE}: {chunks.damaged:,} hours are damaged and left out"
                    self.gaps.append(Gap("series", why))
                for each in chunks.happenings(self._since, self._until):
                    self._happenings.setdefault(each.number, each)
            finally:
                chunks.close()
        except UnknownStoreError as error:
            raise ObservationError(f"cannot read {shown(os.fsencode(path))}", str(error), KEPT_BY_NEWER) from error
        except (sqlite3.Error, OSError, ValueError, TypeError, OverflowError, UnicodeError) as error:
            is_refused = "unable to open" in str(error)
            hint = (
                "run as the user of the agent" if is_refused else "the agent puts a damaged store aside when it starts"
            )
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            self.gaps.append(Gap("series", f"{DATABASE}: {why}", hint))


def remember(
    folder: bytes, since: float = 0.0, until: float = EVER, wanted: frozenset[str] | None = None
) -> Remembered:
    """Everything between two moments, in the order it was written. `wanted` limits the series."""
    with bounded(f"cannot read a history from {shown(folder)}", Budget(_size(folder), _MEMORY_TIMES)):
        past = Past(folder, since, until, wanted)
        samples = {sample.number: sample for sample in past.samples()}
        return Remembered([samples[number] for number in sorted(samples)], past.happenings, tuple(past.gaps))


def _size(folder: bytes) -> int:
    found = 0
    for name in FILES:
        with suppress(OSError):
            found += input_bytes(os.stat(os.path.join(folder, name.encode())))
    return found


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
