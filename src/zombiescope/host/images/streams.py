# SPDX-License-Identifier: Apache-2.0
"""Bytes of an image file in order, unpacked on the way, with progress: gzip, bzip2, xz, zstd."""

import bz2
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Protocol

from zombiescope.host.images.tar import Member, Source, TarError
from zombiescope.host.zstd import ZstdLibrary, ZstdUnpacker

_CHUNK, _TOLD_EVERY = 1 << 18, 1 << 20
_MOST_TIMES = 100
"""Images unpack to three times their size, sparse ones to thirty."""
_LEAST_ALLOWED = 320 << 20
"""A small image with a swap file: unpacked within seconds by every packer."""
_STREAM_COST = 1 << 16
"""What beginning another packed stream counts for: one of nothing takes 14 bytes."""
_XZ_MEMORY = 100 << 20
"""`xz -9` needs 65 MiB to unpack."""
UNPACKING_ERRORS = (zlib.error, lzma.LZMAError, ValueError)


class Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class Allowance:
    """How many bytes a file may unpack to, with all archives inside it."""

    def __init__(self, packed_bytes: int) -> None:
        self._most = self._left = _LEAST_ALLOWED + _MOST_TIMES * packed_bytes

    def take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TarError(f"it unpacks to more than {self._most:,} bytes; unpack it first if you trust it")


class FileSource:
    """A seekable file; skipping costs nothing."""

    def __init__(self, file: IO[bytes], progress: Callable[[int], None], end: int) -> None:
        self._file, self._progress, self._end, self._told = file, progress, end, 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._tell()
        return data

    def _tell(self) -> None:
        """Every mebibyte: an image may have a hundred thousand headers."""
        here = self._file.tell()
        if here - self._told >= _TOLD_EVERY or here == self._end:
            self._told = here
            self._progress(here)

    def skip(self, size: int) -> None:
        if self._file.seek(size, 1) > self._end:
            raise EOFError("the archive ends inside a member")
        self._tell()


class PackedSource:
    """What an unpacker makes of a source, a bounded piece at a time."""

    def __init__(self, source: Source | Member, first: bytes, allowance: Allowance) -> None:
        self._source, self._allowance, self._packed = source, allowance, first
        self._make = _unpacker_of(first)
        self._unpacker: Unpacker = self._make()
        self._ready = b""

    def read(self, size: int) -> bytes:
        return b"".join(self._pieces(size))

    def skip(self, size: int) -> None:
        if sum(map(len, self._pieces(size))) < size:
            raise EOFError("the archive ends inside a member")

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size > 0 and self._fill():
            piece, self._ready = self._ready[:size], self._ready[size:]
            yield piece
            size -= len(piece)

    def _fill(self) -> bool:
        """Whether there is more; never more than one chunk ahead, however well it was packed."""
        while not self._ready:
            if self._unpacker.eof and not self._next_stream():
                return False
            data = b""
            if self._unpacker.needs_input:
                data, self._packed = self._packed or self._source.read(_CHUNK), b""
                if not data:
                    raise EOFError("the packed data ends too early")
            self._ready = self._unpacker.decompress(data, _CHUNK)
            self._allowance.take(len(self._ready))
        return True

    def _next_stream(self) -> bool:
        """Packed files may be several in a row, and may be padded."""
        rest = (self._unpacker.unused_data or self._source.read(_CHUNK)).lstrip(b"\0")
        if not is_packed(rest):
            return False
        self._packed, self._unpacker = rest, self._make()
        self._allowance.take(_STREAM_COST)
        return True


class PrefixedSource:
    """A source of which some bytes were looked at already."""

    def __init__(self, first: bytes, source: Source | Member) -> None:
        self._first, self._source = first, source

    def read(self, size: int) -> bytes:
        taken, self._first = self._first[:size], self._first[size:]
        return taken if len(taken) == size else taken + self._source.read(size - len(taken))

    def skip(self, size: int) -> None:
        taken, self._first = self._first[:size], self._first[size:]
        self._source.skip(size - len(taken))


class _Gzip:
    """zlib's object with the shape of the others."""

    def __init__(self) -> None:
        self._inner, self._tail = zlib.decompressobj(wbits=31), b""

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        made = self._inner.decompress(self._tail + data, max_length)
        self._tail = self._inner.unconsumed_tail
        return made


_GZIP, _BZIP2, _XZ, _ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"


def is_packed(first: bytes) -> bool:
    return first.startswith((_GZIP, _BZIP2, _XZ, _ZSTD))


def _unpacker_of(first: bytes) -> Callable[[], Unpacker]:
    if first.startswith(_ZSTD):
        return _zstd()
    if first.startswith(_XZ):
        return lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
    return _Gzip if first.startswith(_GZIP) else bz2.BZ2Decompressor


def _zstd() -> Callable[[], Unpacker]:
    """Python's own from 3.14 on, else the system's."""
    with suppress(ImportError):
        return importlib.import_module("compression.zstd").ZstdDecompressor  # type: ignore[no-any-return]
    try:
        library = ZstdLibrary()
    except (OSError, AttributeError) as error:
        raise NotImplementedError("it is packed with zstd, and there is no libzstd here: unpack it first") from error
    return lambda: ZstdUnpacker(library)


def opened(source: Source | Member, first: bytes, allowance: Allowance) -> Source:
    """The source itself, or unpacked; `first` is what was read of it."""
    return PackedSource(source, first, allowance) if is_packed(first) else PrefixedSource(first, source)
