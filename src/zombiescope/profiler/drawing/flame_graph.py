# SPDX-License-Identifier: Apache-2.0
"""A flame graph as SVG: a still picture with a tooltip on every box. No script, no outside address."""

from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from zombiescope.profiler.drawing.colours import GREW, KINDS, SAME, SHRANK, Rgb, change, css, frame
from zombiescope.profiler.drawing.scene import LETTER, wrapped
from zombiescope.profiler.stacks.flame_graph import ALL, FlameGraph, Key


class Box(NamedTuple):
    depth: int
    left: float
    """Share of the whole width, 0 to 1."""
    width: float
    key: Key
    total: int
    own: int
    before: int | None


def boxes(graph: FlameGraph, frames: Sequence[Key]) -> list[Box]:
    """Parents before children. With two counts, the wider of both shares decides the width."""
    totals, numbers = graph.total.tolist(), graph.frame.tolist()
    befores = graph.before.tolist() if graph.before is not None else [None] * len(totals)
    shares = (
        graph.shares().tolist() if graph.before is None else np.maximum(graph.shares(), graph.shares_before()).tolist()
    )
    children, depths, owns = graph.children(), graph.depth.tolist(), graph.self.tolist()
    placed: list[Box] = []
    waiting = [(0, 0.0, 1.0)] if totals else []
    while waiting:
        entry, left, width = waiting.pop()
        key = frames[numbers[entry]] if numbers[entry] < len(frames) else ALL
        placed.append(Box(depths[entry], left, width, key, totals[entry], owns[entry], befores[entry]))
        inner = sorted(children[entry], key=lambda child: (-shares[child], child))
        scale = width / max(shares[entry], sum(shares[child] for child in inner)) if inner else 0.0
        for child in inner:
            waiting.append((child, left, shares[child] * scale))
            left += shares[child] * scale
    return placed


_WIDTH, _ROW, _LINE, _LETTER = 1400, 18, 17, 6.6
_SIDE, _NARROWEST, _TICKS = 10, 0.3, 10


Sides = tuple[str, str]
_IN_TIME: Sides = ("before", "after")
BETWEEN_NODES: Sides = ("there", "here")
"""What a comparison calls what it compares with, and what it is about."""


def render_flame_graph_svg(graph: FlameGraph, frames: Sequence[Key], title: str, sides: Sides = _IN_TIME) -> str:
    placed = boxes(graph, frames)
    head, top = _head(graph, title, sides)
    height = top + (max((box.depth for box in placed), default=0) + 1) * _ROW + 12
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="11" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        *head,
    ]
    parts += [_drawn(box, graph, top, sides) for box in placed if box.width * (_WIDTH - 2 * _SIDE) >= _NARROWEST]
    return "\n".join([*parts, "</svg>\n"])


def _head(graph: FlameGraph, title: str, sides: Sides) -> tuple[list[str], int]:
    """Title, what a box is, what its colour means, the axis; and where the boxes begin."""
    at, parts = 20, []
    for line in wrapped(title, _WIDTH - 2 * _SIDE):
        parts.append(f'<text x="{_SIDE}" y="{at}" font-size="13" font-weight="bold" {_SANS}>{escape(line)}</text>')
        at += _LINE
    parts.append(f'<text x="{_SIDE}" y="{at}" fill="#555555" {_SANS}>{escape(_how(graph, sides))}</text>')
    at += _LINE
    x = _SIDE
    for words, colour in _legend(graph, sides):
        parts += [
            f'<rect x="{x}" y="{at - 10}" width="14" height="12" fill="{css(colour)}"/>',
            f'<text x="{x + 19}" y="{at}" fill="#555555" {_SANS}>{escape(words)}</text>',
        ]
        x += 19 + LETTER * len(words) + 18
    if graph.before is not None:
        return parts, at + 9  # widths are of two ranges at once: no axis fits both
    at += _LINE + 3
    for tick in range(_TICKS + 1):
        x = round(_SIDE + tick * (_WIDTH - 2 * _SIDE) / _TICKS)
        anchor = "start" if not tick else "end" if tick == _TICKS else "middle"
        share = f"{100 * tick // _TICKS} %"
        parts += [
            f'<text x="{x}" y="{at}" text-anchor="{anchor}" fill="#555555" {_SANS}>{share}</text>',
            f'<rect x="{min(x, _WIDTH - _SIDE - 1)}" y="{at + 3}" width="1" height="4" fill="#555555"/>',
        ]
    return parts, at + 9


_SANS = 'font-family="sans-serif"'


def _how(graph: FlameGraph, sides: Sides) -> str:
    below = "A function calls what stands below it."
    if graph.before is None:
        return f"{graph.samples:,} samples. A box is as wide as its share of them. {below}"
    counted = f"{graph.before_samples:,} samples {sides[0]}, {graph.samples:,} {sides[1]}."
    return f"{counted} A box is as wide as the larger of its two shares. {below}"


def _legend(graph: FlameGraph, sides: Sides) -> list[tuple[str, Rgb]]:
    if graph.before is not None:
        return [(f"larger share than {sides[0]}", GREW), ("the same", SAME), ("smaller share", SHRANK)]
    return [
        ("kernel", KINDS["kernel"]),
        ("user code", KINDS["user"]),
        ("thread", KINDS["thread"]),
        ("no name known", KINDS["unknown"]),
    ]


def _drawn(box: Box, graph: FlameGraph, above: int, sides: Sides) -> str:
    left, width = _SIDE + box.left * (_WIDTH - 2 * _SIDE), box.width * (_WIDTH - 2 * _SIDE)
    top = above + box.depth * _ROW
    colour = (
        frame(*box.key)
        if box.before is None
        else change(box.before / max(1, graph.before_samples), box.total / max(1, graph.samples))
    )
    parts = [
        f"<g><title>{escape(_tip(box, graph, sides))}</title>",
        f'<rect x="{left:.2f}" y="{top}" width="{max(0.3, width - 0.5):.2f}" height="{_ROW - 1}" fill="{css(colour)}"/>',
    ]
    room = int((width - 6) / _LETTER)
    if room >= 3:
        text = box.key[0] if len(box.key[0]) <= room else box.key[0][: room - 1] + "…"
        parts.append(f'<text x="{left + 3:.2f}" y="{top + 13}">{escape(text)}</text>')
    return "".join([*parts, "</g>"])


def _tip(box: Box, graph: FlameGraph, sides: Sides) -> str:
    share = 100 * box.total / max(1, graph.samples)
    text = f"{box.key[0]}{f' ({box.key[1]})' if box.key[1] else ''}: {box.total:,} samples, {share:.2f} %"
    if box.before is not None:
        text += f"; {sides[0]} {100 * box.before / max(1, graph.before_samples):.2f} %"
    return text
