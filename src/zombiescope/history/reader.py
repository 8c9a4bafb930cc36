# SPDX-License-Identifier: Apache-2.0
"""Reads the store of a state folder, also while an agent writes it. Changes nothing."""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from zombiescope.errors import KEPT_BY_NEWER, ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Happening, Sample
from zombiescope.facts.names import shown
from zombiescope.history.chunks import Chunks, UnknownStoreError
from zombiescope.history.log import read_log
from zombiescope.history.store import DATABASE, LOG
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
