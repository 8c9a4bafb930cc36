# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry profiles (v1development, still in development there): one dictionary of stacks, one sample a stack and core with
all its times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.profiling.capture import Capture
from zombiescope.profiling.formats import protobuf
from zombiescope.profiling.formats.stacks import paths, taken
from zombiescope.profiling.selection import Selection, span_ns

_CORE = "cpu.logical_number"
"""As OpenTelemetry's conventions call it."""
# ProfilesData
_RESOURCE_PROFILES, _DICTIONARY = 1, 2
# ProfilesDictionary
_MAPPINGS, _LOCATIONS, _FUNCTIONS, _LINKS, _STRINGS, _ATTRIBUTES, _STACKS = 1, 2, 3, 4, 5, 6, 7


def write_otlp(capture: Capture, selection: Selection) -> Iterator[bytes]:
    chosen = taken(capture, selection)
    cores = np.unique(capture.cpu[chosen.rows]) if capture.about.has_time else np.zeros(0, np.uint16)
    yield protobuf.message(
        _DICTIONARY, b"".join(_dictionary(capture, list(paths(capture, chosen.nodes)), cores.tolist()))
    )
    # A stack on one core is one sample: which core it was is what an average hides.
    core_of = np.searchsorted(cores, capture.cpu[chosen.rows]) if len(cores) else np.zeros(len(chosen.rows), np.int64)
    key = chosen.node_of.astype(np.int64) * max(1, len(cores)) + core_of
    order = np.argsort(key, kind="stable")
    keys, sizes = np.unique(key, return_counts=True)
    times = _wall_times(capture, chosen.rows[order])
    weights = chosen.weights[order].tolist()
    samples: list[bytes] = []
    begin = 0
    for which, end in zip(keys.tolist(), np.cumsum(sizes).tolist(), strict=True):
        number, core = divmod(which, max(1, len(cores)))
        # Sample: stack_index 1, attribute_indices 2, values 4, timestamps_unix_nano 5.
        content = protobuf.number(1, number + 1)
        if len(cores):
            content += protobuf.packed(2, [core + 1])
        if times is None or capture.weight is not None:
            content += protobuf.packed(4, [sum(weights[begin:end])] if times is None else weights[begin:end])
        if times is not None:
            content += protobuf.fixed64(5, times[begin:end])
        samples.append(protobuf.message(2, content))
        begin = end
    yield protobuf.message(
        _RESOURCE_PROFILES, protobuf.message(2, protobuf.message(2, _heading(capture, selection) + b"".join(samples)))
    )


def _wall_times(capture: Capture, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int] | None:
    if not capture.about.has_time:
        return None
    clock = capture.about.clock
    shift = 0 if clock is None else clock.wall_ns - clock.sample_ns
    return [int(time) + shift for time in capture.time[rows].tolist()]


def _heading(capture: Capture, selection: Selection) -> bytes:
    """Profile: sample_type 1, time_unix_nano 3, duration_nano 4, period_type 5, period 6."""
    begin, length = span_ns(capture, selection)
    clock = capture.about.clock
    period = round(1e9 / capture.about.rate_hz) if capture.about.rate_hz else 0
    content = protobuf.message(1, protobuf.number(1, 1) + protobuf.number(2, 2))
    if capture.about.has_time:
        began = begin if clock is None else clock.wall_ns + begin - clock.sample_ns
        content += protobuf.varint(3 << 3 | protobuf.FIXED64) + began.to_bytes(8, "little")
    content += protobuf.number(4, length)
    if period:
        content += protobuf.message(5, protobuf.number(1, 3) + protobuf.number(2, 4)) + protobuf.number(6, period)
    return content


def _dictionary(capture: Capture, stacks: list[tuple[int, ...]], cores: list[int]) -> Iterator[bytes]:
    """Entry 0 of each table is empty, as the format wants it."""
    texts: dict[str, int] = {"": 0, "samples": 1, "count": 2, "cpu": 3, "nanoseconds": 4, _CORE: 5}
    for table in (_MAPPINGS, _LOCATIONS, _FUNCTIONS, _LINKS, _ATTRIBUTES, _STACKS):
        yield protobuf.message(table, b"")
    for core in cores:
        # KeyValueAndUnit: key_strindex 1, value 2, in which int_value is 3 and written also when it is zero.
        value = protobuf.message(2, protobuf.varint(3 << 3) + protobuf.varint(core))
        yield protobuf.message(_ATTRIBUTES, protobuf.number(1, texts[_CORE]) + value)
    for name, file in zip(capture.frame_names, capture.frame_files, strict=True):
        named = texts.setdefault(name, len(texts))
        in_file = texts.setdefault(file, len(texts))
        function = protobuf.number(1, named) + protobuf.number(2, named) + protobuf.number(3, in_file)
        yield protobuf.message(_FUNCTIONS, function)
    for frame in range(len(capture.frame_names)):
        # Location: lines 3, whose first field is the function.
        yield protobuf.message(_LOCATIONS, protobuf.message(3, protobuf.number(1, frame + 1)))
    for path in stacks:
        yield protobuf.message(_STACKS, protobuf.packed(1, [frame + 1 for frame in reversed(path)]))
    for content in texts:
        yield protobuf.text(_STRINGS, content)
