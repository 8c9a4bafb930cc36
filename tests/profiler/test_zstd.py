# SPDX-License-Identifier: Apache-2.0
"""Compressed records: unpacked as they were, bounded whatever they stand for, and damage said with its place."""

from __future__ import annotations

import importlib.util
import tracemalloc

import pytest
from tests.profiler.perf_files import TOOLS, PerfFileBuilder, record, small_capture
from tests.unit.zstd_frames import zstd_packed

from zombiescope.profiler.files import reading
from zombiescope.profiler.perf.importing import import_perf

WAYS = {"library": reading._from_library, "package": reading._from_package}


@pytest.fixture(params=sorted(WAYS))
def maker(request: pytest.FixtureRequest) -> reading.Decompress:
    if request.param == "package" and importlib.util.find_spec("zstandard") is None:
        pytest.skip("the package zstandard is not installed: it is one of three ways")
    factory = WAYS[request.param]()
    assert factory is not None
    return factory()


def test_what_was_packed_comes_back(maker: reading.Decompress) -> None:
    content = b"".join(b"%d" % number for number in range(100_000))
    whole = zstd_packed(content)
    assert b"".join(maker(whole[at : at + 10_000]) for at in range(0, len(whole), 10_000)) == content


def test_few_bytes_that_stand_for_very_many_are_refused(maker: reading.Decompress) -> None:
    bomb = zstd_packed(bytes(256 << 20))
    assert len(bomb) < 65_536
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than a record can hold"):
        maker(bomb)
    assert tracemalloc.get_traced_memory()[1] < 160 << 20
    tracemalloc.stop()


def test_what_decompresses_without_a_limit_is_fed_little_by_little() -> None:
    given: list[int] = []

    def decompress(piece: bytes) -> bytes:
        given.append(len(piece))
        return bytes(16 << 20)

    with pytest.raises(ValueError, match="more than a record can hold"):
        reading._guarded(decompress)(bytes(60_000))
    assert sum(given) <= 5 * 256


def test_a_compressed_capture_is_the_plain_one() -> None:
    plain = small_capture()
    whole = PerfFileBuilder(records=[*plain.records[:2], record(81, 0, zstd_packed(b"".join(plain.records[2:])))])
    tools = TOOLS._replace(decompressor=reading.decompressor_factory())
    first, second = import_perf(plain.file(), tools, "x"), import_perf(whole.file(), tools, "x")
    assert first.time.tolist() == second.time.tolist()
    assert first.node.tolist() == second.node.tolist()
    assert first.frame_names == second.frame_names


def test_a_damaged_record_says_where_it_lies() -> None:
    plain = small_capture()
    content = zstd_packed(b"".join(plain.records[102:]))
    damaged = content[:40] + b"\xff" * 40 + content[80:]
    built = PerfFileBuilder(records=[*plain.records[:102], record(81, 0, damaged)])
    capture = import_perf(built.file(), TOOLS._replace(decompressor=reading.decompressor_factory()), "x")
    assert len(capture) == 100
    assert any("at byte" in gap.reason and "cannot be unpacked" in gap.reason for gap in capture.about.gaps)


def test_without_zstd_it_is_said() -> None:
    built = PerfFileBuilder(records=[*small_capture().records[:102], record(81, 0, zstd_packed(bytes(4096)))])
    capture = import_perf(built.file(), TOOLS, "x")
    assert any(gap.hint == "pip install zstandard" for gap in capture.about.gaps)
