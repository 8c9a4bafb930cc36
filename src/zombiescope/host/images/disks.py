# SPDX-License-Identifier: Apache-2.0
"""What kind of disk stands in a file, told from its own bytes and never from its name: containers such as qcow2, and file systems.

A disk that leads to other files (a backing file, an extent, a parent) is refused: whoever made it would choose which of this
machine's files are opened, or which server is called.
"""

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, NamedTuple

from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.names import shown
from zombiescope.host.bounds import limit_child
from zombiescope.host.files import READ_LIMIT_BYTES, Entry, Kind, kind_of
from zombiescope.host.images.archive import MemoryTree

_LINE = re.compile(rb"/(\d+)/(\d{6})/\d+/\d+/([^/]*)/(\d*)/")

_DEPTH, _FOLDERS_AT_MOST = 12, 5000
_ROOT_INODE = 2
_MOST_SAID = 32 << 20
"""What debugfs may write into one file: 5,000 folders with 200 names each."""
_MOST_COMPLAINTS = 1 << 16
_DEBUGFS_BYTES = 224 << 20
"""The bitmaps of a file system of 4 TiB take 160 MiB."""
_DEBUGFS_SECONDS = 30
"""For one list of questions: a whole one takes less than a second."""
_LONGEST_TARGET = 4096
MAGIC_OFFSET, MAGIC = 0x438, b"\x53\xef"


@dataclass(frozen=True, slots=True)
class _Item:
    path: bytes
    inode: int
    mode: int
    size: int

    @property
    def kind(self) -> Kind:
        return kind_of(self.mode)


def partitions(head: bytes) -> list[int]:
    """Where the partitions of a disk begin, by its first 34 sectors."""
    if head[510:512] != b"\x55\xaa":
        return []
    if head[512:520] == b"EFI PART":
        table = head[1024 : len(head) // 128 * 128]
        return [first * 512 for kind, first in struct.iter_unpack("<16s16xQ88x", table) if any(kind)]
    return [first * 512 for _, kind, first, _ in struct.iter_unpack("<4I", head[446:510]) if kind & 0xFF]


def read_ext4(image: bytes, offset: int, tree: MemoryTree) -> None:
    program = os.fsencode(find_debugfs("cannot read a raw ext4 image"))
    reader = _Debugfs(program, os.path.abspath(image) + (f"?offset={offset}".encode() if offset else b""))
    folders = [_Item(b"", _ROOT_INODE, 0o040755, 0)]
    seen = {_ROOT_INODE}
    for _ in range(_DEPTH):
        wanted = [item for item in reader.listings(folders) if tree.wants(item.path, item.kind)]
        reader.fill(wanted, tree)
        folders = [item for item in wanted if item.kind is Kind.FOLDER and item.inode not in seen]
        seen.update(item.inode for item in folders)
        if len(seen) > _FOLDERS_AT_MOST:
            tree.refuse(b"/", f"more than {_FOLDERS_AT_MOST:,} folders: the rest was not read")
        if len(seen) > _FOLDERS_AT_MOST or not folders:
            return


def find_debugfs(what: str) -> str:
    program = shutil.which("debugfs") or shutil.which("debugfs", path="/usr/sbin:/sbin")
    if program is None:
        raise ObservationError(what, "debugfs is not installed", "install e2fsprogs")
    return program


def roomy_folder() -> str | None:
    """Where disks are: the usual one, which is None, is often memory."""
    is_roomy = not os.environ.get("TMPDIR") and os.access("/var/tmp", os.W_OK)  # noqa: S108 (a folder of our own in it)
    return "/var/tmp" if is_roomy else None  # noqa: S108


class _Debugfs:
    def __init__(self, program: bytes, device: bytes) -> None:
        self._program, self._device = program, device

    def listings(self, folders: list[_Item]) -> Iterator[_Item]:
        for folder, answer in zip(folders, self._ask([f"ls -p <{folder.inode}>" for folder in folders]), strict=True):
            for said in filter(None, map(_LINE.fullmatch, answer.split(b"\n"))):
                if said[3] not in (b"", b".", b"..") and int(said[1]):
                    yield _Item(folder.path + b"/" + said[3], int(said[1]), int(said[2], 8), int(said[4] or b"0"))

    def fill(self, items: list[_Item], tree: MemoryTree) -> None:
        targets = self._targets([item for item in items if item.kind is Kind.LINK])
        files = [item for item in items if item.kind is Kind.FILE and item.size <= READ_LIMIT_BYTES]
        contents = self._contents([item for item in files if tree.reserve(item.path, item.size)])
        for item in items:
            if item.kind is Kind.FILE and item.inode not in contents and item.path not in tree.large_paths:
                tree.refuse(item.path, f"{item.size:,} bytes, more than an audit keeps, or damaged: not read")
            entry = Entry(item.kind, item.size, targets.get(item.inode, b""), bool(item.mode & 0o111))
            tree.put(item.path, entry, contents.get(item.inode, b""))

    def _targets(self, links: list[_Item]) -> dict[int, bytes]:
        """Short ones are in the inode; longer ones are content."""
        found: dict[int, bytes] = {}
        for link, answer in zip(links, self._ask([f"stat <{link.inode}>" for link in links]), strict=True):
            if said := re.search(rb'^Fast link dest: "(.*)"$', answer, re.MULTILINE | re.DOTALL):
                found[link.inode] = said[1]
        return found | self._contents(
            [link for link in links if link.inode not in found and link.size < _LONGEST_TARGET]
        )

    def _contents(self, files: list[_Item]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        with tempfile.TemporaryDirectory(prefix="zombiescope-") as folder:
            self._ask([f"dump <{file.inode}> {folder}/{file.inode}" for file in files])
            for file in files:
                with suppress(FileNotFoundError), open(f"{folder}/{file.inode}", "rb") as handle:
                    found[file.inode] = handle.read(READ_LIMIT_BYTES)
        return found

    def _ask(self, commands: list[str]) -> list[bytes]:
        """One answer a command; debugfs repeats each command before its answer."""
        if not commands:
            return []
        said, complaints = self._run("".join(f"{command}\n" for command in commands).encode())
        begins, ends = [0], []
        for command in commands:
            mark = b"debugfs: " + command.encode() + b"\n"
            ends.append(said.find(mark, begins[-1]))
            begins.append(ends[-1] + len(mark))
            if ends[-1] < 0:
                raise ObservationError(
                    "cannot read the image",
                    shown(complaints[-1]) if complaints else "debugfs gave no answer",
                    "try e2fsck -n",
                )
        return [said[begin:end] for begin, end in zip(begins[1:], [*ends[1:], len(said)], strict=True)]

    def _run(self, script: bytes) -> tuple[bytes, list[bytes]]:
        """What it said, and its complaints by line. Into files, whose size the kernel bounds."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            try:
                subprocess.run(
                    [self._program, b"-f", b"-", self._device],
                    input=script,
                    stdout=out,
                    stderr=errors,
                    timeout=300,
                    check=False,
                    preexec_fn=lambda: limit_child(_MOST_SAID, _DEBUGFS_SECONDS, _DEBUGFS_BYTES),
                )
            except subprocess.TimeoutExpired as error:
                raise ObservationError(
                    "cannot read the image", "debugfs did not end within 5 minutes", "is it damaged?"
                ) from error
            out.seek(0)
            errors.seek(0)
            return out.read(_MOST_SAID), errors.read(_MOST_COMPLAINTS).strip().splitlines()


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
    return Disk("VHDX disk", "vhdx") if head.startswith(b"vhdxfile") else _vhd(file, head, path)


def _qcow2(head: bytes, path: bytes) -> Disk:
    version, backing = struct.unpack_from(">IQ", head, 4)
    features = struct.unpack_from(">Q", head, 72)[0] if version >= 3 else 0
    if backing or features & 4:
        raise _refused(path, f"a qcow2 disk with {'a backing file' if backing else 'its data in another file'}")
    return Disk("qcow2 disk", "qcow2", is_encrypted=bool(struct.unpack_from(">I", head, 32)[0]))


def _vmdk(file: IO[bytes], head: bytes, path: bytes) -> Disk:
    offset, sectors = struct.unpack_from("<QQ", head, 28)
    said = _at(file, offset * _SECTOR, min(sectors * _SECTOR, _DESCRIPTOR_BYTES)).partition(b"\0")[0].lower()
    parents = (line for line in said.splitlines() if line.replace(b" ", b"").startswith(b"parentcid="))
    if b"parentfilenamehint" in said or any(b"ffffffff" not in line for line in parents):
        raise _refused(path, "a VMDK disk with a parent")
    return Disk("VMDK disk", "vmdk")


def _vhd(file: IO[bytes], head: bytes, path: bytes) -> Disk | None:
    last = max(file.seek(0, os.SEEK_END) - _SECTOR, 0)
    foot = head if head.startswith(b"conectix") else _at(file, last, _SECTOR).ljust(_SECTOR, b"\0")
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
    return Layout(found or ({0: bare} if bare else {}), bool(starts) or is_more, is_more)


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
