# SPDX-License-Identifier: Apache-2.0
"""zstd where it can be had: Python's own module, the `zstandard` package, or the system's library. None is required."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable

from zombiescope.host.zstd import Piece, ZstdLibrary

Decompress = Callable[[bytes], bytes]
_PIECE = 1 << 17
_MOUTHFUL = 256
_MOST_FROM_ONE_RECORD = 32 << 20
"""A record holds at most 64 KiB packed, of a buffer that perf makes 8 MiB at most by default."""
_TOO_MUCH = "it unpacks to more than a record can hold"


def decompressor_factory() -> Callable[[], Decompress] | None:
    """A function that begins a new stream, or None."""
    return _from_module("compression.zstd", "ZstdDecompressor") or _from_package() or _from_library()


def _from_module(module: str, name: str) -> Callable[[], Decompress] | None:
    try:
        maker = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None
    return lambda: _guarded(maker().decompress)


def _from_package() -> Callable[[], Decompress] | None:
    try:
        package = importlib.import_module("zstandard")
    except ImportError:
        return None
    return lambda: _guarded(package.ZstdDecompressor().decompressobj().decompress)


def _guarded(decompress: Callable[[bytes], bytes]) -> Decompress:
    def run(record: bytes) -> bytes:
        """Little by little: few bytes can stand for very many, and neither can be told how much to give at most."""
        parts: list[bytes] = []
        size = 0
        for at in range(0, len(record), _MOUTHFUL):
            try:
                parts.append(decompress(record[at : at + _MOUTHFUL]))
            except Exception as error:
                raise ValueError(f"it cannot be unpacked: {error}") from error
            size += len(parts[-1])
            if size > _MOST_FROM_ONE_RECORD:
                raise ValueError(_TOO_MUCH)
        return b"".join(parts)

    return run


def _from_library() -> Callable[[], Decompress] | None:
    try:
        library = ZstdLibrary()
    except (OSError, AttributeError):
        return None
    return lambda: _Stream(library).next


class _Stream:
    def __init__(self, library: ZstdLibrary) -> None:
        self._library = library
        self._stream = library.begin()
        self._out = ctypes.create_string_buffer(_PIECE)

    def next(self, piece: bytes) -> bytes:
        source = ctypes.create_string_buffer(piece, len(piece))
        taken = Piece(ctypes.addressof(source), len(piece), 0)
        parts: list[bytes] = []
        size = 0
        while True:
            given = Piece(ctypes.addressof(self._out), _PIECE, 0)
            try:
                self._library.step(self._stream, given, taken)
            except ValueError as error:
                raise ValueError(f"it cannot be unpacked: {error}") from error
            parts.append(self._out.raw[: given.done])
            size += given.done
            if size > _MOST_FROM_ONE_RECORD:
                raise ValueError(_TOO_MUCH)
            if taken.done == taken.size and given.done < _PIECE:
                return b"".join(parts)

    def __del__(self) -> None:
        self._library.end(self._stream)
