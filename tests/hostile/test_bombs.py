# SPDX-License-Identifier: Apache-2.0
"""Small files from strangers that unfold to very much, or take for ever: refused with a reason, or read within bounds."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hostile import strangers
from tests.hostile.strangers import UNIT, UNIT_NAME, Outcome, header, measured, tarred
from tests.unit.trees import plant


def audited(folder: Path, content: bytes) -> Outcome:
    image = folder / "image"
    image.write_bytes(content)
    return measured("audit", "--image", image)


def imported(folder: Path, content: bytes, *more: str) -> Outcome:
    file = folder / "stranger"
    file.write_bytes(content)
    return measured("profile", "import", file, "--output", folder / "captures", *more)


@pytest.mark.attack("take a gibibyte of root's memory with a recording of less than a megabyte")
def test_recording(tmp_path: Path) -> None:
    bomb = tmp_path / "stranger.tar.gz"
    bomb.write_bytes(strangers.recording_bomb(100))
    assert bomb.stat().st_size < 1 << 20
    measured("scan", "--root", bomb).assert_refused()


@pytest.mark.attack("take root's memory with one extended header of a recording")
def test_recording_with_a_large_header(tmp_path: Path) -> None:
    bomb = tmp_path / "stranger.tar.gz"
    piece = gzip.compress(bytes(1 << 24), 9)
    bomb.write_bytes(gzip.compress(header(b"x", b"%011o" % (512 << 20), b"x")) + piece * 32)
    measured("scan", "--root", bomb).assert_refused()


@pytest.mark.attack("take hundreds of mebibytes with an ext4 image full of holes")
def test_sparse_ext4(tmp_path: Path) -> None:
    measured("audit", "--image", strangers.sparse_ext4(tmp_path)).assert_bounded()


@pytest.mark.attack("hold a processor for minutes with extended headers of a tar archive")
def test_pax_records(tmp_path: Path) -> None:
    outcome = audited(tmp_path, strangers.pax_bomb(16))
    outcome.assert_bounded()


@pytest.mark.attack(
    "take hundreds of mebibytes, or a processor for minutes, with unit files and presets that are full of lines"
)
@pytest.mark.parametrize("place", ["image", "folder"])
@pytest.mark.parametrize("bomb", [strangers.settings_bomb, strangers.presets_bomb])
def test_lines_of_units_and_presets(tmp_path: Path, bomb: Callable[[], dict[str, bytes]], place: str) -> None:
    """What is not read of a unit is said; presets are not read at all."""
    members = bomb()
    if place == "image":
        packed = gzip.compress(tarred(members), 9)
        assert len(packed) < 256 << 10
        outcome = audited(tmp_path, packed)
    else:
        plant(tmp_path / "tree", members)
        outcome = measured("audit", "--root", tmp_path / "tree")
    outcome.assert_bounded()
    if bomb is strangers.settings_bomb:
        assert "the rest was not read" in " ".join((outcome.out + outcome.err).split())


@pytest.mark.attack("take a gibibyte with a thousand units, each within the bound for one")
@pytest.mark.parametrize("place", ["image", "folder"])
def test_many_units_within_the_bound_for_one(tmp_path: Path, place: str) -> None:
    content = b"[Service]\n" + b"abcdefghijklmnopq=abcdefghijklmnopqrstuvwxyz\n" * 4_900
    members = {f"etc/systemd/system/a{number}.service": content for number in range(250)}
    if place == "image":
        audited(tmp_path, gzip.compress(tarred(members), 9)).assert_refused()
    else:
        plant(tmp_path / "tree", members)
        measured("audit", "--root", tmp_path / "tree").assert_refused()


@pytest.mark.attack("make a reader take all of a file at once with a size below zero")
@pytest.mark.parametrize("kind", [b"x", b"L", b"0"])
def test_negative_size(tmp_path: Path, kind: bytes) -> None:
    content = header(b"a.service", b"-0000000001", kind)
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.write(content)
        file.truncate(1 << 30)
    measured("audit", "--image", image).assert_refused()


@pytest.mark.attack("hold a processor for ever with a packed image that is nothing but zeros")
@pytest.mark.parametrize("form", ["gzip", "bzip2", "xz", "zstd"])
def test_packed_zeros(tmp_path: Path, form: str) -> None:
    audited(tmp_path, strangers.zeros_bomb(form)).assert_refused()


@pytest.mark.attack("make the unpacker of xz ask for a gibibyte")
def test_dictionary_of_xz(tmp_path: Path) -> None:
    content = bytearray(lzma.compress(tarred({UNIT_NAME: UNIT}), filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}]))
    # The size of the dictionary is one byte of the block header, which has a checksum of its own.
    length = (content[12] + 1) * 4
    block = content[12 : 12 + length - 4]
    block[block.index(0x21) + 2] = 37
    content[12 : 12 + length] = block + zlib.crc32(block).to_bytes(4, "little")
    audited(tmp_path, bytes(content)).assert_bounded()


@pytest.mark.attack("take gibibytes with a compressed capture")
def test_gzip_capture(tmp_path: Path) -> None:
    content = gzip.compress(b"a;b 1\n" * (50 << 20), 6)
    assert len(content) < 2 << 20
    imported(tmp_path, content).assert_refused()


@pytest.mark.attack("take gibibytes with a stored capture whose columns are zeros")
def test_stored_capture(tmp_path: Path) -> None:
    bomb = tmp_path / "stranger.zscap"
    bomb.write_bytes(strangers.stored_bomb(1 << 22))
    measured("profile", "flame", bomb).assert_refused()


@pytest.mark.attack("make an import quadratic with addresses chosen for the scanner's table")
def test_colliding_addresses(tmp_path: Path) -> None:
    outcome = imported(tmp_path, strangers.colliding_addresses(600_000))
    outcome.assert_bounded()
    assert outcome.code == 0


@pytest.mark.attack("unfold a small pprof profile to billions of frames")
def test_inlined_calls_of_pprof(tmp_path: Path) -> None:
    imported(tmp_path, strangers.unfolding_pprof(16_000, 40_000)).assert_refused()


@pytest.mark.attack("make a pattern over the text of perf script quadratic")
def test_long_lines_of_perf_script(tmp_path: Path) -> None:
    heading = b"a 1 [000] 1.0: cycles:\n"
    frame = b" ffff x (" + b"a" * 400_000 + b"\n"
    spaces = b"a" + b" " * 400_000 + b"1\n"
    imported(tmp_path, heading + frame * 4 + b"\n" + (spaces + b"\n") * 4).assert_bounded()


@pytest.mark.attack("crash the reader with JSON that is nested without end")
@pytest.mark.parametrize("opening", ["[", '{"shared":'])
def test_nested_json(tmp_path: Path, opening: str) -> None:
    imported(tmp_path, b'{"profiles":' + opening.encode() * 200_000).assert_refused()


@pytest.mark.attack("copy a deep stack once per event of a speedscope profile")
def test_events_of_speedscope(tmp_path: Path) -> None:
    opened = [{"type": "O", "at": number, "frame": 0} for number in range(16_000)]
    turns = [{"type": "OC"[number % 2], "at": 16_000 + number, "frame": number % 997} for number in range(30_000)]
    profile = {"type": "evented", "unit": "seconds", "name": "x", "startValue": 0, "events": opened + turns}
    frames = [{"name": f"f{number}"} for number in range(1000)]
    document = {"shared": {"frames": frames}, "profiles": [profile]}
    imported(tmp_path, json.dumps(document).encode()).assert_bounded()


@pytest.mark.attack("take all memory with names of functions that double themselves when they are written plainly")
def test_names_of_functions(tmp_path: Path) -> None:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    doubled = "".join(f"S_IS{digit}_S{digit}_E" for digit in digits)
    names = [f"_Z{len(str(number)) + 1}f{number}1AIiiE{doubled}" for number in range(2000)]
    names += [f"_Z{len(str(number)) + 1}g{number}IJ{'i' * 500}EEv{'DpT_' * 200}" for number in range(500)]
    imported(tmp_path, "".join(f"app;{name} 1\n" for name in names).encode()).assert_bounded()
