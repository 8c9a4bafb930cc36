# SPDX-License-Identifier: Apache-2.0
"""Two flame graphs of different captures laid over each other: frames are the same when function and file are."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from zombiescope.profiling.capture import Capture
from zombiescope.profiling.flame_graph import FlameGraph

Key = tuple[str, str]


def compare(before: tuple[Capture, FlameGraph], after: tuple[Capture, FlameGraph]) -> tuple[FlameGraph, list[Key]]:
    """One graph with both counts, and the frames that its numbers mean. Boxes only the earlier one had are kept with a zero."""
    frames: dict[Key, int] = {}
    boxes: dict[tuple[int, int], int] = {}
    rows: list[list[int]] = []
    for side, (capture, graph) in enumerate((after, before)):
        place: dict[int, int] = {}
        for entry, (parent, frame) in enumerate(zip(graph.parent.tolist(), graph.frame.tolist(), strict=True)):
            key = _key(capture, frame)
            number = frames.setdefault(key, len(frames))
            above = place.get(parent, -1)
            box = boxes.setdefault((above, number), len(rows))
            if box == len(rows):
                rows.append([above, rows[above][1] + 1 if above >= 0 else 0, number, 0, 0, 0])
            place[entry] = box
            rows[box][3 if side == 0 else 5] += int(graph.total[entry])
            rows[box][4] += int(graph.self[entry]) if side == 0 else 0
    columns = np.array(_parents_first(rows), np.int64).reshape(-1, 6).T
    return (
        FlameGraph(
            columns[0], columns[1], columns[2].astype(np.uint32), columns[3], columns[4], columns[5], before[1].samples
        ),
        list(frames),
    )


def _key(capture: Capture, frame: int) -> Key:
    return (
        ("all", "") if frame >= len(capture.frame_names) else (capture.frame_names[frame], capture.frame_files[frame])
    )


def _parents_first(rows: list[list[int]]) -> list[list[int]]:
    """By depth, as every flame graph here is: siblings stay together."""
    children: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        children[row[0]].append(index)
    ordered: list[list[int]] = []
    level = [(-1, index) for index in children[-1]]
    while level:
        following: list[tuple[int, int]] = []
        for above, index in level:
            following += [(len(ordered), child) for child in children[index]]
            ordered.append([above, *rows[index][1:]])
        level = following
    return ordered
