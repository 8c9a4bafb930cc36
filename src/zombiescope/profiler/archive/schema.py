# SPDX-License-Identifier: Apache-2.0
"""The archive's three tables, version 1, and a capture put into them. docs/reference/archive.md describes them.

`captures` one row a capture, written last: without it the other two do not count. `stacks` its call tree. `samples`.
"""

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zombiescope.errors import UsageError
from zombiescope.profiler.stacks.branches import called_again
from zombiescope.profiler.stacks.capture import Capture, in_kernel
from zombiescope.profiler.stacks.flame_graph import ALL

VERSION = 1
MARKER = "zombiescope-archive.json"
FAMILY = "zombiescope.archive/"
SCHEMA = f"{FAMILY}{VERSION}"
TABLES = ("stacks", "samples", "captures")
"""In the order in which they are written."""
NAME = re.compile(r"(?P<table>[a-z]+)/date=(?P<date>\d{4}-\d\d-\d\d)/(?P<name>[A-Za-z0-9._-]{1,200})\.parquet")
LABELS = ("node", "zone", "image", "kernel")
_MOST_SECONDS, _ROWS_OF_A_GROUP = 86400, 1 << 20
_STRANGE = re.compile(r"[^A-Za-z0-9._-]+")
_MICROSECONDS = pa.timestamp("us", tz="UTC")


class Labels(NamedTuple):
    node: str
    zone: str = ""
    image: str = ""
    kernel: str = ""


def named(capture: Capture, labels: Labels) -> tuple[str, str]:
    """The name of a capture in every archive, and its date: by what was sampled, so that it has one name however it came."""
    clock = capture.about.clock
    if clock is None or not capture.about.has_time or not len(capture):
        why = "it holds no sample" if not len(capture) else "nobody knows when its samples were taken"
        raise UsageError("cannot archive this capture", why, "give --at, or record it with zombiescope profile record")
    if capture.seconds > _MOST_SECONDS:
        raise UsageError("cannot archive this capture", "it is longer than a day", "record in segments")
    digest = hashlib.sha256(labels.node.encode("utf-8", "surrogatepass"))
    for column in (capture.time, capture.cpu, capture.tid, capture.node):
        digest.update(np.ascontiguousarray(column).data)
    began = datetime.fromtimestamp(clock.on_wall(int(capture.time[0])) // 10**9, UTC)
    node = _STRANGE.sub("-", labels.node).strip("-.")[:64] or "node"
    return f"{node}-{began:%Y%m%dT%H%M%SZ}-{digest.hexdigest()[:16]}", f"{began:%Y-%m-%d}"


def pack(capture: Capture, name: str, title: str, labels: Labels) -> dict[str, bytes]:
    """Each of the tables, under the name that `named` gave."""
    stacks = _written(_stacks(capture, name), ("stack", "size"))
    samples = _written(_samples(capture, name, labels), ("time",))
    row = _about(capture, name, title, labels) | {"samples_bytes": len(samples), "stacks_bytes": len(stacks)}
    captures = _written(pa.table({key: _column(value) for key, value in row.items()}), ())
    return {"stacks": stacks, "samples": samples, "captures": captures}


def _column(value: object) -> pa.Array:
    if isinstance(value, datetime):
        return pa.array([value], _MICROSECONDS)
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), type(None): pa.float64()}
    return pa.array([value], kinds[type(value)])


def _about(capture: Capture, name: str, title: str, labels: Labels) -> dict[str, object]:
    about = capture.about
    assert about.clock is not None
    begin, end = (about.clock.on_wall(int(capture.time[place])) for place in (0, -1))
    return {
        "version": VERSION,
        "capture": name,
        "title": _text(title),
        **{label: _text(value) for label, value in labels._asdict().items()},
        "begin": _moment(begin),
        "end": _moment(end),
        "samples": len(capture),
        "stacks": len(capture.tree.frame),
        "cores": capture.core_count,
        "rate_hz": about.rate_hz,
        "lost": about.lost,
        "throttled": about.throttled,
        "source": _text(about.source),
        "gaps": json.dumps([gap._asdict() for gap in about.gaps]),
    }


def _moment(nanoseconds: int) -> datetime:
    seconds, rest = divmod(nanoseconds, 10**9)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


def _text(value: str) -> str:
    """What Parquet can hold: half a pair of UTF-16 cannot be written."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _same(value: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([_text(value)], pa.string()))


def _chosen(numbers: np.ndarray[tuple[int], np.dtype[np.int64]], names: tuple[str, ...] | list[str]) -> pa.Array:
    """Only the names that are used, so that none is stored for nothing."""
    used, place = np.unique(numbers, return_inverse=True)
    texts: dict[str, int] = {}
    number = np.array([texts.setdefault(_text(names[each]), len(texts)) for each in used.tolist()], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(number[place]), pa.array(list(texts), pa.string()))


def _samples(capture: Capture, name: str, labels: Labels) -> pa.Table:
    clock, count = capture.about.clock, len(capture)
    assert clock is not None
    wall = capture.time.astype(np.int64) + (clock.wall_ns - clock.sample_ns)
    return pa.table(
        {
            "capture": _same(name, count),
            **{label: _same(value, count) for label, value in labels._asdict().items()},
            "time": pa.array(wall // 1000, pa.int64()).cast(_MICROSECONDS),
            "core": pa.array(capture.cpu),
            "cgroup": _chosen(capture.cgroup.astype(np.int64), capture.cgroups),
            "event": _chosen(capture.event.astype(np.int64), capture.events),
            "in_kernel": pa.array(in_kernel(capture.mode)),
            "idle": pa.array(capture.idle),
            "weight": pa.array(np.ones(count, np.uint64) if capture.weight is None else capture.weight),
            "stack": pa.array(capture.node),
        }
    )


def _stacks(capture: Capture, name: str) -> pa.Table:
    tree, named = capture.tree, len(capture.frame_names)
    frames = np.where(tree.frame < named, tree.frame, named).astype(np.int64)
    return pa.table(
        {
            "capture": _same(name, len(frames)),
            "stack": pa.array(np.arange(len(frames), dtype=np.uint32)),
            "size": pa.array(tree.size),
            "again": pa.array(called_again(tree)),
            "function": _chosen(frames, [*capture.frame_names, ALL[0]]),
            "file": _chosen(frames, [*capture.frame_files, ALL[1]]),
        }
    )


def _written(table: pa.Table, steps: tuple[str, ...]) -> bytes:
    """The same bytes for the same table, by one version of pyarrow. `steps`: columns stored as differences."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({"zombiescope": SCHEMA}),
        sink,
        row_group_size=_ROWS_OF_A_GROUP,
        compression="zstd",
        compression_level=3,
        store_schema=False,
        write_statistics=table.num_rows > 1,
        use_dictionary=[each for each in table.column_names if each not in steps],
        column_encoding=dict.fromkeys(steps, "DELTA_BINARY_PACKED"),
    )
    return bytes(sink.getvalue())
