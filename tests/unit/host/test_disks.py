# SPDX-License-Identifier: Apache-2.0
"""Which disk it is, by its bytes; those that lead to other files are refused; where libguestfs is not installed, that is said."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path

import pytest

from zombiescope.errors import ObservationError, UsageError
from zombiescope.host.images import guestfs
from zombiescope.host.images.choose import open_image
from zombiescope.host.images.disks import disk_of, layout_of


def qcow2(*, backing: int = 0, features: int = 0, crypt: int = 0) -> bytes:
    head = struct.pack(">4sIQIIQI", b"QFI\xfb", 3, backing, 0, 16, 1 << 30, crypt)
    return head.ljust(72, b"\0") + struct.pack(">Q", features) + bytes(4096)


def vmdk(descriptor: bytes) -> bytes:
    return (b"KDMV" + bytes(24) + struct.pack("<QQ", 1, 20)).ljust(512, b"\0") + descriptor.ljust(10240, b"\0")


def vhd(kind: int, *, at_end: bool = False) -> bytes:
    foot = (b"conectix" + bytes(52) + struct.pack(">I", kind)).ljust(512, b"\0")
    return bytes(8192) + foot if at_end else foot + bytes(8192)


WHOLE = b"# Disk DescriptorFile\nCID=1\nparentCID=ffffffff\n"
KINDS = {
    "qcow2": (qcow2(), "qcow2"),
    "vmdk": (vmdk(WHOLE), "vmdk"),
    "dynamic vhd": (vhd(3), "vpc"),
    "fixed vhd": (vhd(2, at_end=True), "vpc"),
    "vhdx": (b"vhdxfile" + bytes(4096), "vhdx"),
    "vdi": (bytes(64) + b"\x7f\x10\xda\xbe" + bytes(4096), "vdi"),
}
LEADING_ELSEWHERE = {
    "backing file": qcow2(backing=512),
    "data file": qcow2(features=4),
    "parent by name": vmdk(WHOLE + b'parentFileNameHint="/etc/shadow"\n'),
    "parent by number": vmdk(WHOLE.replace(b"ffffffff", b"deadbeef")),
    "spaced parent": vmdk(WHOLE.replace(b"parentCID=", b"parentCID = ").replace(b"ffffffff", b"1")),
    "extents": b'# Disk DescriptorFile\nRW 2048 FLAT "/etc/shadow" 0\n' + bytes(512),
    "differencing vhd": vhd(4),
    "vdi with a parent": bytes(64) + b"\x7f\x10\xda\xbe" + bytes(8) + struct.pack("<I", 4) + bytes(4096),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_container_is_told_by_its_bytes(name: str) -> None:
    data, form = KINDS[name]
    disk = disk_of(io.BytesIO(data), b"x")
    assert disk is not None
    assert disk.format == form


@pytest.mark.parametrize("name", LEADING_ELSEWHERE)
def test_one_that_leads_to_other_files_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="other files are not opened"):
        disk_of(io.BytesIO(LEADING_ELSEWHERE[name]), b"x")


@pytest.mark.parametrize("data", [b"", b"QFI\xfb", b"KDMV", b"conectix", os.urandom(3000), bytes(9000)])
def test_a_stump_is_told_or_refused_and_never_a_bug(data: bytes) -> None:
    try:
        disk_of(io.BytesIO(data), b"x")
        layout_of(io.BytesIO(data))
    except UsageError:
        pass


SYSTEMS = {"XFS": (0, b"XFSB"), "btrfs": (0x10040, b"_BHRfS_M"), "squashfs": (0, b"hsqs"), "LVM": (512, b"LABELONE")}


def image(tmp_path: Path, data: bytes) -> bytes:
    path = tmp_path / "image"
    path.write_bytes(data)
    return os.fsencode(path)


@pytest.mark.parametrize("name", [*SYSTEMS, "qcow2"])
def test_without_libguestfs_that_is_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guestfs, "is_installed", lambda: False)
    offset, magic = SYSTEMS.get(name, (0, b""))
    data = qcow2() if name == "qcow2" else bytes(offset) + magic + bytes(70_000)
    with pytest.raises(ObservationError, match=f"{name}.*guestfish is not installed") as error:
        open_image(image(tmp_path, data), frozenset(), lambda _done, _total: None)
    assert "guestfish" in error.value.hint


def test_an_encrypted_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guestfs, "is_installed", lambda: True)
    with pytest.raises(ObservationError, match="encrypted"):
        open_image(image(tmp_path, qcow2(crypt=2)), frozenset(), lambda _done, _total: None)


def partitioned(*systems: tuple[int, bytes, int]) -> bytes:
    """An MBR with a system of this magic at this offset in each partition of a mebibyte."""
    disk = bytearray((len(systems) + 1) << 20)
    disk[510:512] = b"\x55\xaa"
    for number, (offset, magic, kind) in enumerate(systems):
        start = (number + 1) << 20
        disk[446 + 16 * number + 4] = kind
        disk[446 + 16 * number + 8 : 446 + 16 * number + 16] = struct.pack("<II", start >> 9, 2048)
        disk[start + offset : start + offset + len(magic)] = magic
    return bytes(disk)


EXT4 = (0x438, b"\x53\xef", 0x83)


def test_what_lies_in_partitions() -> None:
    layout = layout_of(io.BytesIO(partitioned(EXT4, (512, b"LABELONE", 0x8E))))
    assert (layout.ext4, layout.others) == ([1 << 20], ["LVM"])
    assert layout_of(io.BytesIO(partitioned(EXT4, (0, b"", 0x05)))).is_partly_known
    assert not layout_of(io.BytesIO(partitioned(EXT4))).is_partly_known


def test_several_ext4_without_libguestfs_are_not_guessed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zombiescope.host.images.choose.is_installed", lambda: False)
    with pytest.raises(ObservationError, match="2 ext4 file systems"):
        open_image(image(tmp_path, partitioned(EXT4, EXT4)), frozenset(), lambda _done, _total: None)


def test_a_registry_takes_skopeo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zombiescope.host.images.choose.shutil.which", lambda _name: None)
    with pytest.raises(ObservationError, match="skopeo, which pulls it, is not installed"):
        open_image(b"docker://registry.example/vale:2", frozenset(), lambda _done, _total: None)
