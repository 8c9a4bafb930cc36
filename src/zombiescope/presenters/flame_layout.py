# SPDX-License-Identifier: Apache-2.0
"""Where the boxes of a flame graph lie: children inside their parent, side by side, widest first."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.profiling.flame_graph import FlameGraph

Key = tuple[str, str]
ALL: Key = ("all", "")


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
    totals, parents, numbers = graph.total.tolist(), graph.parent.tolist(), graph.frame.tolist()
    befores = graph.before.tolist() if graph.before is not None else [None] * len(totals)
    shares = _shares(graph)
    children: list[list[int]] = [[] for _ in totals]
    for entry, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(entry)
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


def _shares(graph: FlameGraph) -> list[float]:
    after = (graph.total / max(1, graph.samples)).tolist()
    if graph.before is None:
        return [float(share) for share in after]
    before = (graph.before / max(1, graph.before_samples)).tolist()
    return [max(a, b) for a, b in zip(after, before, strict=True)]
