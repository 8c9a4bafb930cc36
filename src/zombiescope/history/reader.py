# SPDX-License-Identifier: Apache-2.0
"""Reads the store of a state folder, also while an agent writes it. Changes nothing."""

import os
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

from zombiescope.errors import KEPT_BY_NEWER, ObservationError, reason_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Happening, Sample
from zombiescope.facts.names import shown
from zombiescope.history.chunks import Chunks, Stretch, UnknownStoreError, stretches
from zombiescope.history.log import read_log
from zombiescope.history.store import DATABASE, LOG
from zombiescope.history.summaries import Slots, pack_summary, unpack_summary
from zombiescope.host.bounds import Budget, bounded, input_bytes

EVER = 1e12
_MEMORY_TIMES = 256
"""A number takes two bytes in the store and 100 in memory, with the name of its series."""
FILES = (LOG, DATABASE)
_HOUR = 3600.0
_BROKEN = (sqlite3.Error, OSError, ValueError, TypeError, OverflowError, UnicodeError)
_REFUSED = "run as the user of the agent"
_ASIDE = "the agent puts a damaged store aside when it starts"


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
        raise ObservationError(what, reason_of(error), "run as root, or as the agent's user") from error
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
        waiting = deque(sorted(self._in_the_log(), key=lambda sample: sample.number))
        for sample in self._folded():
            while waiting and waiting[0].number <= sample.number:
                logged = waiting.popleft()
                if logged.number < sample.number:
                    yield logged
            yield sample
        yield from waiting

    def _in_the_log(self) -> Iterator[Sample]:
        for record in _logged(self._where, self.gaps):
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
            with closing(Chunks(path, read_only=True)) as chunks:
                yield from chunks.samples(self._since, self._until, self._wanted)
                _tell_damage(chunks, self.gaps)
                for each in chunks.happenings(self._since, self._until):
                    self._happenings.setdefault(each.number, each)
        except UnknownStoreError as error:
            raise ObservationError(f"cannot read {shown(os.fsencode(path))}", str(error), KEPT_BY_NEWER) from error
        except _BROKEN as error:
            self.gaps.append(_broken(error, _REFUSED if "unable to open" in str(error) else _ASIDE))


def _logged(where: str, gaps: list[Gap]) -> list[Sample | Happening]:
    """The records of the log; what of it could not be read is added to the gaps."""
    try:
        records, damaged = read_log(os.path.join(where, LOG))
    except OSError as error:
        gaps.append(Gap("series", f"{LOG}: {reason_of(error)}", _REFUSED))
        return []
    if damaged:
        gaps.append(Gap("series", f"{LOG}: {damaged} lines are damaged and left out"))
    return records


def _tell_damage(chunks: Chunks, gaps: list[Gap]) -> None:
    if chunks.damaged:
        gaps.append(Gap("series", f"{DATABASE}: {chunks.damaged:,} hours are damaged and left out"))


def _broken(error: Exception, hint: str) -> Gap:
    why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return Gap("series", f"{DATABASE}: {why}", hint)


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
        self._log = _logged(self._where, self.gaps)
        self._folded = 0

    def span(self) -> tuple[float, float] | None:
        """From the first sample to the last."""
        times = [record.at for record in self._log if isinstance(record, Sample)]
        with self._chunks() as chunks:
            if chunks and (folded := chunks.span()):
                times += folded
        return (min(times), max(times)) if times else None

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
                yield from map(_columns_of_stretch, chunks.stretches(since, until, wanted))
                _tell_damage(chunks, self.gaps)
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
                    yield _named(slots, names, boot, hour)
                _tell_damage(chunks, self.gaps)
        for columns in self._log_columns(since, until, wanted):
            yield from _slots_of(columns)

    def bounds(self, since: float, until: float) -> list[Bounds]:
        """When each stretch began and ended: nothing of it is unpacked."""
        found: list[Bounds] = []
        with self._chunks() as chunks:
            if chunks:
                self._folded = chunks.folded
                found = [Bounds(*each) for each in chunks.bounds(since, until)]
        logged = self._log_columns(since, until, frozenset())
        return found + [Bounds(columns.times[0], columns.times[-1], columns.boot) for columns in logged]

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
                columns = _columns_of_stretch(stretch)
                if columns.times and columns.times[0] // _HOUR * _HOUR == hour:
                    yield from _slots_of(columns)

    def _log_columns(self, since: float, until: float, wanted: frozenset[str]) -> Iterator[Columns]:
        """A stretch for each boot and hour, with the clock going forward; what is folded already is left out."""
        fresh = (each for each in self._log if isinstance(each, Sample) and each.number > self._folded)
        for some in stretches([each for each in fresh if since <= each.at <= until]):
            yield _columns_of(some, wanted)

    @contextmanager
    def _chunks(self) -> Iterator[Chunks | None]:
        """None inside where there are none, or none that can be read: that is a gap."""
        path = os.path.join(self._where, DATABASE)
        chunks = None
        try:
            chunks = Chunks(path, read_only=True) if os.path.exists(path) else None
        except _BROKEN as error:
            self._tell(error)
        try:
            yield chunks
        except sqlite3.Error as error:
            self._tell(error)
        finally:
            if chunks is not None:
                chunks.close()

    def _tell(self, error: Exception) -> None:
        if (gap := _broken(error, _ASIDE)) not in self.gaps:
            self.gaps.append(gap)


def _columns_of_stretch(stretch: Stretch) -> Columns:
    times = [(milliseconds or 0.0) / 1000 for _, milliseconds in stretch.moments]
    return Columns(stretch.boot, times, stretch.columns)


def _columns_of(samples: list[Sample], wanted: frozenset[str]) -> Columns:
    names = dict.fromkeys(name for sample in samples for name in sample.values if name in wanted)
    values = {name: [sample.values.get(name) for sample in samples] for name in names}
    return Columns(samples[0].boot, [sample.at for sample in samples], values)


def _slots_of(columns: Columns) -> Iterator[SlotColumns]:
    if not columns.times:
        return
    names = dict(enumerate(columns.values))
    slots = unpack_summary(pack_summary(columns.times, {number: columns.values[names[number]] for number in names}))
    yield _named(slots, names, columns.boot, columns.times[0] // _HOUR * _HOUR)


def _named(slots: Slots, names: Mapping[int, str], boot: str, begin: float) -> SlotColumns:
    low, high = ({names[number]: values for number, values in side.items()} for side in slots)
    return SlotColumns(boot, begin, low, high)
