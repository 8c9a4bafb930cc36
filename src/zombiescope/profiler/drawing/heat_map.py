# SPDX-License-Identifier: Apache-2.0
"""A heat map as a picture: seconds to the right, the parts of a second upwards, a strip a core. How hot a cell is, is decided here
once, for SVG, PNG and the terminal; the page does the same with the same colours.

SVG without script or outside address, PNG without an image library.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from zombiescope.profiler.drawing.colours import EMPTY, HEAT, LEVELS, css
from zombiescope.profiler.stacks.arrays import I64
from zombiescope.profiler.stacks.heat_map import HeatMap

_LEFT, _TOP, _GAP = 76, 44, 26
_MOST_WIDTH = 1600
_SCALE_STEPS, _SCALE_WIDE = 8, 16
_PNG_GAP, _PNG_HIGH, _PNG_MOST_WIDTH = 6, 3, 2400


class Strip(NamedTuple):
    name: str
    counts: I64
    """[column, row]"""
    coverage: float | None
    levels: I64
    """Of each cell: 0 for an empty one, 255 for the hottest of all strips."""


def strips_of(found: HeatMap, *, per_core: bool) -> tuple[list[Strip], int]:
    """A strip a core or one for all, and how many samples the hottest cell has."""
    named = (
        [(f"core {cpu}", found.counts[index], found.coverage[index]) for index, cpu in enumerate(found.cpus)]
        if per_core
        else [("all cores", found.summed(), None)]
    )
    hottest = max([1, *(int(counts.max(initial=0)) for _, counts, _ in named)])
    return [Strip(name, counts, coverage, -(-counts * LEVELS // hottest)) for name, counts, coverage in named], hottest


def render_heat_map_svg(found: HeatMap, title: str, *, per_core: bool = True) -> str:
    strips, hottest = strips_of(found, per_core=per_core)
    wide = max(2, min(14, _MOST_WIDTH // max(1, found.columns)))
    high = 3 if found.rows > 25 else 6
    strip_height = found.rows * high
    width = _LEFT + found.columns * wide + 24
    height = _TOP + len(strips) * (strip_height + _GAP) + 34
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="12" role="img">'
        ),
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="15" fill="#111111">{escape(title)}</text>',
        (
            f'<text x="{_LEFT}" y="36" fill="#555555">each column {found.column_seconds:g} s, upwards within it; '
            f"darkest: {hottest} samples in {1000 * found.column_seconds / found.rows:.3g} ms</text>"
        ),
    ]
    parts += _scale(hottest, width)
    for number, strip in enumerate(strips):
        top = _TOP + number * (strip_height + _GAP)
        parts += _strip(strip, top, wide, high)
        parts += _axis(found, top + strip_height, wide)
    parts.append("</svg>\n")
    return "\n".join(parts)


def _scale(hottest: int, width: int) -> list[str]:
    """What the colours mean, at the right of the title."""
    left = max(_LEFT + 420, width - 24 - _SCALE_STEPS * _SCALE_WIDE - 30)
    if left + _SCALE_STEPS * _SCALE_WIDE + 30 > width:
        return []
    parts = [f'<text x="{left - 6}" y="19" text-anchor="end" fill="#555555">1</text>']
    for step in range(_SCALE_STEPS):
        colour = css(HEAT[LEVELS * (step + 1) // _SCALE_STEPS])
        parts.append(f'<rect x="{left + step * _SCALE_WIDE}" y="9" width="{_SCALE_WIDE}" height="12" fill="{colour}"/>')
    parts.append(f'<text x="{left + _SCALE_STEPS * _SCALE_WIDE + 4}" y="19" fill="#555555">{hottest}</text>')
    return parts


def _strip(strip: Strip, top: int, wide: int, high: int) -> list[str]:
    columns, rows = strip.levels.shape
    parts = [
        f'<text x="{_LEFT - 8}" y="{top + rows * high / 2 + 4:.0f}" text-anchor="end" fill="#111111">{escape(strip.name)}</text>',
        f'<rect x="{_LEFT}" y="{top}" width="{columns * wide}" height="{rows * high}" fill="{css(EMPTY)}"/>',
    ]
    by_level: dict[int, list[str]] = {}
    for column, cells in enumerate(strip.levels.tolist()):
        for row, level in enumerate(cells):
            if level:
                y = top + (rows - 1 - row) * high
                by_level.setdefault(level, []).append(f"M{_LEFT + column * wide} {y}h{wide}v{high}h-{wide}z")
    parts += [f'<path fill="{css(HEAT[level])}" d="{"".join(paths)}"/>' for level, paths in by_level.items()]
    return parts


def _axis(found: HeatMap, bottom: int, wide: int) -> list[str]:
    step = next((step for step in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600) if step * wide >= 50), 1200)
    parts = []
    for column in range(0, found.columns, step):
        at = found.begin + column * found.column_seconds
        parts.append(f'<text x="{_LEFT + column * wide}" y="{bottom + 14}" fill="#555555">{at:g} s</text>')
    return parts


def render_heat_map_png(found: HeatMap, *, per_core: bool = True) -> bytes:
    wide = max(1, min(14, _PNG_MOST_WIDTH // max(1, found.columns)))
    palette = np.array([EMPTY, *HEAT[1:]], np.uint8)
    drawn = []
    for strip in strips_of(found, per_core=per_core)[0]:
        picture = palette[np.repeat(np.repeat(strip.levels.T[::-1], _PNG_HIGH, axis=0), wide, axis=1)]
        drawn += [picture, np.full((_PNG_GAP, picture.shape[1], 3), 255, np.uint8)]
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
