# SPDX-License-Identifier: Apache-2.0
"""The Firefox Profiler's processed profile: a thread a core, the call tree as its stack table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from zombiescope.profiling.arrays import dense_ids
from zombiescope.profiling.capture import Capture, is_kernel_file
from zombiescope.profiling.formats.stacks import Taken, parents_of, taken
from zombiescope.profiling.selection import Selection

_PROCESSED_VERSION, _GECKO_VERSION = 47, 27
_KERNEL, _USER, _NAME = 0, 1, 2


def write_firefox(capture: Capture, selection: Selection) -> Iterator[bytes]:
    chosen = taken(capture, selection)
    cpus = np.unique(capture.cpu[chosen.rows]).tolist()
    clock = capture.about.clock
    began = 0 if clock is None else (clock.wall_ns + int(capture.time[0]) - clock.sample_ns) / 1e6
    meta = {
        "interval": 1000 / capture.about.rate_hz if capture.about.rate_hz else 1,
        "startTime": began,
        "processType": 0,
        "product": "zombiescope",
        "stackwalk": 1,
        "debug": False,
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": _PROCESSED_VERSION,
        "symbolicated": True,
        "markerSchema": [],
        "categories": [
            {"name": "Kernel", "color": "orange", "subcategories": ["Other"]},
            {"name": "User", "color": "blue", "subcategories": ["Other"]},
            {"name": "Thread", "color": "grey", "subcategories": ["Other"]},
        ],
    }
    yield json.dumps({"meta": meta, "libs": [], "pages": []}, separators=(",", ":")).encode()[:-1] + b',"threads":['
    parents = parents_of(capture)
    for position, cpu in enumerate(cpus):
        mine = np.flatnonzero(capture.cpu[chosen.rows] == cpu)
        yield json.dumps(_thread(capture, chosen, parents, mine, cpu), separators=(",", ":")).encode()
        yield b"," if position < len(cpus) - 1 else b"]}"


def _thread(capture: Capture, chosen: Taken, parents: list[int], mine: Any, cpu: int) -> dict[str, Any]:
    """Only the nodes on the way to this core's samples, renumbered."""
    wanted: set[int] = set()
    for node in np.unique(chosen.nodes[chosen.node_of[mine]]).tolist():
        while node and node not in wanted:
            wanted.add(node)
            node = parents[node]
    nodes = sorted(wanted)
    place = {node: index for index, node in enumerate(nodes)}
    frames, first = dense_ids(capture.tree.frame[np.array(nodes, np.int64)].astype(np.uint64))
    numbers = capture.tree.frame[np.array(nodes, np.int64)][first].tolist()
    stacks = [place.get(node) for node in chosen.nodes[chosen.node_of[mine]].tolist()]
    times = ((capture.time[chosen.rows[mine]] - capture.time[0]).astype(np.float64) / 1e6).round(4).tolist()
    return {
        "processType": "default",
        "processName": capture.about.host or "host",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": f"cpu {cpu}",
        "isMainThread": True,
        "pid": str(cpu),
        "tid": cpu,
        "samples": {"length": len(stacks), "weightType": "samples", "weight": None, "stack": stacks, "time": times},
        "markers": {"length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": []},
        "stackTable": {
            "length": len(nodes),
            "frame": frames.tolist(),
            "prefix": [place.get(parents[node]) for node in nodes],
        },
        **_frame_tables(capture, numbers),
    }


def _frame_tables(capture: Capture, numbers: list[int]) -> dict[str, Any]:
    """One function a frame; the file is its resource."""
    count = len(numbers)
    nothing: list[None] = [None] * count
    texts = [capture.frame_names[number] for number in numbers]
    files = list(dict.fromkeys(capture.frame_files[number] for number in numbers))
    resource = {file: index for index, file in enumerate(files)}
    kinds = [_kind(capture.frame_files[number]) for number in numbers]
    return {
        "frameTable": {
            "length": count,
            "address": [-1] * count,
            "inlineDepth": [0] * count,
            "category": kinds,
            "subcategory": [0] * count,
            "func": list(range(count)),
            "nativeSymbol": nothing,
            "innerWindowID": nothing,
            "implementation": nothing,
            "line": nothing,
            "column": nothing,
        },
        "funcTable": {
            "length": count,
            "name": list(range(count)),
            "isJS": [False] * count,
            "relevantForJS": [False] * count,
            "resource": [resource[capture.frame_files[number]] for number in numbers],
            "fileName": nothing,
            "lineNumber": nothing,
            "columnNumber": nothing,
        },
        "resourceTable": {
            "length": len(files),
            "lib": [None] * len(files),
            "name": list(range(count, count + len(files))),
            "host": [None] * len(files),
            "type": [1] * len(files),
        },
        "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
        "stringArray": texts + files,
    }


def _kind(file: str) -> int:
    return _NAME if not file else _KERNEL if is_kernel_file(file) else _USER
