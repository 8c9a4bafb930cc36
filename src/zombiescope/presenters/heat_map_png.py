# SPDX-License-Identifier: Apache-2.0
"""A heat map as a PNG picture: a strip a core, a pixel block a cell. Made without an image library."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from zombiescope.presenters.colours import heat
from zombiescope.profiling.heat_map import HeatMap

_GAP, _HIGH, _MOST_WIDTH = 6, 3, 2400


def render_heat_map_png(found: HeatMap, *, per_core: bool = True) -> bytes:
    strips = list(found.counts) if per_core else [found.summed()]
    hottest = max(1, int(max(counts.max(initial=0) for counts in strips)))
    wide = max(1, min(14, _MOST_WIDTH // max(1, found.columns)))
    palette = np.array([(244, 244, 244), *(heat(step / 255) for step in range(1, 256))], np.uint8)
    drawn = []
    for counts in strips:
        levels = np.ceil(counts * (255 / hottest)).astype(np.int64)
        picture = palette[np.repeat(np.repeat(levels.T[::-1], _HIGH, axis=0), wide, axis=1)]
        drawn += [picture, np.full((_GAP, picture.shape[1], 3), 255, np.uint8)]
    return _png(np.concatenate(drawn[:-1]))


def _png(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * 3)], axis=1)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
            (b"IDAT", zlib.compress(lines.tobytes(), 6)),
            (b"IEND", b""),
        )
    )
