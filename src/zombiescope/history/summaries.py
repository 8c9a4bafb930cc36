# SPDX-License-Identifier: Apache-2.0
"""An hour in twelve slots: the lowest and the highest value of every series in each. A month is read from these alone."""

import math
import zlib
from array import array
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

SLOT_SECONDS, SLOTS = 300.0, 12
_HOUR = 3600.0
_MOST_SERIES = 20_000


def shuffled(numbers: bytes) -> bytes:
    """The first bytes of all numbers of eight, then the second ones: they pack better."""
    return b"".join(numbers[i::8] for i in range(8))


def unshuffled(content: bytes) -> bytes:
    count, rest = divmod(len(content), 8)
    if rest:
        raise ValueError("not a whole number of values")
    numbers = bytearray(len(content))
    for i in range(8):
        numbers[i::8] = content[i * count : (i + 1) * count]
    return bytes(numbers)


def inflated(packed: bytes, most: int) -> bytes:
    """Raises ValueError for what is damaged, and for more than it may hold."""
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, most)
    except (zlib.error, TypeError) as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError("cut short, or more than an hour can hold")
    return content


class Slots(NamedTuple):
    """By series, twelve values each; NaN where nothing is known."""

    low: "dict[int, array[float]]"
    high: "dict[int, array[float]]"


def pack_summary(times: Sequence[float], columns: Mapping[int, Sequence[float | None]]) -> bytes:
    """`times`: seconds since the epoch, of one hour."""
    slots = [int(at % _HOUR // SLOT_SECONDS) for at in times]
    ids, values = array("I"), array("d")
    for series, column in columns.items():
        low, high = array("d", [math.nan] * SLOTS), array("d", [math.nan] * SLOTS)
        for slot, value in zip(slots, column, strict=True):
            if value is not None and not low[slot] <= value:  # also where it is not a number yet
                low[slot] = value
            if value is not None and not high[slot] >= value:
                high[slot] = value
        ids.append(series)
        values += low + high
    return len(ids).to_bytes(4, "little") + zlib.compress(ids.tobytes() + shuffled(values.tobytes()), 6)


def unpack_summary(packed: bytes, wanted: Container[int] | None = None) -> Slots:
    """`wanted` limits the series. Raises ValueError for what `pack_summary` did not make."""
    number = int.from_bytes(packed[:4], "little")
    size = number * (4 + 2 * SLOTS * 8)
    if number > _MOST_SERIES:
        raise ValueError("of more series than an hour has")
    content = inflated(packed[4:], size + 1)
    if len(content) != size:
        raise ValueError("not as long as it says")
    ids, values = array("I", content[: 4 * number]), array("d", unshuffled(content[4 * number :]))
    low, high = {}, {}
    for place, series in enumerate(ids):
        if wanted is None or series in wanted:
            begin = 2 * SLOTS * place
            low[series] = values[begin : begin + SLOTS]
            high[series] = values[begin + SLOTS : begin + 2 * SLOTS]
    return Slots(low, high)
