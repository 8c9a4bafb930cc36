# SPDX-License-Identifier: Apache-2.0
"""Past hours in SQLite: one row a series and stretch of samples. The only SQL.

A stretch is of one boot and one hour, with the clock going forward; its key is the number of its first record. `folded` is the
highest record number that is in here: the log may still hold such records after a crash, and nobody counts them twice.
"""

import math
import sqlite3
import zlib
from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from typing import NamedTuple

from zombiescope.errors import unknown_format
from zombiescope.facts.history import Happening, Sample
from zombiescope.history.database import open_to_read, open_to_write, quoted
from zombiescope.history.summaries import Slots, inflated, pack_summary, shuffled, unpack_summary, unshuffled

_WHOLE, _REAL = b"i", b"f"
_LARGEST_WHOLE = 1 << 53
_MOST_BYTES = 8 * 100_000
"""An hour of samples: 3,600 at one per second."""


def pack(values: Sequence[float | None]) -> bytes:
    if all(value is not None and abs(value) < _LARGEST_WHOLE and float(value).is_integer() for value in values):
        whole = [int(value) for value in values if value is not None]
        steps = array("q", [*whole[:1], *(later - earlier for earlier, later in pairwise(whole))])
        return _WHOLE + zlib.compress(shuffled(steps.tobytes()), 6)
    real = array("d", [math.nan if value is None else value for value in values])
    return _REAL + zlib.compress(shuffled(real.tobytes()), 6)


def unpack(packed: bytes) -> list[float | None]:
    """Raises ValueError for what `pack` did not make."""
    numbers = unshuffled(inflated(packed[1:], _MOST_BYTES))
    if packed[:1] == _WHOLE:
        return list(accumulate(array("q", numbers)))
    if packed[:1] != _REAL:
        raise ValueError("of a kind we do not know")
    real = array("d", numbers)
    if not math.isnan(sum(real)):  # every one of them is a number
        return list(real)
    return [None if math.isnan(value) else value for value in real]


VERSION = 1
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE stretch (first INTEGER PRIMARY KEY, boot TEXT NOT NULL, begin REAL NOT NULL, until REAL NOT NULL,
                      samples INTEGER NOT NULL, numbers BLOB NOT NULL, times BLOB NOT NULL);
CREATE TABLE chunk (first INTEGER NOT NULL, series INTEGER NOT NULL, data BLOB NOT NULL,
                    PRIMARY KEY (first, series)) WITHOUT ROWID;
CREATE TABLE happening (number INTEGER PRIMARY KEY, at REAL NOT NULL, boot TEXT NOT NULL, what TEXT NOT NULL,
                        detail TEXT NOT NULL);
"""
_SUMMARY = "CREATE TABLE IF NOT EXISTS summary (first INTEGER PRIMARY KEY, data BLOB NOT NULL)"
"""Beside the tables of version 1, which are whole without it: a reader that does not know it misses nothing."""
_FOLDED = "INSERT OR REPLACE INTO meta VALUES ('folded', ?)"
_TABLES = {"meta", "series", "stretch", "chunk", "happening"}


class UnknownStoreError(sqlite3.OperationalError):
    """A later version wrote it: no damage, and not ours to change. The log beside it is of the same version."""


class Stretch(NamedTuple):
    boot: str
    moments: list[tuple[float | None, float | None]]
    """The number of each sample, and when it was taken, in milliseconds."""
    columns: dict[str, list[float | None]]


class Packed(NamedTuple):
    """A stretch as it lies there: its numbers packed, by the number of their series."""

    first: int
    boot: str
    begin: float
    until: float
    samples: int
    numbers: bytes
    times: bytes
    summary: bytes | None
    columns: dict[int, bytes]


class Chunks:
    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.path = path
        self.damaged = 0
        """Stretches that could not be read."""
        if not read_only:
            _require_known(path)
        self._database = open_to_read(path) if read_only else open_to_write(path)
        try:
            self._check_version()
            if not read_only:
                self._prepare()
            _check_tables(self._tables())
        except BaseException:
            self._database.close()
            raise

    def _prepare(self) -> None:
        if not (found := self._tables()):
            with self._transaction():
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._database.execute(statement)
                self._database.execute("INSERT INTO meta VALUES ('version', ?)", (VERSION,))
        if "summary" not in found:
            self._database.execute(_SUMMARY)

    def _tables(self) -> set[str]:
        """Tables only: a view of that name could compute for ever."""
        return {str(name) for (name,) in self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _check_version(self) -> None:
        """Before anything else is looked at or made: what a later version keeps may look like damage."""
        found = self._meta("version", VERSION) if "meta" in self._tables() else VERSION
        if found != VERSION:
            raise UnknownStoreError(unknown_format(f"version {found}", f"version {VERSION}"))

    def _meta(self, name: str, default: int) -> int:
        row = self._database.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else default

    @property
    def folded(self) -> int:
        return self._meta("folded", 0)

    def fold(self, samples: Sequence[Sample], happenings: Iterable[Happening], folded: int) -> None:
        """All or nothing."""
        with self._transaction():
            for stretch in stretches(samples):
                self._keep(stretch)
            self._database.executemany("INSERT OR REPLACE INTO happening VALUES (?, ?, ?, ?, ?)", happenings)
            self._database.execute(_FOLDED, (folded,))

    def _keep(self, stretch: Sequence[Sample]) -> None:
        first, last = stretch[0], stretch[-1]
        moments = (pack([each.number for each in stretch]), pack([round(each.at * 1000) for each in stretch]))
        row = (first.number, first.boot, first.at, last.at, len(stretch), *moments)
        self._database.execute("INSERT OR REPLACE INTO stretch VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        names = {name: None for sample in stretch for name in sample.values}
        self._database.executemany("INSERT OR IGNORE INTO series (name) VALUES (?)", ((name,) for name in names))
        ids = dict(self._database.execute("SELECT name, id FROM series"))
        columns = {ids[name]: [sample.values.get(name) for sample in stretch] for name in names}
        self._database.executemany(
            "INSERT OR REPLACE INTO chunk VALUES (?, ?, ?)",
            ((first.number, series, pack(column)) for series, column in columns.items()),
        )
        summary = (first.number, pack_summary([sample.at for sample in stretch], columns))
        self._database.execute("INSERT OR REPLACE INTO summary VALUES (?, ?)", summary)

    def samples(self, since: float, until: float, wanted: frozenset[str] | None = None) -> Iterator[Sample]:
        """In order of record. `wanted` limits the series that are unpacked. A damaged stretch is left out and counted."""
        for boot, moments, columns in self.stretches(since, until, wanted):
            for index, (number, milliseconds) in enumerate(moments):
                if number is not None and milliseconds is not None and since <= milliseconds / 1000 <= until:
                    values = {name: value for name, column in columns.items() if (value := column[index]) is not None}
                    yield Sample(int(number), milliseconds / 1000, boot, values)

    def stretches(self, since: float, until: float, wanted: frozenset[str] | None = None) -> Iterator[Stretch]:
        """As they lie there, whole: also what is before and after."""
        names = self.series()
        ids = [number for number, name in names.items() if wanted is None or name in wanted]
        marks = ",".join("?" * len(ids))
        query = "SELECT first, boot, numbers, times FROM stretch WHERE until >= ? AND begin <= ? ORDER BY first"
        for first, boot, numbers, times in self._database.execute(query, (since, until)).fetchall():
            query = f"SELECT series, data FROM chunk WHERE first = ? AND series IN ({marks})"  # noqa: S608 (question marks only)
            try:
                columns = {names[number]: unpack(data) for number, data in self._database.execute(query, (first, *ids))}
                moments = list(zip(unpack(numbers), unpack(times), strict=True))
                _check_lengths(len(moments), columns)
            except (ValueError, TypeError, KeyError, sqlite3.DatabaseError):
                self.damaged += 1
                continue
            yield Stretch(boot, moments, columns)

    def summaries(
        self, since: float, until: float, wanted: Container[int] | None = None
    ) -> Iterator[tuple[float, str, Slots | None]]:
        """The beginning of each stretch, its boot, and its hour in slots; None where an earlier version folded it. `wanted`
        limits the series."""
        if "summary" not in self._tables():
            query = "SELECT begin, boot, NULL FROM stretch WHERE until >= ? AND begin <= ? ORDER BY first"
        else:
            query = (
                "SELECT begin, boot, data FROM stretch LEFT JOIN summary USING (first) "
                "WHERE until >= ? AND begin <= ? ORDER BY first"
            )
        for begin, boot, data in self._database.execute(query, (since, until)):
            try:
                yield float(begin), str(boot), None if data is None else unpack_summary(data, wanted)
            except (ValueError, TypeError):
                self.damaged += 1

    def packed(self) -> Iterator[Packed]:
        """Every stretch, the newest first."""
        firsts = [row[0] for row in self._database.execute("SELECT first FROM stretch ORDER BY first DESC")]
        has_summaries = "summary" in self._tables()
        for first in firsts:
            about = "SELECT boot, begin, until, samples, numbers, times FROM stretch WHERE first = ?"
            boot, begin, until, samples, numbers, times = self._database.execute(about, (first,)).fetchone()
            columns = dict(self._database.execute("SELECT series, data FROM chunk WHERE first = ?", (first,)))
            query = "SELECT data FROM summary WHERE first = ?"
            summary = self._database.execute(query, (first,)).fetchone() if has_summaries else None
            packed = (numbers, times, summary[0] if summary else None)
            yield Packed(int(first), str(boot), begin, until, samples, *packed, columns)

    def take_packed(self, series: Mapping[int, str], found: Iterable[Packed | Happening]) -> int:
        """What `packed` and `happenings` said elsewhere, into an empty database; all or nothing. How many stretches."""
        taken, highest = 0, 0
        with self._transaction():
            self._database.executemany("INSERT INTO series VALUES (?, ?)", series.items())
            for each in found:
                if isinstance(each, Happening):
                    self._database.execute("INSERT OR REPLACE INTO happening VALUES (?, ?, ?, ?, ?)", each)
                    highest = max(highest, each.number)
                    continue
                *row, summary, columns = each
                self._database.execute("INSERT OR REPLACE INTO stretch VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                if summary is not None:
                    self._database.execute("INSERT OR REPLACE INTO summary VALUES (?, ?)", (each.first, summary))
                rows = ((each.first, number, data) for number, data in columns.items())
                self._database.executemany("INSERT OR REPLACE INTO chunk VALUES (?, ?, ?)", rows)
                taken, highest = taken + 1, max(highest, each.first + each.samples)
            self._database.execute(_FOLDED, (highest,))
        return taken

    def bounds(self, since: float, until: float) -> list[tuple[float, float, str]]:
        """Begin, end and boot of each stretch."""
        query = "SELECT begin, until, boot FROM stretch WHERE until >= ? AND begin <= ? ORDER BY first"
        return [
            (float(begin), float(end), str(boot)) for begin, end, boot in self._database.execute(query, (since, until))
        ]

    def series(self) -> dict[int, str]:
        return {int(number): str(name) for number, name in self._database.execute("SELECT id, name FROM series")}

    def span(self) -> tuple[float, float] | None:
        begin, until = self._database.execute("SELECT min(begin), max(until) FROM stretch").fetchone()
        return None if begin is None else (float(begin), float(until))

    def happenings(self, since: float, until: float) -> list[Happening]:
        query = "SELECT number, at, boot, what, detail FROM happening WHERE at BETWEEN ? AND ? ORDER BY number"
        rows = self._database.execute(query, (since, until))
        return [Happening(int(number), float(at), *map(str, said)) for number, at, *said in rows]

    def forget(self, before: float, most_bytes: int) -> int:
        """Whole stretches that end before, then the oldest while the file is too large. How many went."""
        forgotten = 0
        while True:
            row = self._database.execute("SELECT first, until FROM stretch ORDER BY first LIMIT 1").fetchone()
            if row is None or (row[1] >= before and self.size() <= most_bytes):
                break
            with self._transaction():
                for table in ("chunk", "summary"):
                    self._database.execute(f"DELETE FROM {table} WHERE first = ?", (row[0],))  # noqa: S608 (our own names)
                self._database.execute("DELETE FROM stretch WHERE first = ?", (row[0],))
                self._database.execute("DELETE FROM happening WHERE number < ? AND at < ?", (row[0], before))
            self._database.execute("PRAGMA incremental_vacuum").fetchall()
            forgotten += 1
        return forgotten

    def take_over(self, damaged: str) -> int:
        """Every stretch that can still be read of a damaged database, a row at a time. How many."""
        taken = 0
        with suppress(sqlite3.Error):
            self._database.execute("ATTACH ? AS damaged", (f"file:{quoted(damaged)}?mode=ro&immutable=1",))
            self._database.execute("INSERT OR IGNORE INTO series SELECT * FROM damaged.series")
            for (first,) in self._database.execute("SELECT first FROM damaged.stretch ORDER BY first").fetchall():
                taken += self._take_over(first)
            self._database.execute("INSERT OR IGNORE INTO happening SELECT * FROM damaged.happening")
            self._database.execute("INSERT OR REPLACE INTO meta SELECT * FROM damaged.meta WHERE name = 'folded'")
        with suppress(sqlite3.Error):
            self._database.execute("DETACH damaged")
        return taken

    def _take_over(self, first: int) -> bool:
        try:
            with self._transaction():
                for table in ("stretch", "chunk"):
                    query = f"INSERT OR IGNORE INTO {table} SELECT * FROM damaged.{table} WHERE first = ?"  # noqa: S608 (our own names)
                    self._database.execute(query, (first,))
                self._database.execute(_FOLDED, (max(first, self.folded),))
        except sqlite3.Error:
            return False
        return True

    def size(self) -> int:
        pages = int(self._database.execute("PRAGMA page_count").fetchone()[0])
        free = int(self._database.execute("PRAGMA freelist_count").fetchone()[0])
        return (pages - free) * int(self._database.execute("PRAGMA page_size").fetchone()[0])

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


def _require_known(path: str) -> None:
    """Before it is opened to be written, which alone changes bytes of it. Whatever else is wrong with it is seen then."""
    try:
        Chunks(path, read_only=True).close()
    except UnknownStoreError:
        raise
    except (OSError, sqlite3.Error):
        pass


def _check_tables(found: set[str]) -> None:
    if not found >= _TABLES:
        raise sqlite3.DatabaseError("tables of ours are missing")


def _check_lengths(moments: int, columns: dict[str, list[float | None]]) -> None:
    if any(len(column) != moments for column in columns.values()):
        raise ValueError("columns of several lengths")


def stretches(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """Cut where the hour or the boot changes, or where the clock goes back."""
    current: list[Sample] = []
    for sample in samples:
        last = current[-1] if current else sample
        if sample.boot != last.boot or sample.at < last.at or int(sample.at // 3600) != int(last.at // 3600):
            yield current
            current = []
        current.append(sample)
    if current:
        yield current
