# SPDX-License-Identifier: Apache-2.0
"""Profiles in the forms in which servers take them: OpenTelemetry's (v1development: one message, which is also the request that a
collector takes), and a PushRequest as Pyroscope's own clients send it (pyroscope-io 1.4.0 on PyPI was watched doing it)."""

import hashlib
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple
from uuid import UUID

import numpy as np

from zombiescope.profiler.formats.gathering import taken
from zombiescope.profiler.formats.protobuf import (
    FIXED64,
    fields,
    fixed64_field,
    message_field,
    number_field,
    packed_field,
    pprof_pieces,
    text_field,
    varint,
)
from zombiescope.profiler.stacks.capture import Capture, Selection, row_numbers, span_ns
from zombiescope.profiler.stacks.flame_graph import paths

SCOPE = "zombiescope"


class Sender(NamedTuple):
    """Whose a profile is that is sent."""

    service: str
    version: str
    labels: tuple[tuple[str, str], ...] = ()


def profile_id(capture: Capture, selection: Selection) -> UUID:
    """By what is in it, however often it is sent: a server can tell that it has it already."""
    begin, length = span_ns(capture, selection)
    rows = row_numbers(capture, selection)
    about = capture.about
    content = hashlib.sha256(repr((about.host, about.boot, about.clock, begin, length)).encode())
    for column in (capture.time, capture.cpu, capture.tid):
        content.update(column[rows].tobytes())
    return UUID(bytes=content.digest()[:16], version=5)


PYROSCOPE_PATH = "/push.v1.PusherService/Push"
NAME_LABEL = "__name__"
_NAME = "process_cpu"
"""What its pages know as processor time."""


def write_pyroscope(capture: Capture, selection: Selection, sender: Sender) -> Iterator[bytes]:
    told = {
        NAME_LABEL: _NAME,
        "service_name": sender.service,
        "hostname": capture.about.host or "",
        "otel.scope.name": SCOPE,
        "otel.scope.version": sender.version,
        **dict(sender.labels),
    }
    # RawProfileSeries: labels 1 (name 1, value 2), samples 2; RawSample: raw_profile 1, ID 2.
    labels = b"".join(
        message_field(1, text_field(1, name) + text_field(2, value)) for name, value in told.items() if value
    )
    sample = message_field(1, b"".join(pprof_pieces(capture, selection)))
    sample += text_field(2, str(profile_id(capture, selection)))
    yield message_field(1, labels + message_field(2, sample))


OTLP_PATH = "/v1development/profiles"
_CORE = "cpu.logical_number"
"""As OpenTelemetry's conventions call it."""
_MOST = (1 << 64) - 1
"""A clock in a stranger's file may say anything."""
# ProfilesData
_RESOURCE_PROFILES, _DICTIONARY = 1, 2
# ProfilesDictionary
_MAPPINGS, _LOCATIONS, _FUNCTIONS, _LINKS, _STRINGS, _ATTRIBUTES, _STACKS = 1, 2, 3, 4, 5, 6, 7


def write_otlp(capture: Capture, selection: Selection, sender: Sender | None = None) -> Iterator[bytes]:
    """`sender`: of one that is sent."""
    chosen = taken(capture, selection)
    cores = np.unique(capture.cpu[chosen.rows]) if capture.about.has_time else np.zeros(0, np.uint16)
    stacks = list(paths(capture, chosen.nodes))
    yield message_field(_DICTIONARY, b"".join(_dictionary(capture, stacks, cores.tolist())))
    # A stack on one core is one sample: which core it was is what an average hides.
    core_of = np.searchsorted(cores, capture.cpu[chosen.rows]) if len(cores) else np.zeros(len(chosen.rows), np.int64)
    key = chosen.node_of.astype(np.int64) * max(1, len(cores)) + core_of
    order = np.argsort(key, kind="stable")
    keys, sizes = np.unique(key, return_counts=True)
    times = _wall_times(capture, chosen.rows[order])
    weights = chosen.weights[order].tolist()
    samples, begin = list[bytes](), 0
    for which, end in zip(keys.tolist(), np.cumsum(sizes).tolist(), strict=True):
        number, core = divmod(which, max(1, len(cores)))
        # Sample: stack_index 1, attribute_indices 2, values 4, timestamps_unix_nano 5.
        content = number_field(1, number + 1) + (packed_field(2, [core + 1]) if len(cores) else b"")
        if times is None or capture.weight is not None:
            content += packed_field(4, [sum(weights[begin:end])] if times is None else weights[begin:end])
        if times is not None:
            content += fixed64_field(5, times[begin:end])
        samples.append(message_field(2, content))
        begin = end
    yield _of_resource(capture, sender, _heading(capture, selection, sender) + b"".join(samples))


def _of_resource(capture: Capture, sender: Sender | None, profile: bytes) -> bytes:
    """ResourceProfiles: resource 1, scope_profiles 2; ScopeProfiles: scope 1, profiles 2."""
    if sender is None:
        return message_field(_RESOURCE_PROFILES, message_field(2, message_field(2, profile)))
    told = {"service.name": sender.service, "host.name": capture.about.host or "", **dict(sender.labels)}
    # Of a resource: KeyValue, whose value is an AnyValue with a text.
    resource = b"".join(
        message_field(1, text_field(1, key) + message_field(2, text_field(1, value)))
        for key, value in told.items()
        if value
    )
    content = message_field(1, text_field(1, SCOPE) + text_field(2, sender.version)) + message_field(2, profile)
    return message_field(_RESOURCE_PROFILES, message_field(1, resource) + message_field(2, content))


def _wall_times(capture: Capture, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int] | None:
    if not capture.about.has_time:
        return None
    clock = capture.about.clock
    shift = 0 if clock is None else clock.wall_ns - clock.sample_ns
    return [(int(time) + shift) & _MOST for time in capture.time[rows].tolist()]


def _heading(capture: Capture, selection: Selection, sender: Sender | None) -> bytes:
    """Profile: sample_type 1, time_unix_nano 3, duration_nano 4, period_type 5, period 6, profile_id 7."""
    begin, length = span_ns(capture, selection)
    clock = capture.about.clock
    period = round(1e9 / capture.about.rate_hz) if capture.about.rate_hz else 0
    content = message_field(1, number_field(1, 1) + number_field(2, 2))
    if capture.about.has_time:
        began = begin if clock is None else clock.on_wall(begin)
        content += varint(3 << 3 | FIXED64) + (began & _MOST).to_bytes(8, "little")
    content += number_field(4, length)
    if period:
        content += message_field(5, number_field(1, 3) + number_field(2, 4)) + number_field(6, period)
    return content if sender is None else content + message_field(7, profile_id(capture, selection).bytes)


def _dictionary(capture: Capture, stacks: list[tuple[int, ...]], cores: list[int]) -> Iterator[bytes]:
    """Entry 0 of each table is empty, as the format wants it."""
    texts: dict[str, int] = {"": 0, "samples": 1, "count": 2, "cpu": 3, "nanoseconds": 4, _CORE: 5}
    for table in (_MAPPINGS, _LOCATIONS, _FUNCTIONS, _LINKS, _ATTRIBUTES, _STACKS):
        yield message_field(table, b"")
    for core in cores:
        # KeyValueAndUnit: key_strindex 1, value 2, in which int_value is 3 and written also when it is zero.
        value = message_field(2, varint(3 << 3) + varint(core))
        yield message_field(_ATTRIBUTES, number_field(1, texts[_CORE]) + value)
    used = sorted(set(chain.from_iterable(stacks)))
    place = {frame: number for number, frame in enumerate(used, 1)}
    for frame in used:
        named = texts.setdefault(capture.frame_names[frame], len(texts))
        in_file = texts.setdefault(capture.frame_files[frame], len(texts))
        yield message_field(_FUNCTIONS, number_field(1, named) + number_field(2, named) + number_field(3, in_file))
    for number in place.values():
        # Location: lines 3, whose first field is the function.
        yield message_field(_LOCATIONS, message_field(3, number_field(1, number)))
    for path in stacks:
        yield message_field(_STACKS, packed_field(1, [place[frame] for frame in reversed(path)]))
    for content in texts:
        yield text_field(_STRINGS, content)


def refused_part(answer: bytes) -> tuple[int, str]:
    """Of what a collector answers when it took it: how many profiles it left out all the same, and why."""
    rejected, why = 0, ""
    try:
        for number, partial in fields(answer):
            for inner, value in fields(partial) if number == 1 and isinstance(partial, bytes) else ():
                if inner == 1 and isinstance(value, int):
                    rejected = value
                elif inner == 2 and isinstance(value, bytes):
                    why = value.decode("utf-8", "replace")
    except ValueError:
        return 0, ""
    return rejected, why
