# SPDX-License-Identifier: Apache-2.0
"""A heat map as SVG: seconds to the right, the parts of a second upwards, a strip a core. No script, no outside address."""

from __future__ import annotations

from xml.sax.saxutils import escape

from zombiescope.presenters.colours import css, heat
from zombiescope.profiling.arrays import I64
from zombiescope.profiling.heat_map import HeatMap

_LEFT, _TOP, _GAP = 76, 44, 26
_MOST_WIDTH = 1600
_SCALE_STEPS, _SCALE_WIDE = 8, 16


def render_heat_map_svg(found: HeatMap, title: str, *, per_core: bool = True) -> str:
    strips = (
        [(f"core {cpu}", found.counts[index]) for index, cpu in enumerate(found.cpus)]
        if per_core
        else [("all cores", found.summed())]
    )
    wide = max(2, min(14, _MOST_WIDTH // max(1, found.columns)))
    high = 3 if found.rows > 25 else 6
    strip_height = found.rows * high
    width = _LEFT + found.columns * wide + 24
    height = _TOP + len(strips) * (strip_height + _GAP) + 34
    hottest = max([1, *(int(counts.max(initial=0)) for _, counts in strips)])
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
    for number, (name, counts) in enumerate(strips):
        top = _TOP + number * (strip_height + _GAP)
        parts += _strip(name, counts, (top, wide, high), hottest)
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
        colour = css(heat((step + 1) / _SCALE_STEPS))
        parts.append(f'<rect x="{left + step * _SCALE_WIDE}" y="9" width="{_SCALE_WIDE}" height="12" fill="{colour}"/>')
    parts.append(f'<text x="{left + _SCALE_STEPS * _SCALE_WIDE + 4}" y="19" fill="#555555">{hottest}</text>')
    return parts


def _strip(name: str, counts: I64, place: tuple[int, int, int], hottest: int) -> list[str]:
    top, wide, high = place
    columns, rows = counts.shape
    parts = [
        f'<text x="{_LEFT - 8}" y="{top + rows * high / 2 + 4:.0f}" text-anchor="end" fill="#111111">{escape(name)}</text>',
        f'<rect x="{_LEFT}" y="{top}" width="{columns * wide}" height="{rows * high}" fill="#f4f4f4"/>',
    ]
    by_colour: dict[str, list[str]] = {}
    for column, cells in enumerate(counts.tolist()):
        for row, value in enumerate(cells):
            if value:
                y = top + (rows - 1 - row) * high
                by_colour.setdefault(css(heat(value / hottest)), []).append(
                    f"M{_LEFT + column * wide} {y}h{wide}v{high}h-{wide}z"
                )
    parts += [f'<path fill="{colour}" d="{"".join(paths)}"/>' for colour, paths in by_colour.items()]
    return parts


def _axis(found: HeatMap, bottom: int, wide: int) -> list[str]:
    step = next((step for step in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600) if step * wide >= 50), 1200)
    parts = []
    for column in range(0, found.columns, step):
        at = found.begin + column * found.column_seconds
        parts.append(f'<text x="{_LEFT + column * wide}" y="{bottom + 14}" fill="#555555">{at:g} s</text>')
    return parts
