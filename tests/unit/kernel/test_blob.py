# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.build_bpf import make_blob

from zombiescope.kernel.bpf_object import MAGIC, BlobError, parse_blob

_BUILT = Path(__file__).parents[3] / "src/zombiescope/kernel/bpf/memcg_walk.blob"


def small() -> bytes:
    return make_blob({"maps": ["bss"], "programs": ["walk"]}, b"data", b"instructions")


def test_a_blob_gives_back_what_was_put_in() -> None:
    blob = parse_blob("small", small())
    assert (blob.maps, blob.programs, blob.data, blob.instructions) == (("bss",), ("walk",), b"data", b"instructions")


def test_the_committed_blob_is_whole() -> None:
    blob = parse_blob(_BUILT.name, _BUILT.read_bytes())
    assert blob.programs == ("walk_memcg", "walk_writeback")
    assert blob.maps == ("records", "pins", "arena", "bss")
    assert len(blob.instructions) % 8 == 0


@pytest.mark.parametrize("kept", [0, 4, len(MAGIC), len(MAGIC) + 3, 40, -1, -20])
def test_a_truncated_blob_is_refused_in_words(kept: int) -> None:
    with pytest.raises(BlobError, match="cannot use the BPF object cut"):
        parse_blob("cut", _BUILT.read_bytes()[:kept])


@given(st.integers(0, len(small()) - 1), st.integers(1, 255))
def test_no_changed_byte_gets_through(place: int, change: int) -> None:
    content = bytearray(small())
    content[place] ^= change
    try:
        blob = parse_blob("changed", bytes(content))
    except BlobError:
        return
    # Deflate has a few bits that mean nothing; what they carry is the same.
    assert blob == parse_blob("small", small())


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_never_a_traceback(content: bytes) -> None:
    with pytest.raises(BlobError):
        parse_blob("garbage", MAGIC + content)
