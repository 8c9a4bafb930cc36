# SPDX-License-Identifier: Apache-2.0
"""A flame graph as SVG: a still picture with a tooltip on every box. No script, no outside address."""

from __future__ import annotations

from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from zombiescope.profiler.drawing.colours import change, css, frame
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


def boxes(graph: FlameGraph, frames: list[Key]) -> list[Box]:
    """Parents before children. With two counts, the wider of both shares decides the width."""
    totals, numbers = graph.total.tolist(), graph.frame.tolist()
    befores = graph.before.tolist() if graph.before is not None else [None] * len(totals)
    shares = (
        graph.shares().tolist() if graph.before is None else np.maximum(graph.shares(), graph.shares_before()).tolist()
    )
    children = graph.children()
    depths, owns = graph.depth.tolist(), graph.self.tolist()
    placed: list[Box] = []
    waiting = [(0, 0.0, 1.0)] if totals else []
    while waiting:
        entry, left, width = waiting.pop()
        number = numbers[entry]
        key = frames[number] if number < len(frames) else ALL
        placed.append(Box(depths[entry], left, width, key, totals[entry], owns[entry], befores[entry]))
        inner = sorted(children[entry], key=lambda child: (-shares[child], child))
        needed = sum(shares[child] for child in inner)
        scale = width / max(shares[entry], needed) if inner else 0.0
        at = left
        for child in inner:
            waiting.append((child, at, shares[child] * scale))
            at += shares[child] * scale
    return placed


_WIDTH, _ROW, _TOP, _LETTER = 1400, 18, 46, 6.6
_NARROWEST = 0.3


def render_flame_graph_svg(graph: FlameGraph, frames: list[Key], title: str, note: str = "") -> str:
    placed = boxes(graph, frames)
    deepest = max((box.depth for box in placed), default=0)
    height = _TOP + (deepest + 1) * _ROW + 12
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
            'font-family="monospace" font-size="11" role="img">'
        ),
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="20" font-size="15" font-family="sans-serif">{escape(title)}</text>',
        f'<text x="10" y="37" fill="#555555" font-family="sans-serif">{escape(note)}</text>',
    ]
    parts += [_drawn(box, graph) for box in placed if box.width * (_WIDTH - 20) >= _NARROWEST]
    parts.append("</svg>\n")
    return "\n".join(parts)


def _drawn(box: Box, graph: FlameGraph) -> str:
    left, width = 10 + box.left * (_WIDTH - 20), box.width * (_WIDTH - 20)
    top = _TOP + box.depth * _ROW
    colour = (
        frame(*box.key)
        if box.before is None
        else change(box.before / max(1, graph.before_samples), box.total / max(1, graph.samples))
    )
    parts = [
        f"<g><title>{escape(_tip(box, graph))}</title>",
        f'<rect x="{left:.2f}" y="{top}" width="{max(0.3, width - 0.5):.2f}" height="{_ROW - 1}" fill="{css(colour)}"/>',
    ]
    room = int((width - 6) / _LETTER)
    if room >= 3:
        name = box.key[0]
        text = name if len(name) <= room else name[: room - 1] + "…"
        parts.append(f'<text x="{left + 3:.2f}" y="{top + 13}">{escape(text)}</text>')
    return "".join([*parts, "</g>"])


def _tip(box: Box, graph: FlameGraph) -> str:
    share = 100 * box.total / max(1, graph.samples)
    text = f"{box.key[0]}{f' ({box.key[1]})' if box.key[1] else ''}: {box.total:,} samples, {share:.2f} %"
    if box.before is not None:
        text += f"; before {100 * box.before / max(1, graph.before_samples):.2f} %"
    return text
