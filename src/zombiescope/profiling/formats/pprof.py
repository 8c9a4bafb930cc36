# SPDX-License-Identifier: Apache-2.0
"""pprof's profile.proto, as Go, Google's pprof and many services read and write it. Keeps no time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiling.broken import BrokenCapture
from zombiescope.profiling.capture import About, Capture
from zombiescope.profiling.formats import protobuf
from zombiescope.profiling.formats.stacks import MOST_DEPTH, Frame, Gathering, paths, taken
from zombiescope.profiling.selection import Selection, span_ns

_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_TIME_NANOS, _DURATION_NANOS, _PERIOD_TYPE, _PERIOD = 9, 10, 11, 12
_UNNAMED = "[unknown]"


def looks_like_pprof(content: bytes) -> bool:
    try:
        found = [
            number for number, _ in zip((number for number, _ in protobuf.fields(content)), range(4), strict=False)
        ]
    except ValueError:
        return False
    return bool(found) and set(found) <= set(range(1, 17))


@dataclass(slots=True)
class _Tables:
    texts: list[bytes] = field(default_factory=list)
    functions: dict[int, tuple[int, int]] = field(default_factory=dict)
    locations: dict[int, tuple[list[int], int, int]] = field(default_factory=dict)
    mappings: dict[int, int] = field(default_factory=dict)
    samples: list[bytes] = field(default_factory=list)
    kinds: int = 0

    def text(self, number: int) -> str:
        return shown(self.texts[number]) if 0 <= number < len(self.texts) else ""

    def frames(self, location: int) -> list[Frame]:
        """Innermost first: an inlined call is several frames at one place."""
        functions, mapping, address = self.locations.get(location, ([], 0, 0))
        file = self.text(self.mappings.get(mapping, 0))
        if not functions:
            return [(f"{address:#x}" if address else _UNNAMED, file)]
        named = [self.functions.get(function, (0, 0)) for function in functions]
        return [(self.text(name) or _UNNAMED, file or self.text(path)) for name, path in named]


def read_pprof(content: bytes, source: str) -> Capture:
    try:
        tables = _tables(content)
        gathering = Gathering(len(content))
        known: dict[int, list[Frame]] = {}
        for sample in tables.samples:
            locations, values = _sample(sample)
            for place in locations[:MOST_DEPTH]:
                if place not in known:
                    known[place] = tables.frames(place)
            unfolded = chain.from_iterable(known[place] for place in locations[:MOST_DEPTH])
            frames = list(islice(unfolded, MOST_DEPTH))
            frames.reverse()
            # The first value counts samples by custom; those after it say what they weigh.
            weight = values[0] if values else 1
            if 0 < weight < 1 << 62:
                gathering.add(gathering.stack_number("all threads", frames), "all threads", weight=weight)
    except ValueError as error:
        raise BrokenCapture(f"it is no pprof profile: {error}", "is it the right file?") from error
    gaps = (Gap("samples[].time", "pprof profiles have no times"),)
    return gathering.capture(About(source, has_time=False, gaps=gaps))


def _tables(content: bytes) -> _Tables:
    tables = _Tables()
    for number, value in protobuf.fields(content):
        if isinstance(value, int):
            continue
        match number:
            case 2:
                tables.samples.append(value)
            case 3:
                one = _plain(value)
                tables.mappings[one.get(1, 0)] = one.get(5, 0)
            case 4:
                one = _plain(value)
                functions = [
                    _plain(line).get(1, 0)
                    for inner, line in protobuf.fields(value)
                    if inner == 4 and isinstance(line, bytes)
                ]
                tables.locations[one.get(1, 0)] = (functions, one.get(2, 0), one.get(3, 0))
            case 5:
                one = _plain(value)
                tables.functions[one.get(1, 0)] = (one.get(2, 0), one.get(4, 0))
            case 6:
                tables.texts.append(value)
            case _:
                pass
    if not tables.texts or tables.texts[0]:
        # Other messages have fields of these numbers too, OpenTelemetry's for one.
        raise ValueError("it has no table of names that begins with an empty one")
    return tables


def _plain(raw: bytes) -> dict[int, int]:
    return {number: value for number, value in protobuf.fields(raw) if isinstance(value, int)}


def _sample(raw: bytes) -> tuple[list[int], list[int]]:
    locations: list[int] = []
    values: list[int] = []
    for number, value in protobuf.fields(raw):
        if number == 1:
            locations += protobuf.numbers(value)
        elif number == 2:
            values += protobuf.numbers(value)
    return locations, values


def write_pprof(capture: Capture, selection: Selection) -> Iterator[bytes]:
    """Gzipped, as every reader expects it."""
    packer = zlib.compressobj(6, wbits=31)
    for piece in _pieces(capture, selection):
        yield packer.compress(piece)
    yield packer.flush()


def _pieces(capture: Capture, selection: Selection) -> Iterator[bytes]:
    chosen = taken(capture, selection)
    texts: dict[str, int] = {"": 0, "samples": 1, "count": 2, "cpu": 3, "nanoseconds": 4}

    def text(content: str) -> int:
        return texts.setdefault(content, len(texts))

    period = round(1e9 / capture.about.rate_hz) if capture.about.rate_hz else 0
    yield protobuf.message(_SAMPLE_TYPE, protobuf.number(1, 1) + protobuf.number(2, 2))
    if period:
        yield protobuf.message(_SAMPLE_TYPE, protobuf.number(1, 3) + protobuf.number(2, 4))
    counts = np.bincount(chosen.node_of, chosen.weights).astype(np.int64).tolist()
    used: set[int] = set()
    for path, count in zip(paths(capture, chosen.nodes), counts, strict=True):
        used.update(path)
        places = protobuf.packed(1, [frame + 1 for frame in reversed(path)])
        yield protobuf.message(_SAMPLE, places + protobuf.packed(2, [count, count * period] if period else [count]))
    for frame in sorted(used):
        line = protobuf.message(4, protobuf.number(1, frame + 1))
        yield protobuf.message(_LOCATION, protobuf.number(1, frame + 1) + line)
        name, file = text(capture.frame_names[frame]), text(capture.frame_files[frame])
        named = (
            protobuf.number(1, frame + 1)
            + protobuf.number(2, name)
            + protobuf.number(3, name)
            + protobuf.number(4, file)
        )
        yield protobuf.message(_FUNCTION, named)
    for content in texts:
        yield protobuf.text(_STRING, content)
    begin, length = span_ns(capture, selection)
    if capture.about.clock is not None and capture.about.has_time:
        clock = capture.about.clock
        yield protobuf.number(_TIME_NANOS, clock.wall_ns + begin - clock.sample_ns)
    yield protobuf.number(_DURATION_NANOS, length)
    if period:
        yield protobuf.message(_PERIOD_TYPE, protobuf.number(1, 3) + protobuf.number(2, 4))
        yield protobuf.number(_PERIOD, period)
