# SPDX-License-Identifier: Apache-2.0
"""A capture as one file and back: columns narrowed, differenced where they ascend, bytes sorted by significance, deflated.

`ZSCAPT01`, the length of a JSON heading, the heading, the columns. Every column has its checksum; nothing is trusted on the
way in.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from zombiescope.errors import KEPT_BY_NEWER, UnknownFormatError
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import quiet
from zombiescope.profiler.formats.capture_heading import (
    DAMAGE,
    PROBED_BYTES,
    TEXTS,
    Ascending,
    Packed,
    Plane,
    checked,
    column,
    columns_of,
    frame_texts,
    pieces_of,
    read_heading,
    texts_in,
)
from zombiescope.profiler.stacks.arrays import U32, Numbers, dense_ids
from zombiescope.profiler.stacks.call_tree import ROOT_FRAME, CallTree
from zombiescope.profiler.stacks.capture import About, BrokenCapture, Capture, Clock

_MOST_ROWS, _MOST_TEXT_BYTES = 1 << 28, 256 << 20
_MOST_GAPS, _MOST_RATE_HZ = 1000, 1e9
_WIDTHS = ("u1", "u2", "u4", "u8")


def encode(capture: Capture) -> Iterator[bytes]:
    """The file, in pieces."""
    columns = [_pack(name, values, ascends=name == "time") for name, values in _columns(capture)]
    texts = {
        **frame_texts(capture.frame_names, capture.frame_files),
        "comms": list(capture.comms),
        "events": list(capture.events),
        "cgroups": list(capture.cgroups),
    }
    return pieces_of(capture.about, columns, texts)


def _columns(capture: Capture) -> Iterator[tuple[str, Numbers]]:
    for name in ("time", "cpu", "mode", "event"):
        yield name, getattr(capture, name)
    yield "idle", capture.idle.view(np.uint8)
    yield "node", capture.node
    threads, chosen = dense_ids(
        capture.pid.astype(np.uint64) << np.uint64(32) | (capture.tid ^ (capture.comm << np.uint32(24)))
    )
    # One number for who ran: rows of the same thread share pid, tid, name and (mostly) cgroup.
    if np.array_equal(capture.tid[chosen][threads], capture.tid) and np.array_equal(
        capture.comm[chosen][threads], capture.comm
    ):
        yield "thread", threads
    else:
        chosen = np.arange(len(capture.time))
    for name in ("pid", "tid", "comm"):
        yield name, getattr(capture, name)[chosen]
    yield "cgroup", capture.cgroup
    if capture.weight is not None:
        yield "weight", capture.weight
    yield "tree_frame", capture.tree.frame[1:]
    yield "tree_rest", _rests(capture.tree.size)


def _pack(name: str, values: Numbers, *, ascends: bool) -> Packed:
    ends = None
    if ascends:
        ends = Ascending(int(values[0]), int(values[-1])) if len(values) else Ascending(0, 0)
        values = np.diff(values, prepend=values[:1])
    largest = int(values.max(initial=0))
    narrow = values.astype(next(width for width in _WIDTHS if largest <= np.iinfo(width).max))
    planes = np.ascontiguousarray(narrow.view(np.uint8).reshape(-1, narrow.dtype.itemsize).T)
    return column(name, len(values), [Plane(plane.data, _counts(plane)) for plane in planes], ends)


def _counts(plane: Numbers) -> list[int]:
    middle = max(0, len(plane) - PROBED_BYTES) // 2
    return [int(count) for count in np.bincount(plane[middle : middle + PROBED_BYTES], minlength=256).tolist()]


def _rests(sizes: U32) -> U32:
    """For every node: 0 for a leaf, else 1 and the nodes below that are not below its first child. Mostly 1: stacks are chains."""
    rests = sizes.copy()
    rests[:-1] -= np.where(sizes[:-1] > 1, sizes[1:], np.uint32(1))
    rests[-1:] -= np.uint32(1)
    return rests


def _sizes(rests: U32) -> U32:
    """Backwards: a node is as large as its first child and its rest, and begins anew at a leaf."""
    backwards = np.cumsum(rests[::-1], dtype=np.uint64)
    leaves = np.flatnonzero(rests[::-1] == 0)
    if len(rests) and (not len(leaves) or leaves[0]):
        raise ValueError("the tree does not end in a leaf")
    sizes = backwards - np.repeat(backwards[leaves], np.diff(leaves, append=len(rests))) + np.uint64(1)
    if len(sizes) and int(sizes.max()) > len(rests):
        raise ValueError("the tree does not hold together")
    return sizes[::-1].astype(np.uint32)


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except UnknownFormatError as error:
        raise BrokenCapture(quiet(str(error)), KEPT_BY_NEWER) from error
    except DAMAGE as error:
        raise BrokenCapture(f"the stored capture is damaged ({quiet(str(error)[:200])})", "import it again") from error


@_damage_told()
def decode(raw: bytes | memoryview) -> Capture:
    buffer = memoryview(raw)
    heading, at = read_heading(buffer)
    columns, texts = dict[str, Numbers](), dict[str, Any]()
    for entry, packed in columns_of(buffer, heading, at):
        if entry["name"] == TEXTS:
            texts = texts_in(packed, entry, _MOST_TEXT_BYTES)
        else:
            columns[entry["name"]] = _unpack(checked(packed, entry), entry)
    return _capture(heading["about"], columns, texts)


@_damage_told()
def read_about(raw: bytes | memoryview) -> About:
    """The heading alone: cheap, for lists."""
    return _about(read_heading(memoryview(raw))[0]["about"])


@_damage_told()
def read_names(raw: bytes | memoryview) -> tuple[str, ...]:
    """Of its functions alone, without the samples."""
    buffer = memoryview(raw)
    for entry, packed in columns_of(buffer, *read_heading(buffer)):
        if entry["name"] == TEXTS:
            return _quiet_all(texts_in(packed, entry, _MOST_TEXT_BYTES)["names"])
    return ()


def _unpack(packed: memoryview, entry: dict[str, Any]) -> Numbers:
    rows, width = int(entry["rows"]), int(entry["width"])
    if not 0 <= rows <= _MOST_ROWS or width not in (1, 2, 4, 8):
        raise ValueError(f"column {entry['name']} cannot have {rows} rows of {width} bytes")
    bits = -zlib.MAX_WBITS if entry.get("form") == "deflate" else zlib.MAX_WBITS
    plain = zlib.decompressobj(bits).decompress(packed, rows * width) if rows else b""
    if len(plain) != rows * width:
        raise ValueError(f"column {entry['name']} is shorter than it says")
    planes = np.frombuffer(plain, np.uint8).reshape(width, rows)
    values = np.ascontiguousarray(planes.T).reshape(-1).view(f"<u{width}")
    return np.cumsum(values, dtype=np.uint64) + np.uint64(int(entry["first"])) if entry["ascends"] else values


def _clock(document: dict[str, Any]) -> Clock:
    on_log = document.get("log_ns")
    return Clock(int(document["wall_ns"]), int(document["sample_ns"]), int(on_log) if isinstance(on_log, int) else None)


def _about(document: dict[str, Any]) -> About:
    clock = document["clock"]
    return About(
        _text(document["source"]) or "",
        _text(document["host"]),
        _text(document["kernel"]),
        None if clock is None else _clock(clock),
        _rate(document["rate_hz"]),
        int(document["lost"]),
        int(document["throttled"]),
        bool(document["has_time"]),
        tuple(
            Gap(*(quiet(str(gap[name])) for name in ("fact", "reason", "hint")))
            for gap in document["gaps"][:_MOST_GAPS]
        ),
        str(document.get("ring", "")),
        int(document.get("serial", 0)),
        quiet(str(document.get("boot", ""))),
    )


def _text(value: Any) -> str | None:
    """Another's file: what a terminal would obey is escaped once more."""
    return None if value is None else quiet(str(value))


def _rate(value: Any) -> float | None:
    """None also for one that cannot be."""
    return float(value) if value is not None and 0 < float(value) <= _MOST_RATE_HZ else None


def _quiet_all(texts: Any) -> tuple[str, ...]:
    return tuple(quiet(str(text)) for text in texts)


def _capture(about: dict[str, Any], columns: dict[str, Numbers], texts: dict[str, Any]) -> Capture:
    who = columns.get("thread")
    by_thread = {
        name: (columns[name] if who is None else columns[name][who]).astype(np.uint32)
        for name in ("pid", "tid", "comm")
    }
    frames = np.concatenate([np.array([ROOT_FRAME], np.uint32), columns["tree_frame"].astype(np.uint32)])
    files = _quiet_all(texts["files"])
    return _whole(
        Capture(
            _about(about),
            columns["time"].astype(np.uint64),
            columns["cpu"].astype(np.uint16),
            by_thread["pid"],
            by_thread["tid"],
            columns["mode"].astype(np.uint8),
            columns["event"].astype(np.uint8),
            by_thread["comm"],
            columns["cgroup"].astype(np.uint32),
            columns["idle"].astype(bool),
            columns["node"].astype(np.uint32),
            columns["weight"].astype(np.uint64) if "weight" in columns else None,
            CallTree(
                frames,
                _sizes(columns["tree_rest"]) if "tree_rest" in columns else columns["tree_size"].astype(np.uint32),
            ),
            _quiet_all(texts["names"]),
            tuple(files[number] for number in texts["file_of"]),
            _quiet_all(texts["comms"]),
            _quiet_all(texts["events"]),
            _quiet_all(texts["cgroups"]),
        )
    )


def _whole(capture: Capture) -> Capture:
    """Every number that is an index lies inside what it indexes, so that no question can go astray later."""
    rows, nodes = len(capture.time), len(capture.tree.frame)
    for name in ("cpu", "pid", "tid", "mode", "event", "comm", "cgroup", "idle", "node"):
        if len(getattr(capture, name)) != rows:
            raise ValueError(f"column {name} has another length than time")
    ends = capture.tree.size.astype(np.int64) + np.arange(nodes) if len(capture.tree.size) == nodes else None
    if ends is None or (nodes and (int(ends.max()) > nodes or int(capture.tree.size.min()) < 1)):
        raise ValueError("the tree does not hold together")
    for values, limit, what in (
        (capture.node, nodes, "node"),
        (capture.tree.frame[1:], len(capture.frame_names), "frame"),
        (capture.comm, len(capture.comms), "comm"),
        (capture.cgroup, len(capture.cgroups), "cgroup"),
        (capture.event, len(capture.events), "event"),
    ):
        if len(values) and int(values.max()) >= limit:
            raise ValueError(f"a {what} is not in its list")
    if len(capture.frame_files) != len(capture.frame_names):
        raise ValueError("frames and files do not match")
    return capture
