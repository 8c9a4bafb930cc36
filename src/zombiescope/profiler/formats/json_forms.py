# SPDX-License-Identifier: Apache-2.0
"""speedscope's JSON: sampled profiles with weights, evented ones with openings and closings; written, one profile a core."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiler.formats.gathering import MOST_DEPTH, Frame, Gathering, Taken, taken
from zombiescope.profiler.stacks.arrays import dense_ids
from zombiescope.profiler.stacks.capture import About, BrokenCapture, Capture, Selection, is_kernel_file
from zombiescope.profiler.stacks.flame_graph import paths, shape_of

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_NS = {"nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9}
_CORE = re.compile(r"(?:cpu|core) (\d{1,5})$")
_OWN = "zombiescope"
_MOST_TICKS = 100_000
"""Into which durations are cut."""
_HALF = 0.500001


def read_speedscope(content: bytes, source: str, *, demangle: bool = True) -> Capture:
    try:
        document = json.loads(content)
        frames = [
            (shown(str(frame["name"]).encode()), shown(str(frame.get("file") or "").encode()))
            for frame in document["shared"]["frames"]
        ]
        gathering = Gathering(len(content), demangle)
        sample_ns, rate = _sample_ns(document), _own_rate(document)
        for profile in document["profiles"]:
            _read_profile(gathering, profile, frames, sample_ns)
    except (KeyError, TypeError, ValueError, IndexError, RecursionError, OverflowError) as error:
        raise BrokenCapture(
            f"it is JSON but no speedscope profile ({type(error).__name__}: {error})", "is it the right file?"
        ) from error
    timed = all(profile["unit"] in _NS for profile in document["profiles"])
    gaps = [] if timed else [Gap("samples[].time", "its unit is not a time")]
    if any(profile["type"] == "evented" and profile["unit"] in _NS for profile in document["profiles"]):
        each = f"{sample_ns / 1e6:,.6f}".rstrip("0").rstrip(".")
        gaps.append(Gap("samples", f"it holds durations, which are counted as samples of {each} ms each"))
    return gathering.capture(About(source, has_time=timed, rate_hz=rate if timed else None, gaps=tuple(gaps)))


def _own_rate(document: dict[str, Any]) -> float | None:
    """Of a profile that we wrote."""
    own = document.get(_OWN)
    rate = own.get("rate_hz") if isinstance(own, dict) else None
    return float(rate) if isinstance(rate, int | float) and 0 < rate < 1e9 else None


def _sample_ns(document: dict[str, Any]) -> float:
    """The time that one sample stands for: the usual one, or of durations the shortest, but at least a part of the whole. What we
    wrote is one sample each, however long the next one took to come."""
    if document.get("exporter") == _OWN:
        return math.inf
    sampled = [np.array(each["weights"], float) * _NS[each["unit"]] for each in _timed(document, "sampled")]
    lasting = np.concatenate([np.zeros(0), *sampled])
    if (lasting > 0).any():
        return float(np.median(lasting[lasting > 0]))
    evented = [
        np.diff([float(event["at"]) for event in each["events"]]) * _NS[each["unit"]]
        for each in _timed(document, "evented")
    ]
    lasting = np.concatenate([np.zeros(0), *evented])
    lasting = lasting[lasting > 0]
    return max(float(lasting.min()), float(lasting.sum()) / _MOST_TICKS) if len(lasting) else 1.0


def _timed(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in document["profiles"] if each["type"] == kind and each["unit"] in _NS]


def _read_profile(gathering: Gathering, profile: dict[str, Any], frames: list[Frame], sample_ns: float) -> None:
    scale = _NS.get(profile["unit"], 1)
    counted_by = sample_ns if profile["unit"] in _NS else 1.0
    name = shown(str(profile.get("name") or "profile").encode())
    core = _CORE.search(name)
    now = float(profile.get("startValue") or 0)
    for stack, weight in _pieces(profile):
        named = [frames[number] for number in stack if 0 <= number < len(frames)]
        comm = named[0][0] if core and named else name
        number = gathering.stack_number(comm, named[1:] if core and named else named)
        # Half a sample more is none: the last one before a pause lasts so long in what we write.
        samples = max(1, math.ceil(weight * scale / counted_by - _HALF))
        gathering.add(number, comm, time=max(0, round(now * scale)), cpu=int(core[1]) if core else 0, weight=samples)
        now += weight


def _pieces(profile: dict[str, Any]) -> Iterator[tuple[list[int], float]]:
    if profile["type"] == "sampled":
        for sampled, weight in zip(profile["samples"], profile["weights"], strict=True):
            yield [int(number) for number in sampled], float(weight)
        return
    if profile["type"] != "evented":
        raise ValueError(f"a profile of type {profile['type']!r}")
    now, beyond = float(profile.get("startValue") or 0), 0
    stack: list[int] = []
    for event in profile["events"]:
        at = float(event["at"])
        if stack and at > now:
            yield stack.copy(), at - now
        now = max(now, at)
        if event["type"] == "O":
            stack.append(int(event["frame"]))
            beyond += len(stack) > MOST_DEPTH
            del stack[MOST_DEPTH:]
        elif beyond:
            beyond -= 1
        elif stack:
            stack.pop()


def write_speedscope(capture: Capture, selection: Selection) -> Iterator[bytes]:
    chosen = taken(capture, selection)
    stacks = [json.dumps(path, separators=(",", ":")) for path in paths(capture, chosen.nodes)]
    shared = [
        {"name": name, "file": file} if file else {"name": name}
        for name, file in zip(capture.frame_names, capture.frame_files, strict=True)
    ]
    heading = {
        "$schema": _SCHEMA,
        "exporter": _OWN,
        _OWN: {"rate_hz": capture.about.rate_hz},
        "name": capture.about.source,
        "shared": {"frames": shared},
    }
    yield json.dumps(heading, separators=(",", ":")).encode()[:-1] + b',"profiles":['
    cpus = np.unique(capture.cpu[chosen.rows]).tolist()
    for position, cpu in enumerate(cpus):
        mine = np.flatnonzero(capture.cpu[chosen.rows] == cpu)
        times = capture.time[chosen.rows[mine]].astype(np.int64) - int(capture.time[0])
        weights = _lasting(capture, times) if capture.about.has_time else chosen.weights[mine].astype(np.int64)
        profile = {
            "type": "sampled",
            "name": f"cpu {cpu}",
            "unit": "nanoseconds" if capture.about.has_time else "none",
            "startValue": int(times[0]),
            "endValue": int(times[0]) + int(weights.sum()),
            "weights": weights.tolist(),
        }
        samples = ",".join([stacks[number] for number in chosen.node_of[mine].tolist()])
        yield json.dumps(profile, separators=(",", ":")).encode()[:-1] + b',"samples":[' + samples.encode() + b"]}"
        yield b"," if position < len(cpus) - 1 else b"]}"


def _lasting(
    capture: Capture, times: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Until the next sample of the core, but no longer than a period and a half: what lies between is not known."""
    lasting = np.diff(times, append=times[-1:])
    if capture.about.rate_hz:
        period = round(1e9 / capture.about.rate_hz)
        lasting = np.minimum(lasting, period * 3 // 2)
        lasting[-1] = period
    return lasting


_PROCESSED_VERSION, _GECKO_VERSION = 47, 27
_KERNEL, _USER, _NAME = 0, 1, 2


def write_firefox(capture: Capture, selection: Selection) -> Iterator[bytes]:
    chosen = taken(capture, selection)
    cpus = np.unique(capture.cpu[chosen.rows]).tolist()
    meta = {
        "interval": 1000 / capture.about.rate_hz if capture.about.rate_hz else 1,
        "startTime": (capture.began or 0) * 1e3,
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
    parents = shape_of(capture.tree).parent.tolist()
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
    return {
        "frameTable": {
            "length": count,
            "address": [-1] * count,
            "inlineDepth": [0] * count,
            "category": [_kind(capture.frame_files[number]) for number in numbers],
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
