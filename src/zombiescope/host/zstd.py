# SPDX-License-Identifier: Apache-2.0
"""zstd through the system's own library, which Debian's and Red Hat's package tools need themselves: there nearly always, required
nowhere."""

import ctypes

DAMAGED = "the zstd stream is damaged"


class Piece(ctypes.Structure):
    """A buffer, and how much of it was read or written."""

    _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("done", ctypes.c_size_t))


class ZstdLibrary:
    def __init__(self) -> None:
        """OSError or AttributeError where there is none that can be used."""
        self._library = ctypes.CDLL("libzstd.so.1")
        self._library.ZSTD_createDStream.restype = ctypes.c_void_p
        self._library.ZSTD_freeDStream.argtypes = (ctypes.c_void_p,)
        step = self._library.ZSTD_decompressStream
        step.restype, step.argtypes = ctypes.c_size_t, (ctypes.c_void_p, ctypes.POINTER(Piece), ctypes.POINTER(Piece))
        self._library.ZSTD_isError.argtypes = (ctypes.c_size_t,)

    def begin(self) -> ctypes.c_void_p:
        if not (stream := self._library.ZSTD_createDStream()):
            raise MemoryError("zstd finds no memory")
        return ctypes.c_void_p(stream)

    def step(self, stream: ctypes.c_void_p, given: Piece, taken: Piece) -> bool:
        """Whether a frame has ended."""
        result = self._library.ZSTD_decompressStream(stream, ctypes.byref(given), ctypes.byref(taken))
        if self._library.ZSTD_isError(result):
            raise ValueError(DAMAGED)
        return bool(result == 0)

    def end(self, stream: ctypes.c_void_p) -> None:
        self._library.ZSTD_freeDStream(stream)


class ZstdUnpacker:
    """One frame, with the shape of Python's own unpackers."""

    def __init__(self, library: ZstdLibrary) -> None:
        self._library = library
        self._stream = library.begin()
        self._waiting = b""
        self._may_have_more = self.eof = False

    @property
    def needs_input(self) -> bool:
        return not (self.eof or self._waiting or self._may_have_more)

    @property
    def unused_data(self) -> bytes:
        return self._waiting if self.eof else b""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        packed = self._waiting + data
        source, made = ctypes.create_string_buffer(packed, len(packed)), ctypes.create_string_buffer(max_length)
        taken, given = Piece(ctypes.addressof(source), len(packed), 0), Piece(ctypes.addressof(made), max_length, 0)
        while not self.eof and given.done < max_length:
            self.eof = self._library.step(self._stream, given, taken)
            if taken.done == taken.size:
                break
        self._waiting = packed[taken.done :]
        self._may_have_more = given.done == max_length
        return made.raw[: given.done]

    def __del__(self) -> None:
        if hasattr(self, "_stream"):
            self._library.end(self._stream)
