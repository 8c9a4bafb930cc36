# SPDX-License-Identifier: Apache-2.0
"""A few captures of an archive counted, by DuckDB: the work of one task, here or on another machine. What comes back is small."""

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zombiescope.profiler.archive.catalogue import Entry, unpacked
from zombiescope.profiler.archive.places import Place, Where, place_at
from zombiescope.profiler.stacks.across_nodes import Counted, Merged
from zombiescope.profiler.stacks.arrays import I64, Flags, used_numbers
from zombiescope.profiler.stacks.branches import Branches, boxes, called_again, checked, functions, holding, merged_keys
from zombiescope.profiler.stacks.call_tree import CallTree
from zombiescope.profiler.stacks.capture import BrokenCapture, matches
from zombiescope.profiler.stacks.flame_graph import NARROWEST

MEMORY = "256MB"
LEAST_SHARE = 0.0002
"""Of a capture: a function below is taken for one that was not there."""
_FINER = 4
_ROWS_AT_ONCE, _MOST_STACKS, _MOST_MOMENTS = 1 << 18, 1 << 26, 400
_MOST_UNPACKED = 1 << 29
"""Bytes at once, of the columns that are read: an honest stack takes some, and so does a sample."""
_MOST_PAIRS = 1 << 22
"""Of functions and files: counted where they are so few, else sorted."""
FUNCTIONS, BOXES, MOMENTS = 1, 2, 4
_kept = threading.local()
"""A connection takes longer to open than a capture to count."""


class Asked(NamedTuple):
    """A question, as every task is given it."""

    place: Where
    wanted: int
    """Which of FUNCTIONS, BOXES and MOMENTS."""
    begin: int
    end: int
    """Microseconds since the epoch."""
    cores: tuple[int, ...] = ()
    cgroups: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    side: str = "both"
    with_idle: bool = False
    function: str = ""
    """A glob, of MOMENTS; empty: whatever was sampled."""
    window: int = 10_000_000
    """Microseconds, of MOMENTS."""


Piece = tuple[tuple[Entry, int], ...]
"""Captures, each with the side it is on."""


class Slot(NamedTuple):
    """How much one core was at it in one window."""

    node: str
    title: str
    core: int
    begin: int
    """Microseconds since the epoch."""
    samples: int
    share: float | None
    """Of the core's time; None where the rate is not known."""


def by_height(slot: Slot) -> tuple[float, int, str, int, int]:
    """An order, the highest first."""
    return -(slot.share or 0.0), -slot.samples, slot.node, slot.begin, slot.core


class Part(NamedTuple):
    """What a task gives back."""

    counted: tuple[tuple[int, Counted], ...]
    merged: Merged
    slots: tuple[Slot, ...]
    held: int
    """Samples of the function, of MOMENTS."""
    unread: tuple[str, ...]
    """Captures that are damaged or have gone."""


def count_piece(asked: Asked, piece: Piece) -> Part:
    place, merged = place_at(asked.place), Merged()
    counted, slots, held, unread = list[tuple[int, Counted]](), list[Slot](), 0, list[str]()
    connection = _connect()
    for entry, side in piece:
        try:
            branches = _branches(place, entry)
            if asked.wanted & MOMENTS:
                found, many = _slots(connection, place, asked, entry, branches)
                slots, held = slots + found, held + many
            if asked.wanted & (FUNCTIONS | BOXES):
                counts = _counts(connection, place, asked, entry, len(branches.size))
                samples = int(counts.sum())
                if samples and asked.wanted & FUNCTIONS:
                    counted.append(
                        (side, Counted(entry.labels.node, samples, functions(branches, counts, LEAST_SHARE)))
                    )
                if samples and asked.wanted & BOXES:
                    merged.add(branches.keys, boxes(branches, counts, NARROWEST / _FINER), side)
        except (OSError, pa.ArrowException, KeyError, ValueError, OverflowError, BrokenCapture, duckdb.Error):
            unread.append(entry.path)
    return Part(tuple(counted), merged, tuple(sorted(slots, key=by_height)[:_MOST_MOMENTS]), held, tuple(unread))


def _connect() -> Any:
    """Of this thread."""
    if not hasattr(_kept, "connection"):
        _kept.connection = duckdb.connect(
            config={
                "memory_limit": MEMORY,
                "threads": 1,
                "enable_external_access": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
    return _kept.connection


def _branches(place: Place, entry: Entry) -> Branches:
    file = pq.ParquetFile(place.open(f"stacks/{entry.path}"), read_dictionary=["function", "file"])
    columns = ["size", "function", "file"]
    if file.metadata.num_rows > _MOST_STACKS or sum(unpacked(file, columns)) > _MOST_UNPACKED:
        raise BrokenCapture("it has more stacks than a capture can have")
    table = file.read(columns=columns, use_threads=False)
    table.validate(full=True)  # numbers of names that are not there are read without a word
    table = table.unify_dictionaries()
    size = table["size"].to_numpy().astype(np.int64)
    (function, names), (folder, files) = (_texts(table[name].combine_chunks()) for name in ("function", "file"))
    numbers, limit = function * max(1, len(files)) + folder, len(names) * len(files)
    pairs, place_of = used_numbers(numbers, limit) if limit <= _MOST_PAIRS else np.unique(numbers, return_inverse=True)
    first, second = np.divmod(pairs, max(1, len(files)))
    keys, number = merged_keys([names[each] for each in first.tolist()], [files[each] for each in second.tolist()])
    numbered = number[place_of]
    branches = checked(Branches(size, np.zeros(len(size), bool), numbered, keys))
    return branches._replace(is_again=called_again(CallTree(numbered.astype(np.uint32), size.astype(np.uint32))))


def _texts(column: Any) -> tuple[I64, list[str]]:
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], pa.string()).dictionary_encode()
    if column.null_count:
        raise BrokenCapture("a function has no name")
    return column.indices.to_numpy().astype(np.int64), column.dictionary.to_pylist()


def _rows(place: Place, entry: Entry, asked: Asked, columns: list[str]) -> pa.RecordBatchReader:
    """Piece by piece: a capture of any length takes no more memory. Only those of the cgroups and events that are asked for, by
    the globs of every other command: those of SQL take a backslash for a sign."""
    file = pq.ParquetFile(place.open(f"samples/{entry.path}"))
    wanted = pa.schema([_plain(file.schema_arrow.field(name)) for name in columns])
    globs = {name: globs for name, globs in (("cgroup", asked.cgroups), ("event", asked.events)) if globs}
    if file.metadata.num_rows != entry.samples or max(unpacked(file, [*columns, *globs]), default=0) > _MOST_UNPACKED:
        raise BrokenCapture("it has other samples than it says")

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[*columns, *globs], use_threads=False):
            for name, some in globs.items():
                texts = batch.column(name).cast(pa.string())
                fitting = [
                    each for each in pc.unique(texts).to_pylist() if any(matches(each or "", glob) for glob in some)
                ]
                batch = batch.filter(pc.is_in(texts, pa.array(fitting, pa.string())))
            cast = [batch.column(field.name).cast(field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(cast, schema=wanted)

    return pa.RecordBatchReader.from_batches(wanted, batches())


def _plain(field: Any) -> Any:
    """A moment as a number."""
    return pa.field(field.name, pa.int64()) if pa.types.is_timestamp(field.type) else field


def _condition(asked: Asked, entry: Entry) -> tuple[str, list[str], list[Any]]:
    """SQL, the columns it needs, its values. A capture that lies in the range as a whole is not asked for its times."""
    terms: list[tuple[str, str, list[Any]]] = []
    if entry.begin < asked.begin or entry.end >= asked.end:
        terms.append(("time >= ? and time < ?", "time", [asked.begin, asked.end]))
    if asked.cores:
        terms.append(("list_contains(?, core)", "core", [list(asked.cores)]))
    if asked.side != "both":
        terms.append(("in_kernel" if asked.side == "kernel" else "not in_kernel", "in_kernel", []))
    if not asked.with_idle:
        terms.append(("not idle", "idle", []))
    condition = " and ".join(["true", *(sql for sql, _, _ in terms)])
    return condition, [column for _, column, _ in terms], [value for *_, values in terms for value in values]


def _counts(connection: Any, place: Place, asked: Asked, entry: Entry, stacks: int) -> I64:
    condition, columns, values = _condition(asked, entry)
    connection.register("rows_read", _rows(place, entry, asked, ["stack", "weight", *columns]))
    sql = f"select stack, sum(weight)::bigint as many from rows_read where {condition} group by stack"  # noqa: S608 (no text of others)
    found = connection.execute(sql, values).fetchnumpy()
    counts = np.zeros(stacks, np.int64)
    stack = np.asarray(found["stack"], np.int64)
    if len(stack) and not 0 <= int(stack.min()) <= int(stack.max()) < stacks:
        raise BrokenCapture("a sample has a stack that is not there")
    counts[stack] = np.asarray(found["many"], np.int64)
    return counts


def _slots(connection: Any, place: Place, asked: Asked, entry: Entry, branches: Branches) -> tuple[list[Slot], int]:
    held: Flags = np.ones(len(branches.size), bool)
    if asked.function:
        held = holding(branches, np.array([matches(key[0], asked.function) for key in branches.keys], bool))
    if not held.any():
        return [], 0
    condition, columns, values = _condition(asked, entry)
    needed = ["stack", "weight", "core", "time", *(each for each in columns if each not in ("core", "time"))]
    connection.register("rows_read", _rows(place, entry, asked, needed))
    connection.register("held", pa.table({"stack": pa.array(np.flatnonzero(held).astype(np.uint32))}))
    sql = (
        "with slots as (select core, time // ? as slot, sum(weight)::bigint as many from rows_read semi join held using (stack) "  # noqa: S608
        f"where {condition} group by all) "
        "select core, slot, many, sum(many) over () as whole from slots order by many desc, slot, core limit ?"
    )
    found = connection.execute(sql, [asked.window, *values, _MOST_MOMENTS]).fetchall()
    expected = None if entry.rate_hz is None else entry.rate_hz * asked.window / 1e6
    slots = [
        Slot(
            entry.labels.node,
            entry.title,
            int(core),
            int(slot) * asked.window,
            int(many),
            None if expected is None else min(1.0, many / expected),
        )
        for core, slot, many, _ in found
    ]
    return slots, int(found[0][3]) if found else 0
