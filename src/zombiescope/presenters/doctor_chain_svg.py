# SPDX-License-Identifier: Apache-2.0
"""The chains drawn: a row each, what hurts on the left, its origin on the right. Inline SVG, coloured by the page's own styles."""

from __future__ import annotations

from html import escape

from zombiescope.diagnosis.engine import Diagnosis

_WIDE, _HIGH, _SPACE, _ROW = 190, 58, 30, 84
_MOST_IN_A_ROW = 4


def render_chains(diagnosis: Diagnosis) -> str:
    """Empty where nothing was found. A long chain goes on in the next row."""
    rows = [row for chain in diagnosis.chains for row in _folded(chain)]
    if not rows:
        return ""
    widest = max(len(row) for row, _ in rows)
    width, height = widest * (_WIDE + _SPACE) - _SPACE + 12, len(rows) * _ROW
    parts = [
        (
            f'<svg class="chain" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            'aria-label="what hurts on the left, where it comes from on the right">'
        ),
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
        ),
    ]
    for number, (row, goes_on) in enumerate(rows):
        parts += _row(diagnosis, row, number * _ROW + 8, goes_on=goes_on)
    return "".join([*parts, "</svg>"])


def _folded(chain: tuple[str, ...]) -> list[tuple[tuple[str, ...], bool]]:
    pieces = [chain[start : start + _MOST_IN_A_ROW] for start in range(0, len(chain), _MOST_IN_A_ROW)]
    return [(piece, number < len(pieces) - 1) for number, piece in enumerate(pieces)]


def _row(diagnosis: Diagnosis, row: tuple[str, ...], top: int, *, goes_on: bool) -> list[str]:
    parts = []
    for place, name in enumerate(row):
        finding, left = diagnosis.finding(name), 4 + place * (_WIDE + _SPACE)
        origin = " origin" if name == diagnosis.origin else ""
        parts += [
            f'<g class="node {finding.severity}{origin}"><title>{escape(finding.summary)}</title>',
            f'<rect x="{left}" y="{top}" width="{_WIDE}" height="{_HIGH}" rx="8"/>',
            f'<text x="{left + 12}" y="{top + 24}" class="role">{escape(finding.role)}</text>',
            f'<text x="{left + 12}" y="{top + 44}" class="name">{escape(name)}</text></g>',
        ]
        if place < len(row) - 1 or goes_on:
            middle = top + _HIGH // 2
            end = left + _WIDE + (_SPACE - 4 if place < len(row) - 1 else 8)
            parts.append(f'<path class="link" d="M{left + _WIDE + 2} {middle}H{end}" marker-end="url(#tip)"/>')
    return parts
