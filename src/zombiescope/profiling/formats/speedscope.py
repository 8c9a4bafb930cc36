# SPDX-License-Identifier: Apache-2.0
"""speedscope's JSON: sampled profiles with weights, evented ones with openings and closings; written, one profile a core."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiling.broken import BrokenCapture
from zombiescope.profiling.capture import About, Capture
from zombiescope.profiling.formats.stacks import MOST_DEPTH, Frame, Gathering, paths, taken
from zombiescope.profiling.selection import Selection

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_NS = {"nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9}
_CORE = re.compile(r"(?:cpu|core) (\d{1,5})$")


def read_speedscope(content: bytes, source: str) -> Capture:
    try:
        document = json.loads(content)
        frames = [
            (shown(str(frame["name"]).encode()), shown(str(frame.get("file") or "").encode()))
            for frame in document["shared"]["frames"]
        ]
        gathering = Gathering(len(content))
        for profile in document["profiles"]:
            _read_profile(gathering, profile, frames)
    except (KeyError, TypeError, ValueError, IndexError, RecursionError, OverflowError) as error:
        why = f"it is JSON but no speedscope profile ({type(error).__name__}: {error})"
        raise BrokenCapture(why, "is it the right file?") from error
    timed = all(profile["unit"] in _NS for profile in document["profiles"])
    gaps = () if timed else (Gap("samples[].time", "its unit is not a time"),)
    return gathering.capture(About(source, has_time=timed, gaps=gaps))


def _read_profile(gathering: Gathering, profile: dict[str, Any], frames: list[Frame]) -> None:
    scale = _NS.get(profile["unit"], 1)
    name = shown(str(profile.get("name") or "profile").encode())
    core = _CORE.search(name)
    now = float(profile.get("startValue") or 0)
    for stack, weight in _pieces(profile):
        named = [frames[number] for number in stack if 0 <= number < len(frames)]
        comm = named[0][0] if core and named else name
        number = gathering.stack_number(comm, named[1:] if core and named else named)
        length = max(0, round(weight * scale))
        gathering.add(
            number, comm, time=max(0, round(now * scale)), cpu=int(core[1]) if core else 0, weight=max(1, length)
        )
        now += weight


def _pieces(profile: dict[str, Any]) -> Iterator[tuple[list[int], float]]:
    if profile["type"] == "sampled":
        for sampled, weight in zip(profile["samples"], profile["weights"], strict=True):
            yield [int(number) for number in sampled], float(weight)
        return
    if profile["type"] != "evented":
        raise ValueError(f"a profile of type {profile['type']!r}")
    now = float(profile.get("startValue") or 0)
    stack: list[int] = []
    beyond = 0
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
        "exporter": "zombiescope",
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
