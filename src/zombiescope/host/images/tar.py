# SPDX-License-Identifier: Apache-2.0
"""A tar archive as a stream of members, in constant memory, from a stranger.

Written here because the standard reader keeps every member it saw and reads extended headers of any size. Knows ustar,
GNU long names, pax paths, sizes and links, and old GNU sparse maps. A damaged header ends the archive with an error.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

BLOCK = 512
_EXTENDED_LIMIT = 1 << 20
"""Names are at most 4 KiB; what else is here are extended attributes of 64 KiB."""
_MOST_RECORDS = 1 << 14
"""Some ten are usual; one per extended attribute."""
_MOST_EXTENDED = 1 << 24
"""In a row, without a member after them: two are usual."""
_LONGEST_DECIMAL = 20


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


_TYPES = {b"1": Type.HARD_LINK, b"2": Type.LINK, b"5": Type.FOLDER} | dict.fromkeys((b"3", b"4", b"6"), Type.OTHER)


@dataclass(slots=True)
class Member:
    name: bytes
    type: Type
    size: int
    target: bytes
    mode: int
    _source: Source
    _left: int = 0

    def read(self, size: int) -> bytes:
        """The next bytes of the content; short only at its end."""
        data = _exactly(self._source, min(size, self._left))
        self._left -= len(data)
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
    unused = 0
    while True:
        if (header := source.read(BLOCK)) == bytes(BLOCK):
            return
        if len(header) < BLOCK:
            raise EOFError("the archive ends without its end mark")
        _check(header)
        kind, size = header[156:157], _number(header[124:136])
        if kind in b"xgLK":
            _extend(source, kind, size, extended)
            unused += BLOCK + size
            if unused > _MOST_EXTENDED:
                raise TarError("extended headers without a member")
            continue
        unused = 0
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
    name, target = _until_nul(header[:100]), _until_nul(header[157:257])
    if header[257:262] == b"ustar" and header[263:265] == b"00" and (prefix := _until_nul(header[345:500])):
        name = prefix + b"/" + name
    name = said("path", name)
    type_ = _TYPES.get(b"5" if kind == b"\0" and name.endswith(b"/") else kind, Type.FILE)
    held = size if type_ is Type.FILE else 0
    return Member(name, type_, held, said("linkpath", target), _number(header[100:108]), source, held)


def _until_nul(text: bytes) -> bytes:
    return text.partition(b"\0")[0]


def _extend(source: Source, kind: bytes, size: int, extended: dict[str, bytes]) -> None:
    if size > _EXTENDED_LIMIT:
        raise TarError(f"an extended header of {size:,} bytes")
    data = _exactly(source, size)
    source.skip(-size % BLOCK)
    if kind in b"LK":
        extended["path" if kind == b"L" else "linkpath"] = _until_nul(data)
        return
    prefix = "global " if kind == b"g" else ""
    for key, value in _records(data.rstrip(b"\0")):
        if key in (b"path", b"linkpath", b"size"):
            extended[prefix + key.decode()] = value


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each pax record. Nothing is copied but the record itself: a header may have a quarter of a million."""
    at = count = 0
    while at < len(data):
        blank = data.find(b" ", at, at + _LONGEST_DECIMAL + 1)
        end = at + _decimal(data[at : max(at, blank)])
        count += 1
        if not blank + 1 < end <= len(data) or count > _MOST_RECORDS:
            raise TarError("a pax record of a wrong length, or too many of them")
        key, _, value = data[blank + 1 : end - 1].partition(b"=")
        yield key, value
        at = end


def _skip_sparse_maps(source: Source, header: bytes) -> None:
    more, blocks = header[482], 0
    while more:
        more, blocks = _exactly(source, BLOCK)[504], blocks + 1
        if blocks > _MOST_EXTENDED // BLOCK:
            raise TarError("a sparse map without end")


def _check(header: bytes) -> None:
    with suppress(ValueError):
        if int(header[148:156].strip(b" \0") or b"-1", 8) == sum(header[:148]) + 8 * 32 + sum(header[156:]):
            return
    raise TarError("a header with a wrong checksum: damaged, or not a tar archive")


def _number(text: bytes) -> int:
    if text[0] & 0x80:
        return int.from_bytes(bytes([text[0] & 0x7F]) + text[1:], "big") if text[0] == 0x80 else 0
    try:
        number = int(_until_nul(text).strip() or b"0", 8)
    except ValueError as error:
        raise TarError("a header with a number that is none") from error
    if number < 0:
        raise TarError("a header with a number below zero")
    return number


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > _LONGEST_DECIMAL:
        raise TarError("an extended header with a number that is none")
    return int(text)


def _exactly(source: Source, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError("the archive ends inside a member")
    return data
