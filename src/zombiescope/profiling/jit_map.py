# SPDX-License-Identifier: Apache-2.0
"""Names of code made while running: `/tmp/perf-PID.map`, one `START SIZE NAME` a line, hexadecimal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zombiescope.facts.names import shown
from zombiescope.profiling.arrays import I64, U64

_MOST_LINES = 2_000_000


class JitMap(NamedTuple):
    starts: U64
    ends: U64
    names: tuple[bytes, ...]

    def find(self, addresses: U64) -> I64:
        if not len(self.starts):
            return np.full(len(addresses), -1, np.int64)
        found = np.searchsorted(self.starts, addresses, side="right").astype(np.int64) - 1
        inside = (found >= 0) & (addresses < self.ends[np.maximum(found, 0)])
        return np.where(inside, found, -1)

    def name(self, symbol: int) -> str:
        return shown(self.names[symbol])


def read_jit_map(text: bytes) -> JitMap:
    """Later lines win: a compiler reuses addresses. Lines that make no sense are passed over."""
    latest: dict[int, tuple[int, bytes]] = {}
    for line in text.split(b"\n", _MOST_LINES)[:_MOST_LINES]:
        parts = line.split(b" ", 2)
        try:
            start, size = int(parts[0], 16), int(parts[1], 16)
            latest[start] = (start + size, parts[2])
        except (ValueError, IndexError):
            continue
        if not 0 <= start <= start + size < 1 << 64:
            del latest[start]
    starts = sorted(latest)
    return JitMap(
        np.array(starts, np.uint64),
        np.array([latest[start][0] for start in starts], np.uint64),
        tuple(latest[start][1] for start in starts),
    )
