# SPDX-License-Identifier: Apache-2.0
"""An hour in twelve slots: the lowest and the highest value of every series in each. A month is read from these alone."""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

SLOT_SECONDS = 300.0
SLOTS = 12
_HOUR = 3600.0
_MOST_SERIES = 20_000
_NAN = math.nan


class Slots(NamedTuple):
    """By series, twelve values each; NaN where nothing is known."""

    low: dict[int, array[float]]
    high: dict[int, array[float]]


def pack_summary(times: Sequence[float], columns: Mapping[int, Sequence[float | None]]) -> bytes:
    """`times`: seconds since the epoch, of one hour."""
    slots = [int(at % _HOUR // SLOT_SECONDS) for at in times]
    ids, values = array("I"), array("d")
    for series, column in columns.items():
        low, high = array("d", [_NAN] * SLOTS), array("d", [_NAN] * SLOTS)
        for slot, value in zip(slots, column, strict=True):
            if value is None:
                continue
            if not low[slot] <= value:  # also where it is not a number yet
                low[slot] = value
            if not high[slot] >= value:
                high[slot] = value
        ids.append(series)
        values += low
        values += high
    content = values.tobytes()
    shuffled = b"".join(content[i::8] for i in range(8))
    return len(ids).to_bytes(4, "little") + zlib.compress(ids.tobytes() + shuffled, 6)


def unpack_summary(packed: bytes, wanted: Container[int] | None = None) -> Slots:
    """`wanted` limits the series. Raises ValueError for what `pack_summary` did not make."""
    number = int.from_bytes(packed[:4], "little")
    size = number * (4 + 2 * SLOTS * 8)
    if number > _MOST_SERIES:
        raise ValueError("of more series than an hour has")
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed[4:], size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(content) != size or not unpacker.eof:
        raise ValueError("cut short, or longer than it says")
    ids, values = array("I"), array("d")
    ids.frombytes(content[: 4 * number])
    shuffled = content[4 * number :]
    count = 2 * SLOTS * number
    plain = bytearray(len(shuffled))
    for i in range(8):
        plain[i::8] = shuffled[i * count : (i + 1) * count]
    values.frombytes(plain)
    low, high = {}, {}
    for place, series in enumerate(ids):
        if wanted is not None and series not in wanted:
            continue
        begin = 2 * SLOTS * place
        low[series] = values[begin : begin + SLOTS]
        high[series] = values[begin + SLOTS : begin + 2 * SLOTS]
    return Slots(low, high)
