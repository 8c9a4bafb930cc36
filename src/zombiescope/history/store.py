# SPDX-License-Identifier: Apache-2.0
"""The store of one state folder: `history.log` (this hour) and `history.db` (the hours before).

Writing never stops the agent: what cannot be written waits, bounded, and is tried again; `trouble` says why. Nothing that was
written is thrown away: a damaged file is put aside under a name that says so, and what can be read of it is kept. The database is
open only while an hour is folded into it.
"""

import os
import sqlite3
from collections import deque
from contextlib import closing, suppress
from itertools import count

from zombiescope.errors import reason_of
from zombiescope.facts.history import Happening, Sample, Trouble
from zombiescope.history.chunks import Chunks
from zombiescope.history.database import JOURNALS
from zombiescope.history.log import AppendLog, Record, read_log
from zombiescope.host.own_folder import ensure_folder

LOG, DATABASE = "history.log", "history.db"
_MOST_WAITING, _MOST_LOG_BYTES = 2000, 8 << 20
_RECORDS_BETWEEN_TRIES = 6
_HOUR, _DAY = 3600, 86400


class Store:
    """The one writer of a folder; holds a lock on it."""

    def __init__(self, folder: str, *, days: float = 30, most_bytes: int = 60 << 20) -> None:
        self.folder = folder
        self._writing: Trouble | None = None
        self._folding: Trouble | None = None
        self.notes: list[str] = []
        self._days, self._most_bytes = days, most_bytes
        self._waiting: deque[Record] = deque(maxlen=_MOST_WAITING)
        self.dropped = 0
        self._log: AppendLog | None = None
        self._lock: int | None = None
        self._next = 1
        self._folded = 0
        """The highest number that was seen in the database."""
        self._hour: int | None = None
        self._fold_after = 0
        self._try_to_open()

    def add_sample(self, at: float, boot: str, values: dict[str, float]) -> None:
        self._add(Sample(self._take(), at, boot, values))

    def add_happening(self, at: float, boot: str, what: str, detail: str) -> None:
        self._add(Happening(self._take(), at, boot, what, detail))

    def close(self) -> None:
        self._flush()
        self._let_go()

    @property
    def trouble(self) -> Trouble | None:
        """Why the last sample is not written, or the last hour not folded."""
        return self._writing or self._folding

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _take(self) -> int:
        number = self._next
        self._next += 1
        return number

    def _add(self, record: Record) -> None:
        if len(self._waiting) == _MOST_WAITING:
            self.dropped += 1
        self._waiting.append(record)
        if self._log is None:
            self._try_to_open()
        self._flush()
        hour = int(record.at // _HOUR)
        is_new_hour = self._hour is not None and hour != self._hour
        self._hour = hour
        if is_new_hour or (self._folding and self._next > self._fold_after):
            self._fold()

    def _flush(self) -> None:
        if self._log is None or not self._waiting:
            return
        try:
            self._see_to_the_log(self._log)
            if self._log is None:
                return
            self._log.append(list(self._waiting))
        except OSError as error:
            self._writing = Trouble(f"cannot write {LOG} in {self.folder}", reason_of(error))
            return
        self._waiting.clear()
        self._writing = None
        if self._log.size() > _MOST_LOG_BYTES and not self._folding:
            self._fold()

    def _see_to_the_log(self, log: AppendLog) -> None:
        """What others did to it since the last write. One that was taken away is written anew from what is still open."""
        if gone := log.bytes_cut_off():
            self.notes.append(f"{LOG} was cut from outside: {gone:,} bytes of this hour are gone")
        if log.is_in_its_place():
            return
        self.notes.append(f"{LOG} was taken away: this hour is written anew")
        records = log.records()
        self._let_go()
        self._waiting.extendleft(reversed(records))
        self._try_to_open()

    def _let_go(self) -> None:
        if self._log is not None:
            self._log.close()
        if self._lock is not None:
            os.close(self._lock)
        self._log = self._lock = None

    def _fold(self) -> None:
        """The log into the chunks. A crash in between leaves records in both, told apart by their numbers. Chunks that were
        damaged meanwhile are put aside: what the log holds goes into new ones."""
        if self._log is None:
            return
        self._fold_after = self._next + _RECORDS_BETWEEN_TRIES
        for is_last in (False, True):
            try:
                self._fold_into_chunks(self._log)
            except (OSError, sqlite3.Error) as error:
                self._folding = Trouble(f"cannot fold the last hour into {DATABASE}", str(error).lower())
                if is_last or not _means_damage(error):
                    return
                with suppress(OSError, sqlite3.Error):
                    self._put_chunks_aside("found when it was written")
            else:
                self._folding = None
                return

    def _fold_into_chunks(self, log: AppendLog) -> None:
        records, damaged = read_log(log.path)
        chunks = self._open_chunks()
        try:
            self._fold_records(chunks, records)
        finally:
            with suppress(sqlite3.Error):
                chunks.close()
        _see_for_oneself(chunks.path, self._folded)
        if damaged:
            self._put_aside(log.path, f"{damaged} damaged lines")
        log.replace([])

    def _fold_records(self, chunks: Chunks, records: list[Record]) -> None:
        if (done := chunks.folded) < self._folded:
            self.notes.append(f"{DATABASE} was emptied or replaced: hours that were in it are gone")
        fresh = [record for record in records if record.number > done]
        if fresh:
            samples = [record for record in fresh if isinstance(record, Sample)]
            happenings = [record for record in fresh if isinstance(record, Happening)]
            chunks.fold(samples, happenings, max(record.number for record in fresh))
            chunks.forget(max(record.at for record in fresh) - self._days * _DAY, self._most_bytes)
        self._folded = chunks.folded

    def _try_to_open(self) -> None:
        """Once all of it is there; until then records wait."""
        try:
            ensure_folder(os.fsencode(self.folder))
            self._take_lock()
            with closing(self._open_chunks()) as chunks:
                self._folded = chunks.folded
            self._log = self._open_log()
        except (OSError, sqlite3.Error) as error:
            self._writing = Trouble(f"cannot keep a history in {self.folder}", reason_of(error))
            return
        self._writing = None

    def _take_lock(self) -> None:
        import fcntl  # noqa: PLC0415 (a reader needs no lock)

        if self._lock is not None:
            return
        descriptor = os.open(os.path.join(self.folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise OSError(error.errno, "another agent writes there") from error
        self._lock = descriptor

    def _open_chunks(self) -> Chunks:
        path = os.path.join(self.folder, DATABASE)
        try:
            return Chunks(path)
        except sqlite3.Error as error:
            if not _means_damage(error):
                raise
            self._put_chunks_aside(str(error))
        return Chunks(path)

    def _put_chunks_aside(self, why: str) -> None:
        """New ones take over what of the old can be read."""
        path = os.path.join(self.folder, DATABASE)
        if not os.path.exists(path):
            return
        aside = self._put_aside(path, why)
        for more in JOURNALS:
            with suppress(FileNotFoundError):
                os.rename(path + more, f"{aside}{more}")
        with closing(Chunks(path)) as chunks:
            self.notes[-1] += f"; {chunks.take_over(aside):,} hours of it could be read and are kept"

    def _open_log(self) -> AppendLog:
        path = os.path.join(self.folder, LOG)
        records, damaged = read_log(path)
        if damaged:
            self._put_aside(path, f"{damaged} damaged lines")
        log = AppendLog(path)
        if damaged:
            log.replace(records)
        if records and (missing := records[0].number - self._folded - 1) > 0:
            self.notes.append(f"{missing:,} records are neither in {DATABASE} nor in {LOG}")
        highest = max([self._folded, *(record.number for record in records)])
        if highest >= self._next or (self._waiting and self._waiting[0].number <= highest):
            self._renumber(highest)
        if records:
            self._hour = int(records[-1].at // _HOUR)
        return log

    def _renumber(self, highest: int) -> None:
        """Records that waited before the store could be read get numbers after those in it."""
        self._next = highest + 1
        renumbered = [record._replace(number=self._take()) for record in self._waiting]
        self._waiting = deque(renumbered, maxlen=_MOST_WAITING)

    def _put_aside(self, path: str, why: str) -> str:
        asides = (f"{path}.damaged-{number}" for number in count(1))
        aside = next(each for each in asides if not os.path.exists(each))
        os.rename(path, aside)
        self.notes.append(f"{os.path.basename(path)} was damaged ({why}): kept as {os.path.basename(aside)}")
        return aside


def _means_damage(error: Exception) -> bool:
    """Not a disk that is full or refuses: a file that is not what was written."""
    is_cut = getattr(error, "sqlite_errorname", "") == "SQLITE_IOERR_SHORT_READ"
    return is_cut or (isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError))


def _see_for_oneself(path: str, folded: int) -> None:
    """Before the log goes: what was folded is there for others too, not only in our cache. Raises sqlite3.DatabaseError."""
    with closing(Chunks(path, read_only=True)) as fresh:
        if fresh.folded < folded:
            raise sqlite3.DatabaseError("what was written is not there")
