# SPDX-License-Identifier: Apache-2.0
"""Samples of the kernel's call chains, cut out of perf's rings: when, on which core, in which thread, where."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_HEADER = struct.Struct("<IHH")
_FIXED = struct.Struct("<IIQIIQ")
_LOST, _SAMPLE = 2, 9
_MARKER = 0xFFFFFFFFFFFFF000
"""Addresses above it mark a context (kernel, user, guest); they are no code."""


class StackSample(NamedTuple):
    at: float
    """Seconds on the steady clock."""
    core: int
    thread: int
    frames: tuple[int, ...]
    """Addresses, innermost first."""


class Drained(NamedTuple):
    samples: list[StackSample]
    lost: int


def parse_rings(contents: Iterable[bytes]) -> Drained:
    """Any bytes give what whole records they hold."""
    samples: list[StackSample] = []
    lost = 0
    for content in contents:
        for kind, body in _records(content):
            if kind == _SAMPLE:
                found = _sample(body)
                if found is not None:
                    samples.append(found)
            elif kind == _LOST and len(body) >= 16:
                lost += int.from_bytes(body[8:16], "little")
    return Drained(samples, lost)


def _records(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(content):
        kind, _, size = _HEADER.unpack_from(content, at)
        if size < _HEADER.size or at + size > len(content):
            return
        yield kind, content[at + _HEADER.size : at + size]
        at += size


def _sample(body: bytes) -> StackSample | None:
    if len(body) < _FIXED.size:
        return None
    _, thread, time, core, _, depth = _FIXED.unpack_from(body)
    if depth > (len(body) - _FIXED.size) // 8:
        return None
    frames = struct.unpack_from(f"<{depth}Q", body, _FIXED.size)
    return StackSample(time / 1e9, core, thread, tuple(frame for frame in frames if frame < _MARKER))
