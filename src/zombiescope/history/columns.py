# SPDX-License-Identifier: Apache-2.0
"""One series of some samples in few bytes: whole numbers as differences, others as they are, bytes of equal weight together, then
deflated. A missing value is not a zero: it is kept as such."""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise

_WHOLE, _REAL = b"i", b"f"
_LARGEST_WHOLE = 1 << 53
_MOST_BYTES = 8 * 100_000
"""An hour of samples: 3,600 at one per second."""


def pack(values: Sequence[float | None]) -> bytes:
    if all(value is not None and abs(value) < _LARGEST_WHOLE and float(value).is_integer() for value in values):
        whole = [int(value) for value in values if value is not None]
        kind, numbers = (
            _WHOLE,
            array("q", [*whole[:1], *(later - earlier for earlier, later in pairwise(whole))]).tobytes(),
        )
    else:
        kind, numbers = _REAL, array("d", [math.nan if value is None else value for value in values]).tobytes()
    return kind + zlib.compress(b"".join(numbers[i::8] for i in range(8)), 6)


def unpack(packed: bytes) -> list[float | None]:
    """Raises ValueError for what `pack` did not make."""
    unpacker = zlib.decompressobj()
    try:
        shuffled = unpacker.decompress(packed[1:], _MOST_BYTES)
    except (zlib.error, TypeError) as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError("cut short, or more than an hour can hold")
    count, rest = divmod(len(shuffled), 8)
    if rest:
        raise ValueError("not a whole number of values")
    numbers = bytearray(len(shuffled))
    for i in range(8):
        numbers[i::8] = shuffled[i * count : (i + 1) * count]
    if packed[:1] == _WHOLE:
        whole = array("q")
        whole.frombytes(bytes(numbers))
        return list(accumulate(whole))
    if packed[:1] != _REAL:
        raise ValueError("of a kind we do not know")
    real = array("d")
    real.frombytes(bytes(numbers))
    return [None if math.isnan(value) else value for value in real]
