# SPDX-License-Identifier: Apache-2.0
"""What lies beside the database in a state folder: the append log, and the names of pods.

The log has one record a line, each with its checksum, so that a torn or damaged line is known and the others stand:
`CRC32 of the rest, eight hex digits; space; JSON`. Appended with one write(2): kill -9 loses at most the line being written.
"""

import errno
import json
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from sys import intern
from typing import Any

from zombiescope.facts.history import Happening, Sample
from zombiescope.host.own_folder import STATE, own_folder
from zombiescope.host.safe_open import open_regular
from zombiescope.host.whole_file import write_whole_in

Record = Sample | Happening
_LONGEST_TORN_LINE = 1 << 20

_BEGUN = re.compile(rb"[0-9a-f]{1,8}\Z|[0-9a-f]{8} (?:\[|\Z)")


def encode(record: Record) -> bytes:
    if isinstance(record, Sample):
        body: list[object] = ["s", record.number, round(record.at, 3), record.boot, dict(record.values)]
    else:
        body = ["e", record.number, round(record.at, 3), record.boot, record.what, record.detail]
    text = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode(line: bytes) -> Record | None:
    """None for anything that is not a whole record of ours."""
    if len(line) < 10 or line[8:9] != b" ":
        return None
    try:
        return _record(json.loads(line[9:])) if int(line[:8], 16) == zlib.crc32(line[9:]) else None
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _record(fields: list[Any]) -> Record:
    """Raises what a stranger's line makes it raise."""
    if fields[0] == "s":
        _, number, at, boot, values = fields
        if not isinstance(values, dict) or not _NUMBERS.issuperset(map(type, values.values())):
            raise TypeError("not numbers by name")
        return Sample(int(number), float(at), intern(str(boot)), values)
    _, number, at, boot, what, detail = fields
    return Happening(int(number), float(at), str(boot), str(what), str(detail))


_NUMBERS = frozenset({int, float})


def read_log(path: str) -> tuple[list[Record], int]:
    """Every whole record, and how many damaged lines there are. A torn last line is not damage: it was being written."""
    try:
        descriptor, _ = open_regular(path, follow=True)
    except FileNotFoundError:
        return [], 0
    records: list[Record] = []
    damaged, rest = 0, b""
    with os.fdopen(descriptor, "rb") as file:
        while piece := file.read(1 << 18):
            *lines, rest = (rest + piece).split(b"\n")
            more, wrong = _decoded(lines)
            records += more
            damaged += wrong
            if len(rest) > _LONGEST_TORN_LINE:
                rest, damaged = b"", damaged + 1
    return records + _decoded([rest])[0], damaged


def parse_log(content: bytes) -> tuple[list[Record], int]:
    *lines, torn = content.split(b"\n")
    records, damaged = _decoded(lines)
    return records + _decoded([torn])[0], damaged


def _decoded(lines: list[bytes]) -> tuple[list[Record], int]:
    """All at once where each is as it was written: so that the names of their series are read and kept once, not for every line."""
    if all(len(line) > 9 and line[:8] == b"%08x" % zlib.crc32(line[9:]) for line in lines):
        with suppress(ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return [_record(each) for each in json.loads(b"[%s]" % b",".join([line[9:] for line in lines]))], 0
    records = [record for record in map(decode, lines) if record is not None]
    return records, len(lines) - len(records)


class AppendLog:
    """Opened for appending. A write that fails is taken back, so that the log never ends in a half line of ours."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._take_back_a_torn_line()
        self._end_the_last_line()
        self._size = self.size()

    def bytes_cut_off(self) -> int:
        """By somebody else, since the last write."""
        size = self.size()
        gone, self._size = max(self._size - size, 0), size
        return gone

    def is_in_its_place(self) -> bool:
        """Nobody took the file away or put another one there."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
        except OSError:
            return False

    def records(self) -> list[Record]:
        """What is in the file that is open, wherever it is now."""
        return parse_log(os.pread(self._descriptor, self.size(), 0))[0]

    def append(self, records: list[Record]) -> None:
        self._end_the_last_line()
        before = self.size()
        content = b"".join(map(encode, records))
        try:
            written = os.write(self._descriptor, content)
        except OSError:
            self._take_back(before)
            raise
        if written < len(content):
            self._take_back(before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        self._size = before + written

    def _take_back(self, size: int) -> None:
        with suppress(OSError):
            os.ftruncate(self._descriptor, size)

    def replace(self, records: Iterator[Record] | list[Record]) -> None:
        """The log with these records only: written beside, synced, put in its place in one step."""
        beside = self.path + ".new"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(map(encode, records))
                file.flush()
                os.fsync(file.fileno())
            os.rename(beside, self.path)
        except OSError:
            with suppress(OSError):
                os.unlink(beside)
            raise
        os.close(self._descriptor)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        self._size = self.size()

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)

    def _take_back_a_torn_line(self) -> None:
        """A kill can cut a write where a page ends: what was being written is no damage. A whole record that only lacks its end
        stays."""
        size = self.size()
        tail = os.pread(self._descriptor, _LONGEST_TORN_LINE, max(size - _LONGEST_TORN_LINE, 0))
        begin = tail.rfind(b"\n") + 1
        if _BEGUN.match(tail, begin) and (begin or size <= len(tail)) and decode(tail[begin:]) is None:
            self._take_back(size - len(tail) + begin)

    def _end_the_last_line(self) -> None:
        """A record that lacks its end, or what a stranger wrote, must not swallow the next one."""
        size = self.size()
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")


POD_FILE, _MOST_POD_BYTES = "pods.json", 4 << 20


def read_pod_file(folder: bytes) -> bytes:
    """Nothing where there is none; raises OSError. What it says are names, and strangers': whoever prints them knows."""
    try:
        with os.fdopen(open_regular(os.path.join(folder, POD_FILE.encode()))[0], "rb") as file:
            text = file.read(_MOST_POD_BYTES + 1)
    except FileNotFoundError:
        return b""
    return text if len(text) <= _MOST_POD_BYTES else b""


def write_pod_file(folder: bytes, text: bytes) -> None:
    """Raises OSError."""
    with own_folder(os.fsdecode(folder) + "/.", STATE) as place:
        write_whole_in(place, POD_FILE, [text])
