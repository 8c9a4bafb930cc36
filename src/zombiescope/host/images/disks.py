# SPDX-License-Identifier: Apache-2.0
"""What kind of disk stands in a file, told from its own bytes and never from its name: containers such as qcow2, and file systems.

A disk that leads to other files (a backing file, an extent, a parent) is refused: whoever made it would choose which of this
machine's files are opened, or which server is called.
"""

from __future__ import annotations

import os
import struct
from typing import IO, NamedTuple

from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.host.images.ext4 import MAGIC, MAGIC_OFFSET, partitions

_SECTOR = 512
_DESCRIPTOR_BYTES = 1 << 20
_EXTENDED = (0x05, 0x0F, 0x85)
_CONVERT = "qemu-img convert -O qcow2 IMAGE flat.qcow2 copies it into one file"
_SYSTEMS = (
    (0, b"XFSB", "XFS"),
    (0x10040, b"_BHRfS_M", "btrfs"),
    (0, b"hsqs", "squashfs"),
    (0, b"LUKS\xba\xbe", "LUKS"),
    (0x8001, b"CD001", "ISO 9660"),
    (_SECTOR, b"LABELONE", "LVM"),
    (0, b"LABELONE", "LVM"),
    (MAGIC_OFFSET, MAGIC, "ext4"),
)


class Disk(NamedTuple):
    kind: str
    """For a person: `qcow2 disk`."""
    format: str
    """For QEMU: never guessed by it, since a guest could write another format's header into a raw disk."""
    is_encrypted: bool = False


class Layout(NamedTuple):
    """The file systems of a raw disk, by where they begin."""

    systems: dict[int, str]
    is_partitioned: bool
    is_partly_known: bool = False
    """There is more in it than we look for: logical partitions, sectors of another size."""

    @property
    def ext4(self) -> list[int]:
        return [offset for offset, name in self.systems.items() if name == "ext4"]

    @property
    def others(self) -> list[str]:
        return [name for name in self.systems.values() if name != "ext4"]


def disk_of(file: IO[bytes], path: bytes) -> Disk | None:
    """A disk in a container of its own; None for a raw one, and for what is no disk. Raises UsageError."""
    head = _at(file, 0, 4096).ljust(4096, b"\0")
    if head.startswith(b"QFI\xfb"):
        return _qcow2(head, path)
    if head.startswith(b"KDMV"):
        return _vmdk(file, head, path)
    if head.startswith(b"# Disk DescriptorFile"):
        raise _refused(path, "a VMDK description of other files")
    if head[64:68] == b"\x7f\x10\xda\xbe":
        if struct.unpack_from("<I", head, 76)[0] == 4:
            raise _refused(path, "a VDI disk with a parent")
        return Disk("VDI disk", "vdi")
    if head.startswith(b"vhdxfile"):
        return Disk("VHDX disk", "vhdx")
    return _vhd(file, head, path)


def _qcow2(head: bytes, path: bytes) -> Disk:
    version, backing = struct.unpack_from(">IQ", head, 4)
    features = struct.unpack_from(">Q", head, 72)[0] if version >= 3 else 0
    if backing:
        raise _refused(path, "a qcow2 disk with a backing file")
    if features & 4:
        raise _refused(path, "a qcow2 disk with its data in another file")
    return Disk("qcow2 disk", "qcow2", is_encrypted=bool(struct.unpack_from(">I", head, 32)[0]))


def _vmdk(file: IO[bytes], head: bytes, path: bytes) -> Disk:
    offset, sectors = struct.unpack_from("<QQ", head, 28)
    said = _at(file, offset * _SECTOR, min(sectors * _SECTOR, _DESCRIPTOR_BYTES)).partition(b"\0")[0].lower()
    parent = [line for line in said.splitlines() if line.replace(b" ", b"").startswith(b"parentcid=")]
    if b"parentfilenamehint" in said or any(b"ffffffff" not in line for line in parent):
        raise _refused(path, "a VMDK disk with a parent")
    return Disk("VMDK disk", "vmdk")


def _vhd(file: IO[bytes], head: bytes, path: bytes) -> Disk | None:
    size = file.seek(0, os.SEEK_END)
    foot = head if head.startswith(b"conectix") else _at(file, max(size - _SECTOR, 0), _SECTOR).ljust(_SECTOR, b"\0")
    if not foot.startswith(b"conectix"):
        return None
    if struct.unpack_from(">I", foot, 60)[0] not in (2, 3):
        raise _refused(path, "a VHD disk with a parent")
    return Disk("VHD disk", "vpc")


def layout_of(file: IO[bytes]) -> Layout:
    """Of a raw disk; empty systems where none is known."""
    bare = _system(file, 0)
    if bare and bare != "ISO 9660":
        return Layout({0: bare}, is_partitioned=False)
    head = _at(file, 0, 34 * _SECTOR)
    starts = partitions(head)
    found = {start: name for start in starts if (name := _system(file, start))}
    types = [head[446 + 16 * number + 4] for number in range(4)] if head[510:512] == b"\x55\xaa" else []
    is_more = any(kind in _EXTENDED for kind in types) or _at(file, 4096, 8) == b"EFI PART"
    if bare and not found:
        found[0] = bare
    return Layout(found, bool(starts) or is_more, is_more)


def _system(file: IO[bytes], start: int) -> str:
    return next((name for offset, magic, name in _SYSTEMS if _at(file, start + offset, len(magic)) == magic), "")


def _at(file: IO[bytes], offset: int, size: int) -> bytes:
    """Less where the file ends, nothing where nothing can be."""
    try:
        file.seek(offset)
        return file.read(size)
    except (OSError, OverflowError, ValueError):
        return b""


def _refused(path: bytes, what: str) -> UsageError:
    return UsageError(f"cannot read the image {shown(path)}", f"it is {what}: other files are not opened", _CONVERT)
