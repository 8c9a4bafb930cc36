# SPDX-License-Identifier: Apache-2.0
"""Reads the store of a state folder, also while an agent writes it. Changes nothing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from typing import NamedTuple

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Happening, Sample
from zombiescope.facts.names import shown
from zombiescope.history.chunks import Chunks
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


def remember(
    folder: bytes, since: float = 0.0, until: float = EVER, wanted: frozenset[str] | None = None
) -> Remembered:
    """Everything between two moments, in the order it was written. `wanted` limits the series."""
    what = f"cannot read a history from {shown(folder)}"
    with bounded(what, Budget(_size(folder), _MEMORY_TIMES)):
        return _remember(folder, since, until, wanted)


def _size(folder: bytes) -> int:
    found = 0
    for name in FILES:
        with suppress(OSError):
            found += input_bytes(os.stat(os.path.join(folder, name.encode())))
    return found


def _remember(folder: bytes, since: float, until: float, wanted: frozenset[str] | None) -> Remembered:
    where = os.fsdecode(folder)
    what = f"cannot read a history from {shown(folder)}"
    try:
        is_kept = has_history(folder)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ObservationError(what, why, "run as root, or as the agent's user") from error
    if not is_kept:
        why = "there is no history in it" if os.path.isdir(where) else "there is no such folder"
        raise ObservationError(what, why, "zombiescope agent --state DIR keeps one")
    gaps: list[Gap] = []
    # The log first: what is folded meanwhile is then seen twice rather than not at all, and numbers tell.
    try:
        records, damaged = read_log(os.path.join(where, LOG))
    except OSError as error:
        records, damaged = [], 0
        gaps.append(Gap("series", f"{LOG}: {(error.strerror or str(error)).lower()}", "run as the user of the agent"))
    if damaged:
        gaps.append(Gap("series", f"{LOG}: {damaged} lines are damaged and left out"))
    samples: dict[int, Sample] = {}
    happenings: dict[int, Happening] = {}
    _read_chunks(os.path.join(where, DATABASE), since, until, wanted, (samples, happenings, gaps))
    for record in records:
        if not since <= record.at <= until:
            continue
        if isinstance(record, Happening):
            happenings[record.number] = record
        elif record.number not in samples:
            values = record.values if wanted is None else {n: v for n, v in record.values.items() if n in wanted}
            samples[record.number] = record._replace(values=values)
    return Remembered(
        [samples[number] for number in sorted(samples)],
        [happenings[number] for number in sorted(happenings)],
        tuple(gaps),
    )


def _read_chunks(
    path: str,
    since: float,
    until: float,
    wanted: frozenset[str] | None,
    into: tuple[dict[int, Sample], dict[int, Happening], list[Gap]],
) -> None:
    samples, happenings, gaps = into
    if not os.path.exists(path):
        return
    try:
        chunks = Chunks(path, read_only=True)
        try:
            samples.update((sample.number, sample) for sample in chunks.samples(since, until, wanted))
            if chunks.damaged:
                gaps.append(Gap("series", f"{DATABASE}: {chunks.damaged:,} hours are damaged and left out"))
            happenings.update((each.number, each) for each in chunks.happenings(since, until))
        finally:
            chunks.close()
    except (sqlite3.Error, ValueError, TypeError, OverflowError, UnicodeError) as error:
        is_refused = "unable to open" in str(error)
        hint = "run as the user of the agent" if is_refused else "the agent puts a damaged store aside when it starts"
        gaps.append(Gap("series", f"{DATABASE}: {error}", hint))
