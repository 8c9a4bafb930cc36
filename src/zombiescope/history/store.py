# SPDX-License-Identifier: Apache-2.0
"""The store of one state folder: `history.log` (this hour) and `history.db` (the hours before).

Writing never stops the agent: what cannot be written waits, bounded, and is tried again; `trouble` says why. Nothing that was
written is thrown away: a damaged file is put aside under a name that says so, and what can be read of it is kept.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from contextlib import suppress

from zombiescope.facts.history import Happening, Sample, Trouble
from zombiescope.history.chunks import Chunks
from zombiescope.history.log import AppendLog, Record, read_log

LOG, DATABASE = "history.log", "history.db"
_MOST_WAITING = 2000
_MOST_LOG_BYTES = 8 << 20
_HOUR = 3600
_DAY = 86400


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
        self._chunks: Chunks | None = None
        self._lock: int | None = None
        self._next = 1
        self._hour: int | None = None
        self._try_to_open()

    def add_sample(self, at: float, boot: str, values: dict[str, float]) -> None:
        self._add(Sample(self._take(), at, boot, values))

    def add_happening(self, at: float, boot: str, what: str, detail: str) -> None:
        self._add(Happening(self._take(), at, boot, what, detail))

    def close(self) -> None:
        self._flush()
        for part in (self._log, self._chunks):
            if part is not None:
                part.close()
        if self._lock is not None:
            os.close(self._lock)
        self._log = self._chunks = self._lock = None

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
        if self._hour is not None and hour != self._hour:
            self._fold()
        self._hour = hour

    def _flush(self) -> None:
        if self._log is None or not self._waiting:
            return
        try:
            self._log.append(list(self._waiting))
        except OSError as error:
            self._writing = Trouble(f"cannot write {self._log.path}", (error.strerror or str(error)).lower())
            return
        self._waiting.clear()
        self._writing = None
        if self._log.size() > _MOST_LOG_BYTES:
            self._fold()

    def _fold(self) -> None:
        """The log into the chunks. A crash in between leaves records in both, told apart by their numbers. Chunks that were
        damaged meanwhile are put aside: what the log holds goes into new ones."""
        for is_last in (False, True):
            if self._chunks is None:
                self._begin_chunks_anew(is_damaged=False)
            if self._log is None or self._chunks is None:
                return
            try:
                self._fold_into(self._log, self._chunks)
            except (OSError, sqlite3.Error) as error:
                self._folding = Trouble(f"cannot fold the last hour into {DATABASE}", str(error).lower())
                if is_last or isinstance(error, OSError | sqlite3.OperationalError):
                    return
                self._begin_chunks_anew(is_damaged=True)
            else:
                self._folding = None
                return

    def _fold_into(self, log: AppendLog, chunks: Chunks) -> None:
        records, _ = read_log(log.path)
        done = chunks.folded
        fresh = [record for record in records if record.number > done]
        samples = [record for record in fresh if isinstance(record, Sample)]
        happenings = [record for record in fresh if isinstance(record, Happening)]
        if fresh:
            chunks.fold(samples, happenings, max(record.number for record in fresh))
            newest = max(record.at for record in fresh)
            chunks.forget(newest - self._days * _DAY, self._most_bytes)
            _see_for_oneself(chunks.path, chunks.folded)
        log.replace([])

    def _begin_chunks_anew(self, *, is_damaged: bool) -> None:
        if self._chunks is not None:
            with suppress(sqlite3.Error):
                self._chunks.close()
            self._chunks = None
        with suppress(OSError, sqlite3.Error):
            self._chunks = self._open_chunks(is_damaged=is_damaged)

    def _try_to_open(self) -> None:
        """Once all of it is there; until then records wait."""
        try:
            os.makedirs(self.folder, mode=0o750, exist_ok=True)
            self._take_lock()
            if self._chunks is None:
                self._chunks = self._open_chunks()
            self._log = self._open_log(self._chunks)
        except (OSError, sqlite3.Error) as error:
            why = getattr(error, "strerror", None) or str(error)
            self._writing = Trouble(f"cannot keep a history in {self.folder}", str(why).lower())
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

    def _open_chunks(self, *, is_damaged: bool = False) -> Chunks:
        path = os.path.join(self.folder, DATABASE)
        why = "found when it was written"
        if not is_damaged:
            try:
                return Chunks(path)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:
                why = str(error)
        aside = self._put_aside(path, why) if os.path.exists(path) else None
        for more in ("-wal", "-shm") if aside else ():
            with suppress(FileNotFoundError):
                os.rename(path + more, f"{aside}{more}")
        chunks = Chunks(path)
        if aside:
            self.notes[-1] += f"; {chunks.take_over(aside):,} hours of it could be read and are kept"
        return chunks

    def _open_log(self, chunks: Chunks) -> AppendLog:
        path = os.path.join(self.folder, LOG)
        records, damaged = read_log(path)
        if damaged:
            self._put_aside(path, f"{damaged} damaged lines")
        log = AppendLog(path)
        if damaged:
            log.replace(records)
        highest = max([chunks.folded, *(record.number for record in records)])
        if highest >= self._next or (self._waiting and self._waiting[0].number <= highest):
            self._renumber(highest)
        if records:
            self._hour = int(records[-1].at // _HOUR)
        return log

    def _renumber(self, highest: int) -> None:
        """Records that waited before the store could be read get numbers after those in it."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._next = highest + 1
        self._waiting.extend(record._replace(number=self._take()) for record in waiting)

    def _put_aside(self, path: str, why: str) -> str:
        number = 1
        while os.path.exists(aside := f"{path}.damaged-{number}"):
            number += 1
        os.rename(path, aside)
        self.notes.append(f"{os.path.basename(path)} was damaged ({why}): kept as {os.path.basename(aside)}")
        return aside


def _see_for_oneself(path: str, folded: int) -> None:
    """Before the log goes: what was folded is there for others too, not only in our cache. Raises sqlite3.DatabaseError."""
    fresh = Chunks(path, read_only=True)
    try:
        if fresh.folded < folded:
            raise sqlite3.DatabaseError("what was written is not there")
    finally:
        fresh.close()
