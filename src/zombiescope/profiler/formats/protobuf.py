# SPDX-License-Identifier: Apache-2.0
"""As much of protocol buffers as profiles need: varints and length-delimited fields, in and out; and pprof, in and out."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiler.formats.gathering import MOST_DEPTH, Frame, Gathering, taken
from zombiescope.profiler.stacks.capture import About, BrokenCapture, Capture, Selection, span_ns
from zombiescope.profiler.stacks.flame_graph import paths

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [varint(value) for value in range(1 << 14)]


def number_field(field: int, value: int) -> bytes:
    """Zero is not written: it is what a reader assumes."""
    return varint(field << 3 | VARINT) + varint(value) if value else b""


def message_field(field: int, content: bytes) -> bytes:
    return varint(field << 3 | LENGTH) + varint(len(content)) + content


def text_field(field: int, content: str) -> bytes:
    return message_field(field, content.encode("utf-8", "replace"))


def packed_field(field: int, values: Iterable[int]) -> bytes:
    return message_field(
        field, b"".join([_SMALL[value] if 0 <= value < len(_SMALL) else varint(value) for value in values])
    )


def fixed64_field(field: int, values: Iterable[int]) -> bytes:
    return message_field(field, b"".join([value.to_bytes(8, "little") for value in values]))


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:
            raise ValueError(f"a number at byte {at} has no end")
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7


def fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field number and value, one after the other."""
    at = 0
    while at < len(raw):
        tag, at = read_varint(raw, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = read_varint(raw, at)
            yield tag >> 3, value
            continue
        if kind == LENGTH:
            length, at = read_varint(raw, at)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"a field at byte {at} is of no known kind")
        if at + length > len(raw):
            raise ValueError(f"a field at byte {at} reaches beyond the end")
        yield tag >> 3, raw[at : at + length]
        at += length


def repeated(value: int | bytes) -> list[int]:
    """A repeated number, packed or not."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        one, at = read_varint(value, at)
        found.append(one)
    return found


_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_TIME_NANOS, _DURATION_NANOS, _PERIOD_TYPE, _PERIOD = 9, 10, 11, 12
_UNNAMED = "[unknown]"


def looks_like_pprof(content: bytes) -> bool:
    try:
        found = [number for number, _ in zip((number for number, _ in fields(content)), range(4), strict=False)]
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


def read_pprof(content: bytes, source: str, *, demangle: bool = True) -> Capture:
    try:
        tables = _tables(content)
        gathering = Gathering(len(content), demangle)
        known: dict[int, list[Frame]] = {}
        for sample in tables.samples:
            locations, values = _sample(sample)
            for place in locations[:MOST_DEPTH]:
                if place not in known:
                    known[place] = tables.frames(place)
            unfolded = chain.from_iterable(known[place] for place in locations[:MOST_DEPTH])
            frames = list(islice(unfolded, MOST_DEPTH))[::-1]
            # The first value counts samples by custom; those after it say what they weigh.
            weight = values[0] if values else 1
            if 0 < weight < 1 << 62:
                gathering.add(gathering.stack_number("all threads", frames), "all threads", weight=weight)
    except ValueError as error:
        raise BrokenCapture(f"it is no pprof profile: {error}", "is it the right file?") from error
    return gathering.capture(
        About(source, has_time=False, gaps=(Gap("samples[].time", "pprof profiles have no times"),))
    )


def _tables(content: bytes) -> _Tables:
    tables = _Tables()
    for number, value in fields(content):
        if isinstance(value, int):
            continue
        one = _plain(value) if number in (_MAPPING, _LOCATION, _FUNCTION) else {}
        match number:
            case 2:
                tables.samples.append(value)
            case 3:
                tables.mappings[one.get(1, 0)] = one.get(5, 0)
            case 4:
                functions = [
                    _plain(line).get(1, 0) for inner, line in fields(value) if inner == 4 and isinstance(line, bytes)
                ]
                tables.locations[one.get(1, 0)] = (functions, one.get(2, 0), one.get(3, 0))
            case 5:
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
    return {number: value for number, value in fields(raw) if isinstance(value, int)}


def _sample(raw: bytes) -> tuple[list[int], list[int]]:
    found: dict[int, list[int]] = {1: [], 2: []}
    for number, value in fields(raw):
        if number in found:
            found[number] += repeated(value)
    return found[1], found[2]


def write_pprof(capture: Capture, selection: Selection) -> Iterator[bytes]:
    """Gzipped, as every reader expects it."""
    packer = zlib.compressobj(6, wbits=31)
    for piece in pprof_pieces(capture, selection):
        yield packer.compress(piece)
    yield packer.flush()


def pprof_pieces(capture: Capture, selection: Selection) -> Iterator[bytes]:
    chosen = taken(capture, selection)
    texts: dict[str, int] = {"": 0, "samples": 1, "count": 2, "cpu": 3, "nanoseconds": 4}
    period = round(1e9 / capture.about.rate_hz) if capture.about.rate_hz else 0
    yield message_field(_SAMPLE_TYPE, number_field(1, 1) + number_field(2, 2))
    if period:
        yield message_field(_SAMPLE_TYPE, number_field(1, 3) + number_field(2, 4))
    counts = np.bincount(chosen.node_of, chosen.weights).astype(np.int64).tolist()
    used: set[int] = set()
    for path, count in zip(paths(capture, chosen.nodes), counts, strict=True):
        used.update(path)
        places = packed_field(1, [frame + 1 for frame in reversed(path)])
        yield message_field(_SAMPLE, places + packed_field(2, [count, count * period] if period else [count]))
    for frame in sorted(used):
        number = number_field(1, frame + 1)
        yield message_field(_LOCATION, number + message_field(4, number))
        name = texts.setdefault(capture.frame_names[frame], len(texts))
        file = texts.setdefault(capture.frame_files[frame], len(texts))
        yield message_field(_FUNCTION, number + number_field(2, name) + number_field(3, name) + number_field(4, file))
    for content in texts:
        yield text_field(_STRING, content)
    begin, length = span_ns(capture, selection)
    if capture.about.clock is not None and capture.about.has_time:
        yield number_field(_TIME_NANOS, capture.about.clock.on_wall(begin))
    yield number_field(_DURATION_NANOS, length)
    yield message_field(_PERIOD_TYPE, number_field(1, 3 if period else 1) + number_field(2, 4 if period else 2))
    yield number_field(_PERIOD, period or 1)
