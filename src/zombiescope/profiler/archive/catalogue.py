# SPDX-License-Identifier: Apache-2.0
"""Which captures an archive holds, of which nodes and when; and which of them are asked about: `zone=a,b image=ami-1*`."""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zombiescope.errors import KEPT_BY_NEWER, ObservationError, UsageError, unknown_format
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, quiet
from zombiescope.profiler.archive.places import Place, reaching, require_known
from zombiescope.profiler.archive.schema import FAMILY, LABELS, NAME, VERSION, Labels
from zombiescope.profiler.stacks.capture import matches

_AT_ONCE = 16
_MOST_ROWS, _MOST_BYTES, _LONGEST = 1 << 28, 1 << 20, 300
_MOST_UNPACKED = 16 << 20
"""Of the row about a capture."""
SHIP_AGAIN = "ship it again from its node, with --replace"
_BETWEEN = re.compile(rf"\s+(?=(?:{'|'.join(LABELS)})=)")
"""Terms are parted by blanks; a value may hold some."""
_COLUMNS = ("version", "capture", "title", *LABELS, "begin", "end", "samples", "rate_hz")


class Entry(NamedTuple):
    """One capture; times in microseconds since the epoch."""

    path: str
    """Below the folder of a table."""
    title: str
    labels: Labels
    begin: int
    end: int
    samples: int
    rate_hz: float | None


class Times(NamedTuple):
    """Seconds since the epoch; None: not bounded."""

    since: float | None = None
    until: float | None = None


Terms = tuple[tuple[str, tuple[str, ...]], ...]


class Catalogue(NamedTuple):
    entries: tuple[Entry, ...]
    gaps: tuple[Gap, ...]


def read_terms(texts: Iterable[str], option: str) -> Terms:
    """Every term holds, by one of its values; values are globs."""
    found = []
    for text in texts:
        for term in _BETWEEN.split(text.strip()):
            label, mark, values = term.partition("=")
            if not mark or label not in LABELS or not values:
                raise UsageError(
                    f"cannot read {option} {text!r}",
                    f"a term is one of {', '.join(LABELS)}, then = and a value",
                    f"such as {option} 'zone=a,b image=ami-1*'",
                )
            found.append((label, tuple(quiet(value) for value in values.split(",") if value)))
    return tuple(found)


def is_one(labels: Labels, terms: Terms) -> bool:
    """A name may hold a comma, too."""
    return all(
        any(matches(getattr(labels, label), value) for value in (*values, ",".join(values))) for label, values in terms
    )


def read_catalogue(place: Place, times: Times) -> Catalogue:
    with reaching(f"cannot read the archive at {place.name}", "is the address right, and may you read there?"):
        require_known(place)
        names = place.listed("captures", _dates(times))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            read = list(pool.map(lambda name: _entry(place, name), names))
    damaged = [name for name, each in zip(names, read, strict=True) if each is None]
    gaps = (_damaged(damaged, len(read)),) if damaged else ()
    begin, end = bounds_of(times)
    inside = [each for each in read if each is not None and each.end >= begin and each.begin < end]
    return Catalogue(tuple(sorted(inside, key=lambda each: (each.labels.node, each.path))), gaps)


def _damaged(names: Sequence[str], of: int) -> Gap:
    which = f"{names[0]}{' and others' if len(names) > 1 else ''}"
    many = f"{len(names):,} of {counted(of, 'capture')} of the archive {'is' if len(names) == 1 else 'are'} damaged"
    return Gap("captures", f"{many}: {which}", SHIP_AGAIN)


def bounds_of(times: Times) -> tuple[int, int]:
    begin = -(1 << 62) if times.since is None else round(times.since * 1e6)
    return begin, (1 << 62) if times.until is None else round(times.until * 1e6)


def _dates(times: Times) -> tuple[str, str]:
    """A capture lies under the day on which it began; none is longer than one."""
    first = "" if times.since is None else f"{_day(times.since) - timedelta(days=1):%Y-%m-%d}"
    return first, "9999-99-99" if times.until is None else f"{_day(times.until):%Y-%m-%d}"


def _day(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError("cannot look at that time", "no calendar has it", "such as --since 2h") from error


def _entry(place: Place, name: str) -> Entry | None:
    """None: damaged, or no capture of ours."""
    match = NAME.fullmatch(name)
    assert match is not None
    try:
        content = place.open(name).read(_MOST_BYTES)
    except FileNotFoundError:
        return None
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        if file.metadata.num_rows != 1 or sum(unpacked(file, _COLUMNS)) > _MOST_UNPACKED:
            return None
        row: dict[str, Any] = file.read(
            columns=[each for each in _COLUMNS if each in file.schema_arrow.names]
        ).to_pylist()[0]
        if int(row["version"]) > VERSION:
            raise ObservationError(
                f"cannot use {name} of the archive at {place.name}",
                unknown_format(f"{FAMILY}{int(row['version'])}", f"{FAMILY}{VERSION}"),
                KEPT_BY_NEWER,
            )
        labels = Labels(*(quiet(str(row[label])[:_LONGEST]) for label in LABELS))
        samples, rate = int(row["samples"]), row["rate_hz"]
        if row["capture"] != match["name"] or not 0 < samples <= _MOST_ROWS:
            return None
        return Entry(
            f"date={match['date']}/{match['name']}.parquet",
            quiet(str(row["title"])[:_LONGEST]),
            labels,
            _microseconds(row["begin"]),
            _microseconds(row["end"]),
            samples,
            float(rate) if rate is not None and 0 < float(rate) < 1e6 else None,
        )
    except (OSError, pa.ArrowException, KeyError, AttributeError, TypeError, ValueError, OverflowError):
        return None


def unpacked(file: pq.ParquetFile, columns: Iterable[str]) -> list[int]:
    """Bytes that these columns say they become, group by group: a few kilobytes can hold gigabytes."""
    facts, wanted = file.metadata, set(columns)
    groups = [facts.row_group(number) for number in range(facts.num_row_groups)]
    chunks = [[group.column(each) for each in range(group.num_columns)] for group in groups]
    return [
        sum(max(0, each.total_uncompressed_size) for each in group if each.path_in_schema in wanted) for group in chunks
    ]


def _microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)


class Groups(NamedTuple):
    """The captures asked about, and those they are compared with."""

    where: tuple[Entry, ...]
    against: tuple[Entry, ...]


def grouped(entries: Sequence[Entry], where: Terms, against: Terms) -> Groups:
    """Without terms of their own, the others are all nodes that are not asked about."""
    asked = tuple(each for each in entries if is_one(each.labels, where))
    inside = set(asked)
    others = tuple(each for each in entries if each not in inside and (not against or is_one(each.labels, against)))
    return Groups(asked, others)
