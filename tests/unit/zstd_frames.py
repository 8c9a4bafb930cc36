# SPDX-License-Identifier: Apache-2.0
"""zstd frames, packed by the system's library."""

from __future__ import annotations

import ctypes


def zstd_packed(content: bytes) -> bytes:
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_compress.restype = library.ZSTD_compressBound.restype = ctypes.c_size_t
    room = ctypes.create_string_buffer(library.ZSTD_compressBound(ctypes.c_size_t(len(content))))
    size = library.ZSTD_compress(room, ctypes.c_size_t(len(room)), content, ctypes.c_size_t(len(content)), 3)
    assert not library.ZSTD_isError(ctypes.c_size_t(size))
    return room.raw[:size]
