# SPDX-License-Identifier: Apache-2.0
"""A history as lines of JSON, to travel in a recording, and back into a folder.

Whatever is a word can be read and replaced on the way; the numbers stay packed as they are stored. On the way in nothing is
trusted: a database is made anew of what the lines say, and a number that cannot be unpacked is a damaged hour, as in any store.
"""

import json
import math
import os
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from zombiescope.errors import ObservationError
from zombiescope.facts.history import Happening, Sample, our_part
from zombiescope.history.chunks import Chunks, Packed
from zombiescope.history.log import read_log
from zombiescope.history.store import DATABASE, LOG

SCHEMA = "zombiescope.carried-history/1"

_MOST_SERIES, _MOST_STRETCHES, _MOST_HAPPENINGS = 20_000, 20_000, 200_000
_MOST_CARRIED_HAPPENINGS = 20_000
_LARGEST = 1 << 62
_WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


class CarriedHistory(NamedTuple):
    lines: tuple[bytes, ...]
    hours: int
    """Stretches of at most an hour that are in it, the newest."""
    hours_in_all: int
    begin: float
    end: float
    damaged: int
    """Lines of the log that could not be read."""


def series_names(folder: bytes) -> list[str]:
    return sorted(set(_read(folder).series.values()))


class _Read(NamedTuple):
    """Numbers of series as in the first; those of the log have their own."""

    series: dict[int, str]
    stretches: list[Packed]
    """Newest first."""
    happenings: list[Happening]
    damaged: int


def _read(folder: bytes) -> _Read:
    where = os.fsdecode(folder)
    records, damaged = read_log(os.path.join(where, LOG))
    series: dict[int, str] = {}
    stretches: list[Packed] = []
    happenings: dict[int, Happening] = {}
    folded = 0
    if os.path.exists(os.path.join(where, DATABASE)):
        with closing(Chunks(os.path.join(where, DATABASE), read_only=True)) as stored:
            series, stretches, folded = stored.series(), list(stored.packed()), stored.folded
            happenings = {each.number: each for each in stored.happenings(-math.inf, math.inf)}
    fresh = [record for record in records if record.number > folded]
    happenings |= {record.number: record for record in fresh if isinstance(record, Happening)}
    samples = [record for record in fresh if isinstance(record, Sample)]
    if samples:
        more, names = _packed(samples)
        numbers = {name: number for number, name in series.items()}
        for name in names.values():
            numbers.setdefault(name, len(numbers) + 1 + max(series, default=0))
        series = {number: name for name, number in numbers.items()}
        moved = {old: numbers[name] for old, name in names.items()}
        stretches = [*(_renumbered(each, moved) for each in more), *stretches]
    return _Read(series, stretches, [happenings[number] for number in sorted(happenings)], damaged)


def _packed(samples: list[Sample]) -> tuple[list[Packed], dict[int, str]]:
    """This hour, which is not folded yet, as it will be."""
    with closing(Chunks(":memory:")) as chunks:
        chunks.fold(samples, (), samples[-1].number)
        return list(chunks.packed()), chunks.series()


def _renumbered(stretch: Packed, numbers: dict[int, int]) -> Packed:
    """Without its slots, which name the series by number: whoever reads it sums it up again."""
    return stretch._replace(columns={numbers[old]: data for old, data in stretch.columns.items()}, summary=None)


def carry(folder: bytes, change: Callable[[str], str], most_bytes: int) -> CarriedHistory | None:
    """The newest hours that fit; `change` is given every word that a stranger could have chosen. None: nothing is kept there.

    Raises OSError or sqlite3.Error where it cannot be read.
    """
    found = _read(folder)
    if not found.stretches:
        return None
    kept: list[bytes] = []
    size = 0
    for line in map(_stretch_line, found.stretches):
        size += len(line)
        if size > most_bytes:
            break
        kept.append(line)
    carried = found.stretches[: len(kept)]
    if not kept:
        return CarriedHistory((), 0, len(found.stretches), 0.0, 0.0, found.damaged)
    is_whole = len(kept) == len(found.stretches)
    told = [each for each in found.happenings if is_whole or each.at >= carried[-1].begin][-_MOST_CARRIED_HAPPENINGS:]
    lines = (
        _line({"schema": SCHEMA, "series": _changed_names(found.series, change)}),
        *kept[::-1],
        *(_line({"happening": [*each[:3], change(each.what), change(each.detail)]}) for each in told),
    )
    begin, end = min(each.begin for each in carried), max(each.until for each in carried)
    return CarriedHistory(lines, len(kept), len(found.stretches), begin, end, found.damaged)


def _changed_names(series: dict[int, str], change: Callable[[str], str]) -> dict[str, str]:
    """Ours stay; what others chose is changed. Two that become one stay two."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for number, name in series.items():
        ours = our_part(name)
        rest = name.removeprefix(ours)
        fresh = ours + change(rest) if rest else ours
        while fresh in taken:
            fresh += "~"
        taken.add(fresh)
        found[str(number)] = fresh
    return found


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode()


def _stretch_line(stretch: Packed) -> bytes:
    packed = {"numbers": _text(stretch.numbers), "times": _text(stretch.times), "summary": _text(stretch.summary)}
    columns = {str(number): _text(data) for number, data in stretch.columns.items()}
    return _line({"stretch": list(stretch[:5]), "packed": {**packed, "series": columns}})


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")


def lay_down(lines: Iterable[bytes], folder: str) -> int:
    """A store in an empty folder, of what a stranger's lines say; how many hours. Raises ObservationError, and
    sqlite3.OperationalError where it cannot be written."""
    numbered = iter(lines)
    try:
        head = json.loads(next(numbered, b"null"))
        if not isinstance(head, dict) or head.get("schema") != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        series = {_whole(number): str(name) for number, name in head["series"].items()}
        if len(series) > _MOST_SERIES or len(set(series.values())) != len(series):
            raise ValueError("of too many series, or of one twice")
        with closing(Chunks(os.path.join(folder, DATABASE))) as chunks:
            return chunks.take_packed(series, _entries(numbered))
    except sqlite3.OperationalError:
        raise
    except (*_WRONG, sqlite3.Error) as error:
        raise ObservationError(
            "cannot read the history of this recording",
            f"its history is not as it was written ({type(error).__name__}: {error})"[:160],
            "ask for a new recording",
        ) from error


def _entries(lines: Iterator[bytes]) -> Iterator[Packed | Happening]:
    stretches = happenings = 0
    for entry in map(json.loads, filter(None, lines)):
        if "stretch" in entry:
            stretches += 1
            yield _stretch(entry["stretch"], entry["packed"])
        else:
            happenings += 1
            number, at, boot, what, detail = entry["happening"]
            yield Happening(_whole(number), _moment(at), str(boot), str(what), str(detail))
        if stretches > _MOST_STRETCHES or happenings > _MOST_HAPPENINGS:
            raise ValueError("of more hours or events than a store keeps")


def _stretch(about: list[Any], packed: dict[str, Any]) -> Packed:
    first, boot, begin, until, samples = about
    numbers, times = (b64decode(packed[name], validate=True) for name in ("numbers", "times"))
    summary = packed["summary"]
    return Packed(
        _whole(first),
        str(boot),
        _moment(begin),
        _moment(until),
        _whole(samples),
        numbers,
        times,
        None if summary is None else b64decode(summary, validate=True),
        {_whole(number): b64decode(data, validate=True) for number, data in packed["series"].items()},
    )


def _whole(value: Any) -> int:
    number = int(value)
    if not 0 <= number < _LARGEST:
        raise ValueError("a number that no store has")
    return number


def _moment(value: Any) -> float:
    at = float(value)
    if not abs(at) < 1e12:
        raise ValueError("a moment outside of any calendar")
    return at
