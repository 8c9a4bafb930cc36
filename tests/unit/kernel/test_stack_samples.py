# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.kernel.perf_events import Sampler, StackSample, Wish, kernel_only, parse_rings

KERNEL = 0xFFFFFFFFFFFFFF80


def sample(seconds: float, core: int, thread: int, *frames: int) -> bytes:
    body = struct.pack("<IIQIIQ", thread, thread, round(seconds * 1e9), core, 0, len(frames) + 1)
    return record(9, body + struct.pack(f"<{len(frames) + 1}Q", KERNEL, *frames))


def record(kind: int, body: bytes) -> bytes:
    return struct.pack("<IHH", kind, 1, 8 + len(body)) + body


def test_samples_without_their_markers_and_what_was_lost() -> None:
    rings = [
        sample(1.5, 0, 7, 0xFFFFFFFF81000010, 0xFFFFFFFF81000020) + record(2, struct.pack("<QQ", 1, 12)),
        record(3, b"somebody's name...") + sample(1.6, 1, 8),
    ]
    found = parse_rings(rings)
    assert found.lost == 12
    assert found.samples == [
        StackSample(1.5, 0, 7, (0xFFFFFFFF81000010, 0xFFFFFFFF81000020)),
        StackSample(1.6, 1, 8, ()),
    ]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_truncated_ring_gives_its_whole_records(cut: int) -> None:
    whole = sample(1, 0, 7, 5)
    assert [each.thread for each in parse_rings([whole + whole[:-cut]]).samples] == [7]


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(content: bytes) -> None:
    assert parse_rings([content]).lost >= 0


def test_a_depth_beyond_the_record_is_no_sample() -> None:
    body = struct.pack("<IIQIIQ", 1, 1, 1, 0, 0, 1 << 40)
    assert parse_rings([record(9, body)]).samples == []


def test_the_kernel_is_asked_for_its_own_chains_alone() -> None:
    flags = struct.unpack_from("<Q", kernel_only(99, Wish()), 40)[0]
    assert flags & (1 << 4), "user mode is left out"
    assert flags & (1 << 7), "idle is left out"
    assert not flags & (1 << 8), "no records of mappings"
    assert Sampler(99, ask=kernel_only).ask is kernel_only
    assert Sampler(99).ask(99, Wish()) != kernel_only(99, Wish()), "the profiler asks for everything"
