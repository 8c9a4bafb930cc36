# SPDX-License-Identifier: Apache-2.0
"""A tar archive as a stream of members, in constant memory, from a stranger.

Written here because the standard reader keeps every member it saw and reads extended headers of any size. Knows ustar,
GNU long names, pax paths, sizes and links, and old GNU sparse maps. A damaged header ends the archive with an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

BLOCK = 512
_EXTENDED_LIMIT = 1 << 20


class TarError(ValueError):
    """The archive is damaged or not a tar archive."""


class Source(Protocol):
    """Bytes in order; `skip` may seek."""

    def read(self, size: int) -> bytes: ...

    def skip(self, size: int) -> None:
        """Raises EOFError when there is less."""


class Type(Enum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "symbolic link"
    HARD_LINK = "hard link"
    OTHER = "device or pipe"


@dataclass(slots=True)
class Member:
    name: bytes
    type: Type
    size: int
    target: bytes
    mode: int
    _source: Source
    _left: int = field(default=0)

    def read(self, size: int) -> bytes:
        """The next bytes of the content; short only at its end."""
        wanted = min(size, self._left)
        data = _exactly(self._source, wanted)
        self._left -= wanted
        return data

    def content(self) -> bytes:
        return self.read(self._left)

    def skip(self, size: int) -> None:
        if size > self._left:
            raise EOFError
        self._source.skip(size)
        self._left -= size

    def finish(self) -> None:
        """Past the content and its padding."""
        self._source.skip(self._left + -self.size % BLOCK)
        self._left = 0


def members(source: Source) -> Iterator[Member]:
    """Every member, in order. Content left unread is skipped. Raises TarError, or EOFError when it ends too early."""
    extended: dict[str, bytes] = {}
    while True:
        header = source.read(BLOCK)
        if header == bytes(BLOCK):
            return
        if len(header) < BLOCK:
            raise EOFError("the archive ends without its end mark")
        _check(header)
        kind = header[156:157]
        size = _number(header[124:136])
        if kind in b"xgLK":
            _extend(source, kind, size, extended)
            continue
        if kind == b"S":
            _skip_sparse_maps(source, header)
        member = _member(source, header, kind, size, extended)
        yield member
        member.finish()
        extended = {key: value for key, value in extended.items() if key.startswith("global ")}


def _member(source: Source, header: bytes, kind: bytes, size: int, extended: dict[str, bytes]) -> Member:
    def said(key: str, default: bytes) -> bytes:
        return extended.get(key, extended.get(f"global {key}", default))

    if "size" in extended:
        size = _decimal(extended["size"])
    name = header[:100].split(b"\0", 1)[0]
    if header[257:262] == b"ustar" and header[263:265] == b"00":
        prefix = header[345:500].split(b"\0", 1)[0]
        name = prefix + b"/" + name if prefix else name
    types = {
        b"1": Type.HARD_LINK,
        b"2": Type.LINK,
        b"5": Type.FOLDER,
        b"3": Type.OTHER,
        b"4": Type.OTHER,
        b"6": Type.OTHER,
    }
    type_ = types.get(kind, Type.FILE)
    name = said("path", name)
    if kind == b"\0" and name.endswith(b"/"):
        type_ = Type.FOLDER
    held = size if type_ is Type.FILE else 0
    target = said("linkpath", header[157:257].split(b"\0", 1)[0])
    return Member(name, type_, held, target, _number(header[100:108]), source, held)


def _extend(source: Source, kind: bytes, size: int, extended: dict[str, bytes]) -> None:
    if size > _EXTENDED_LIMIT:
        raise TarError(f"an extended header of {size:,} bytes")
    data = _exactly(source, size)
    source.skip(-size % BLOCK)
    if kind in b"LK":
        extended["path" if kind == b"L" else "linkpath"] = data.split(b"\0", 1)[0]
        return
    prefix = "global " if kind == b"g" else ""
    while data.strip(b"\0"):
        length, _, _rest = data.partition(b" ")
        end = _decimal(length)
        if not len(length) + 1 < end <= len(data):
            raise TarError("a pax record of a wrong length")
        key, _, value = data[len(length) + 1 : end - 1].partition(b"=")
        if key in (b"path", b"linkpath", b"size"):
            extended[prefix + key.decode()] = value
        data = data[end:]


def _skip_sparse_maps(source: Source, header: bytes) -> None:
    more = header[482]
    while more:
        more = _exactly(source, BLOCK)[504]


def _check(header: bytes) -> None:
    try:
        expected = int(header[148:156].strip(b" \0") or b"-1", 8)
    except ValueError:
        expected = -1
    if expected != sum(header[:148]) + 8 * 32 + sum(header[156:]):
        raise TarError("a header with a wrong checksum: damaged, or not a tar archive")


def _number(text: bytes) -> int:
    if text[0] & 0x80:
        return int.from_bytes(bytes([text[0] & 0x7F]) + text[1:], "big") if text[0] == 0x80 else 0
    try:
        return int(text.split(b"\0", 1)[0].strip() or b"0", 8)
    except ValueError as error:
        raise TarError("a header with a number that is none") from error


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 20:
        raise TarError("an extended header with a number that is none")
    return int(text)


def _exactly(source: Source, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError("the archive ends inside a member")
    return data
