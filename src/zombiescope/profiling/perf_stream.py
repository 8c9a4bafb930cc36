# SPDX-License-Identifier: Apache-2.0
"""The records of perf.data as words, unpacked where perf compressed them (`perf record -z`), with what could not be read."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.profiling.arrays import U64
from zombiescope.profiling.perf_file import PerfFile
from zombiescope.profiling.perf_walk import COMPRESSED, COMPRESSED2, Walk

MOST_UNPACKED_BYTES = 2 << 30
_LEAST_ALLOWED_BYTES, _LARGEST_RATIO = 32 << 20, 40
"""`perf record -z` packs to a fifth, an idle machine's samples to a twentieth."""


class Stream(NamedTuple):
    words: U64
    walk: Walk
    gaps: tuple[Gap, ...]


Walker = Callable[[U64, int], Walk]


def plain_stream(
    opened: PerfFile, decompressor: Callable[[], Callable[[bytes], bytes]] | None, walk_records: Walker
) -> Stream:
    data = opened.buffer[opened.data_from : opened.data_to]
    words = np.require(
        np.frombuffer(data[: len(data) & ~7], "<u8"), requirements="A"
    )  # a lying header may begin anywhere
    least = min(event.layout().least_words for event in opened.events.all)
    walk = walk_records(words, least)
    if not walk.is_compressed:
        return Stream(words, walk, _walk_gaps(walk, len(words), opened.data_from) or _rest(opened, len(words) * 8))
    if decompressor is None:
        missing = Gap(
            "samples", "the records are compressed with zstd, which is not to be had here", "pip install zstandard"
        )
        return Stream(words, walk, (missing,))
    unpacked, gaps = _unpack(data, decompressor())
    words = np.require(np.frombuffer(unpacked[: len(unpacked) & ~7], "<u8"), requirements="A")
    walk = walk_records(words, least)
    return Stream(words, walk, (*gaps, *_walk_gaps(walk, len(words), 0)))


def _walk_gaps(walk: Walk, total: int, data_from: int) -> tuple[Gap, ...]:
    if not walk.why:
        return ()
    where = f"at byte {data_from + walk.end * 8:,}: {walk.why}"
    return (Gap("samples", f"{where}; the last {(total - walk.end) * 8:,} bytes are not read", "copy the file again"),)


def _rest(opened: PerfFile, read: int) -> tuple[Gap, ...]:
    """Too little for a record's header: a stream that was cut there."""
    left = opened.data_to - opened.data_from - read
    if not left:
        return ()
    where = f"at byte {opened.data_from + read:,}"
    return (
        Gap("samples", f"{where}: the last {left} bytes are only the beginning of a record", "copy the file again"),
    )


def _unpack(data: memoryview, decompress: Callable[[bytes], bytes]) -> tuple[bytes, tuple[Gap, ...]]:
    """Plain records first, then the unpacked stream: both are whole records, and samples are sorted by time later."""
    plain: list[bytes] = []
    unpacked: list[bytes] = []
    size_unpacked, at = 0, 0
    limit = min(MOST_UNPACKED_BYTES, _LEAST_ALLOWED_BYTES + len(data) * _LARGEST_RATIO)
    while at + 8 <= len(data):
        kind, _, size = struct.unpack_from("<IHH", data, at)
        if size < 8 or at + size > len(data):
            return _joined(plain, unpacked, f"at byte {at:,} of the records: one of {size} bytes that cannot be")
        if kind not in (COMPRESSED, COMPRESSED2):
            plain.append(bytes(data[at : at + size]) if size & 7 == 0 else b"")
        else:
            begin, end = _payload(data, kind, at, size)
            try:
                unpacked.append(decompress(bytes(data[begin:end])))
            except ValueError as error:
                return _joined(plain, unpacked, f"at byte {at:,} of the records: {error}")
            size_unpacked += len(unpacked[-1])
            if size_unpacked > limit:
                return _joined(plain, unpacked, f"it unpacks to more than {limit:,} bytes")
        at += size
    cut = f"at byte {at:,} of the records: one that is cut off" if at < len(data) else ""
    return _joined(plain, unpacked, cut)


def _payload(data: memoryview, kind: int, at: int, size: int) -> tuple[int, int]:
    if kind == COMPRESSED2 and size >= 16:
        length = struct.unpack_from("<Q", data, at + 8)[0]
        return at + 16, at + 16 + min(length, size - 16)
    return at + 8, at + size


def _joined(plain: list[bytes], unpacked: list[bytes], why: str) -> tuple[bytes, tuple[Gap, ...]]:
    gaps = (Gap("samples", f"{why}; what follows is not read", "record it again"),) if why else ()
    return b"".join([*plain, *unpacked]), gaps
