# SPDX-License-Identifier: Apache-2.0
"""Images as archives: layers, whiteouts, the three forms; and hostile ones, refused with a reason and never followed."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import struct
import sys
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.zstd_frames import zstd_packed

from zombiescope.errors import ObservationError, UsageError
from zombiescope.host.files import Files
from zombiescope.host.images.choose import Image, open_image
from zombiescope.host.zstd import DAMAGED

UNIT = "usr/lib/systemd/system/a.service"
ETC = "etc/systemd/system"
TEXT = b"[Service]\nExecStart=/bin/a\n"


def tarred(*members: tuple[str, bytes | str | None], form: int = tarfile.GNU_FORMAT) -> bytes:
    """(name, content), (name, '-> target') or (name, None) for a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
                continue
            info.type = tarfile.DIRTYPE if content is None else tarfile.SYMTYPE
            info.linkname = (content or "").removeprefix("-> ")
            archive.addfile(info)
    return out.getvalue()


def opened(folder: Path, data: bytes, wanted: frozenset[bytes] = frozenset()) -> Image:
    place = folder / "image"
    place.write_bytes(data)
    return open_image(os.fsencode(place), wanted, lambda _done, _total: None)


def read(image: Image, path: str) -> bytes | None:
    return Files(image.tree).read(b"/" + path.encode())


PACKERS = [bytes, gzip.compress, lzma.compress, zstd_packed]


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_a_root_file_system(tmp_path: Path, pack: Callable[[bytes], bytes], times: int, form: int) -> None:
    """Packed in one piece, or in two, one after the other."""
    long = "usr/lib/systemd/system/" + "d" * 90 + "/" + "x" * 60 + ".conf"
    data = tarred(
        ("./usr", None),
        ("./" + UNIT, TEXT),
        ("lib", "-> usr/lib"),
        (long, b"[Unit]\n"),
        ("var/big", b"x" * 99999),
        form=form,
    )
    image = opened(tmp_path, pack(data) if times == 1 else pack(data[:700]) + pack(data[700:]))
    assert image.kind == "root file system"
    assert read(image, UNIT) == TEXT
    assert read(image, "lib/systemd/system/a.service") == TEXT
    assert read(image, long) == b"[Unit]\n"
    assert read(image, "var/big") is None


LOWER = tarred(
    (UNIT, TEXT),
    ("etc/cron.d/job", b"x"),
    ("etc/systemd/system/b.service", TEXT),
    ("etc/systemd/system/c.service", TEXT),
)
UPPER = tarred(
    ("etc/systemd/system/.wh.b.service", b""),
    ("etc/cron.d/.wh..wh..opq", b""),
    ("etc/cron.d/new", b"y"),
    (UNIT, b"[Service]\n"),
)


def check_layers(image: Image) -> None:
    assert read(image, UNIT) == b"[Service]\n"
    assert read(image, "etc/systemd/system/b.service") is None
    assert read(image, "etc/systemd/system/c.service") == TEXT
    assert Files(image.tree).list(b"/etc/cron.d") == [b"new"]


def oci(*layers: bytes) -> dict[str, bytes]:
    blobs: dict[str, bytes] = {}

    def blob(data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data)}

    manifest = json.dumps({"schemaVersion": 2, "config": blob(b"{}"), "layers": [blob(layer) for layer in layers]})
    nested = json.dumps(
        {"manifests": [{**blob(manifest.encode()), "platform": {"os": "linux", "architecture": "amd64"}}]}
    )
    top = json.dumps({"manifests": [blob(nested.encode())]})
    return {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": top.encode(), **blobs}


def test_an_oci_layout_and_its_archive(tmp_path: Path) -> None:
    files = oci(gzip.compress(LOWER), UPPER)
    for name, data in files.items():
        place = tmp_path / "layout" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    image = open_image(os.fsencode(tmp_path / "layout"), frozenset(), lambda _done, _total: None)
    assert image.kind == "OCI layout"
    check_layers(image)
    archive = opened(tmp_path, tarred(*reversed(files.items())))
    assert archive.kind == "OCI archive"
    check_layers(archive)


def test_a_docker_archive_with_its_manifest_last(tmp_path: Path) -> None:
    names = ["1" * 64 + "/layer.tar", "2" * 64 + "/layer.tar"]
    manifest = json.dumps([{"Config": "c.json", "Layers": [*names, "3" * 64 + "/layer.tar"]}]).encode()
    data = tarred(
        (names[1], UPPER),
        (names[0], LOWER),
        ("3" * 64 + "/layer.tar", "-> ../" + names[1]),
        ("manifest.json", manifest),
    )
    image = opened(tmp_path, gzip.compress(data))
    assert image.kind == "Docker archive"
    check_layers(image)


def test_a_missing_layer_is_an_error(tmp_path: Path) -> None:
    manifest = json.dumps([{"Layers": ["1" * 64 + "/layer.tar", "9" * 64 + "/layer.tar"]}]).encode()
    with pytest.raises(ObservationError, match="names a layer that is not there"):
        opened(tmp_path, tarred(("1" * 64 + "/layer.tar", LOWER), ("manifest.json", manifest)))


def test_hostile_names_and_links_are_refused(tmp_path: Path) -> None:
    data = tarred(
        (f"../../{ETC}/out.service", TEXT),
        (f"/{ETC}/abs.service", TEXT),
        (f"{ETC}/a\x1b[31m.service", TEXT),
        (f"{ETC}/passwd.service", "-> ../../../../../../etc/passwd"),
        (f"{ETC}/l1.service", "-> l2.service"),
        (f"{ETC}/l2.service", "-> l1.service"),
        ("usr/local/lib", "-> /usr/local/lib"),
    )
    image = opened(tmp_path, data)
    files = Files(image.tree, list(image.tree.refusals))
    assert [refusal.reason for refusal in files.refusals] == ["its name leads out of the image: skipped"]
    assert files.read(b"/etc/systemd/system/abs.service") == TEXT
    assert files.read(b"/etc/systemd/system/passwd.service") is None
    assert files.read(b"/etc/systemd/system/l1.service") is None
    assert files.list(b"/usr/local/lib/systemd/system") == []


def header(name: bytes, kind: bytes, size: int) -> bytes:
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b"0000644\0"
    block[124:136] = b"%011o\0" % size
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[257:265] = b"ustar\x0000"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def test_devices_and_hard_links(tmp_path: Path) -> None:
    device = header(b"etc/systemd/system/dev.service", b"3", 0)
    good = header(UNIT.encode(), b"0", len(TEXT)) + TEXT.ljust(512, b"\0")
    out = bytearray(header(b"etc/systemd/system/hard.service", b"1", 0))
    image = opened(tmp_path, device + good + bytes(out) + bytes(1024))
    files = Files(image.tree)
    assert files.read(b"/etc/systemd/system/dev.service") is None
    assert "device" in files.refusals[0].reason
    assert any("hard link" in refusal.reason for refusal in image.tree.refusals)


def test_a_unit_file_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    place = tmp_path / "image"
    with place.open("wb") as file:
        file.write(header(UNIT.encode(), b"0", 1 << 30))
        file.seek((1 << 30) + 512)
        file.write(header(b"etc/systemd/system/b.service", b"0", len(TEXT)) + TEXT.ljust(512, b"\0") + bytes(1024))
    tracemalloc.start()
    image = open_image(os.fsencode(place), frozenset(), lambda _done, _total: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
    assert read(image, "etc/systemd/system/b.service") == TEXT
    assert "1,073,741,824 bytes" in image.tree.refusals[0].reason


@pytest.mark.parametrize("kind", [b"x", b"L"])
def test_a_huge_extended_header_is_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(ObservationError, match="an extended header of"):
        opened(tmp_path, header(b"x", kind, 1 << 31) + bytes(2048))


@pytest.mark.parametrize("pack", [lambda data: gzip.compress(data, 1), zstd_packed])
def test_a_packed_bomb_takes_no_memory(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    bomb = header(b"var/zeroes", b"0", 256 << 20) + bytes(256 << 20) + bytes(1024)
    place = tmp_path / "image"
    place.write_bytes(pack(bomb))
    del bomb
    tracemalloc.start()
    open_image(os.fsencode(place), frozenset(), lambda _done, _total: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_many_unit_files_are_bounded(tmp_path: Path) -> None:
    megabyte = b"#" * (1 << 20)
    image = opened(
        tmp_path, gzip.compress(tarred(*((f"etc/systemd/system/{n}.service", megabyte) for n in range(80))), 1)
    )
    assert any("more than an audit keeps" in refusal.reason for refusal in image.tree.refusals)


@pytest.mark.parametrize("keep", [1, 100, 511, 512, 700, 1024 + 7])
@pytest.mark.parametrize("pack", PACKERS)
def test_a_truncated_image_is_not_judged(tmp_path: Path, keep: int, pack: Callable[[bytes], bytes]) -> None:
    whole = pack(tarred((UNIT, TEXT * 100), ("b", os.urandom(4000)), ("etc/systemd/system/z.service", TEXT)))
    with pytest.raises(ObservationError):
        opened(tmp_path, whole[: min(keep, len(whole) - 100)])


def test_an_archive_cut_between_two_members_is_not_whole(tmp_path: Path) -> None:
    whole = tarred((UNIT, TEXT), ("etc/systemd/system/z.service", TEXT))
    with pytest.raises(ObservationError, match="end mark"):
        opened(tmp_path, whole[:1024])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.integers(0, 3000), st.binary(min_size=1, max_size=40))
def test_damage_gives_an_answer_or_our_error(tmp_path: Path, at: int, noise: bytes) -> None:
    data = bytearray(tarred((UNIT, TEXT), ("x" * 150, b"y" * 600), ("lib", "-> usr/lib"), form=tarfile.PAX_FORMAT))
    data[at : at + len(noise)] = noise
    with contextlib.suppress(ObservationError, UsageError):
        Files(opened(tmp_path, bytes(data)).tree).list(b"/usr/lib/systemd/system")


def test_a_plain_folder_is_pointed_to_root(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        open_image(os.fsencode(tmp_path), frozenset(), lambda _done, _total: None)
    assert "--root" in error.value.hint


def test_a_digest_cannot_lead_out(tmp_path: Path) -> None:
    (tmp_path / "oci-layout").write_text("{}")
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{"digest": "sha256:../../../etc/passwd"}]}))
    with pytest.raises(ObservationError, match="is not a digest"):
        open_image(os.fsencode(tmp_path), frozenset(), lambda _done, _total: None)


def test_base_256_sizes(tmp_path: Path) -> None:
    block = bytearray(header(UNIT.encode(), b"0", 0))
    block[124:136] = b"\x80" + struct.pack(">11s", len(TEXT).to_bytes(11, "big"))
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    assert read(opened(tmp_path, bytes(block) + TEXT.ljust(512, b"\0") + bytes(1024)), UNIT) == TEXT


def test_deep_names_and_links_need_no_stack(tmp_path: Path) -> None:
    deep = f"{ETC}/" + "d/" * 1900 + "x.conf"
    data = tarred((deep, b"x"), (f"{ETC}/far.service", "-> " + "a/../" * 800 + "b.service"), ("z" * 5000, b""))
    cleared = tarred((f"{ETC}/.wh.d", b""))
    image = opened(tmp_path, tarred(*oci(data, cleared).items()))
    files = Files(image.tree)
    assert files.list(f"/{ETC}".encode()) == [b"far.service"]
    assert files.read(f"/{ETC}/far.service".encode()) is None
    assert any("leads out" in refusal.reason for refusal in image.tree.refusals)


def test_all_layers_together_are_bounded(tmp_path: Path) -> None:
    layers = [
        gzip.compress(tarred(*((f"{ETC}/{n}-{m}.service", bytes(1 << 20)) for m in range(30))), 1) for n in range(4)
    ]
    tracemalloc.start()
    image = opened(tmp_path, tarred(*oci(*layers).items()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 << 20
    assert any("more than an audit keeps" in refusal.reason for refusal in image.tree.refusals)


def test_what_only_looks_like_a_layer_is_no_error(tmp_path: Path) -> None:
    image = opened(
        tmp_path, tarred((UNIT, TEXT), ("srv/layer.tar", b"\x1f\x8bnonsense" * 9), ("opt/layer.tar", bytes(300) + b"x"))
    )
    assert image.kind == "root file system"
    assert read(image, UNIT) == TEXT


def test_damaged_zstd_is_not_judged(tmp_path: Path) -> None:
    with pytest.raises(ObservationError, match=DAMAGED):
        opened(tmp_path, b"\x28\xb5\x2f\xfd" + b"\xff" * 600)


def test_zstd_is_named_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_name: str) -> NoReturn:
        raise OSError("no such file")

    image = zstd_packed(tarred((UNIT, TEXT)))
    monkeypatch.setattr("ctypes.CDLL", none)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.raises(ObservationError) as refused:
        opened(tmp_path, image)
    assert "unpack it first" in refused.value.why


@pytest.mark.parametrize("kind", [b"0", b"x", b"L"])
def test_a_size_below_zero_is_refused(tmp_path: Path, kind: bytes) -> None:
    block = bytearray(header(b"a", kind, 0))
    block[124:136] = b"-0000000001\0"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    with pytest.raises(ObservationError, match="below zero"):
        opened(tmp_path, bytes(block) + bytes(1024))


def test_very_many_pax_records_are_refused(tmp_path: Path) -> None:
    body = b"4 =\n" * (1 << 17)
    with pytest.raises(ObservationError, match="too many"):
        opened(tmp_path, header(b"x", b"x", len(body)) + body + tarred((UNIT, TEXT)))


def test_an_image_that_unpacks_to_very_much_is_refused(tmp_path: Path) -> None:
    piece = gzip.compress(bytes(64 << 20), 9)
    bomb = gzip.compress(header(b"zeros", b"0", 4 << 30)) + piece * 8
    with pytest.raises(ObservationError, match="unpacks to more than"):
        opened(tmp_path, bomb)


def test_a_missing_layer_is_named_without_obeying_it(tmp_path: Path) -> None:
    manifest = json.dumps([{"Layers": ["\x1b[2J/layer.tar"]}]).encode()
    with pytest.raises(ObservationError) as caught:
        opened(tmp_path, tarred(("manifest.json", manifest), ("0/layer.tar", tarred((UNIT, TEXT)))))
    assert "\\x1b[2J" in caught.value.why and "\x1b" not in caught.value.why
