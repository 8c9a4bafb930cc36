# SPDX-License-Identifier: Apache-2.0
"""A raw ext2, ext3 or ext4 image, bare or inside a partition table, read by debugfs and never mounted.

Everything is asked for by inode number, so no name from the image ever reaches debugfs' command line.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.host.bounds import limit_child
from zombiescope.host.files import READ_LIMIT_BYTES, Entry, Kind
from zombiescope.host.images.memory import MemoryTree

_LINE = re.compile(rb"/(\d+)/(\d{6})/\d+/\d+/([^/]*)/(\d*)/")
_KINDS = {0o100000: Kind.FILE, 0o040000: Kind.FOLDER, 0o120000: Kind.LINK}
_DEPTH = 12
_FOLDERS_AT_MOST = 5000
_ROOT_INODE = 2
_MOST_SAID = 32 << 20
"""What debugfs may write into one file: 5,000 folders with 200 names each."""
_MOST_COMPLAINTS = 1 << 16
_DEBUGFS_BYTES = 224 << 20
"""The bitmaps of a file system of 4 TiB take 160 MiB."""
_DEBUGFS_SECONDS = 30
"""For one list of questions: a whole one takes less than a second."""
_LONGEST_TARGET = 4096
MAGIC_OFFSET = 0x438
MAGIC = b"\x53\xef"


@dataclass(frozen=True, slots=True)
class _Item:
    path: bytes
    inode: int
    mode: int
    size: int

    @property
    def kind(self) -> Kind:
        return _KINDS.get(self.mode & 0o170000, Kind.OTHER)


def partitions(head: bytes) -> list[int]:
    """Where the partitions of a disk begin, by its first 34 sectors."""
    if head[510:512] != b"\x55\xaa":
        return []
    if head[512:520] == b"EFI PART":
        entries = (head[at : at + 128] for at in range(1024, len(head), 128))
        return [
            struct.unpack_from("<Q", entry, 32)[0] * 512 for entry in entries if len(entry) == 128 and any(entry[:16])
        ]
    entries = (head[446 + 16 * number : 462 + 16 * number] for number in range(4))
    return [struct.unpack_from("<I", entry, 8)[0] * 512 for entry in entries if entry[4]]


def read_ext4(image: bytes, offset: int, tree: MemoryTree) -> None:
    program = shutil.which("debugfs") or shutil.which("debugfs", path="/usr/sbin:/sbin")
    if program is None:
        raise ObservationError("cannot read a raw ext4 image", "debugfs is not installed", "install e2fsprogs")
    device = os.path.abspath(image) + (f"?offset={offset}".encode() if offset else b"")
    reader = _Debugfs(os.fsencode(program), device)
    folders = [_Item(b"", _ROOT_INODE, 0o040755, 0)]
    seen = {_ROOT_INODE}
    for _ in range(_DEPTH):
        wanted = [item for item in reader.listings(folders) if tree.wants(item.path, item.kind)]
        reader.fill(wanted, tree)
        folders = [item for item in wanted if item.kind is Kind.FOLDER and item.inode not in seen]
        seen.update(item.inode for item in folders)
        if len(seen) > _FOLDERS_AT_MOST:
            tree.refuse(b"/", f"more than {_FOLDERS_AT_MOST:,} folders: the rest was not read")
            return
        if not folders:
            return


class _Debugfs:
    def __init__(self, program: bytes, device: bytes) -> None:
        self._program = program
        self._device = device

    def listings(self, folders: list[_Item]) -> Iterator[_Item]:
        answers = self._ask([f"ls -p <{folder.inode}>" for folder in folders])
        for folder, answer in zip(folders, answers, strict=True):
            yield from _items(folder.path, answer)

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
            said = re.search(rb'^Fast link dest: "(.*)"$', answer, re.MULTILINE | re.DOTALL)
            if said:
                found[link.inode] = said[1]
        return found | self._contents(
            [link for link in links if link.inode not in found and link.size < _LONGEST_TARGET]
        )

    def _contents(self, files: list[_Item]) -> dict[int, bytes]:
        if not files:
            return {}
        found: dict[int, bytes] = {}
        with tempfile.TemporaryDirectory(prefix="zombiescope-") as folder:
            self._ask([f"dump <{file.inode}> {folder}/{file.inode}" for file in files])
            for file in files:
                try:
                    with open(f"{folder}/{file.inode}", "rb") as handle:
                        found[file.inode] = handle.read(READ_LIMIT_BYTES + 1)[:READ_LIMIT_BYTES]
                except FileNotFoundError:
                    continue
        return found

    def _ask(self, commands: list[str]) -> list[bytes]:
        """One answer a command; debugfs repeats each command before its answer."""
        if not commands:
            return []
        script = "".join(f"{command}\n" for command in commands).encode()
        said, complaints = self._run(script)
        marks, at = [], 0
        for command in commands:
            mark = b"debugfs: " + command.encode() + b"\n"
            begin = said.find(mark, at)
            if begin < 0:
                why = shown(complaints[-1]) if complaints else "debugfs gave no answer"
                raise ObservationError("cannot read the image", why, "try e2fsck -n")
            at = begin + len(mark)
            marks.append((begin, at))
        ends = [*(begin for begin, _ in marks[1:]), len(said)]
        return [said[begin:end] for (_, begin), end in zip(marks, ends, strict=True)]

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
                    preexec_fn=_limited,
                )
            except subprocess.TimeoutExpired as error:
                why = "debugfs did not end within 5 minutes"
                raise ObservationError("cannot read the image", why, "is it damaged?") from error
            out.seek(0)
            errors.seek(0)
            return out.read(_MOST_SAID), errors.read(_MOST_COMPLAINTS).strip().splitlines()


def _limited() -> None:
    limit_child(_DEBUGFS_BYTES, _DEBUGFS_SECONDS, _MOST_SAID)


def _items(folder: bytes, answer: bytes) -> Iterator[_Item]:
    for line in answer.split(b"\n"):
        said = _LINE.fullmatch(line)
        if said and said[3] not in (b"", b".", b"..") and int(said[1]):
            yield _Item(folder + b"/" + said[3], int(said[1]), int(said[2], 8), int(said[4] or b"0"))
