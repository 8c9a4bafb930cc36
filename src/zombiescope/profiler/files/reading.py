# SPDX-License-Identifier: Apache-2.0
"""Any file with stacks to a capture: which kind it is, is seen from its first bytes."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.errors import ObservationError, UsageError, reason_of
from zombiescope.facts.names import shown
from zombiescope.host.bounds import Budget, bounded, input_bytes
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.zstd import Piece, ZstdLibrary
from zombiescope.profiler.files import store
from zombiescope.profiler.files.columns import UnusualError
from zombiescope.profiler.files.columns import library as built_library
from zombiescope.profiler.files.direct import Made, Wanted, import_directly
from zombiescope.profiler.files.symbol_files import SymbolFiles, kernel_symbols, map_file
from zombiescope.profiler.formats.capture_heading import FAMILY
from zombiescope.profiler.perf.data_file import MAGIC as PERF_MAGIC
from zombiescope.profiler.stacks.about import About, BrokenCapture

if TYPE_CHECKING:
    from zombiescope.profiler.perf.importing import KernelSource, Tools
    from zombiescope.profiler.stacks.capture import Capture

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


_PERF_BEGINNINGS = (PERF_MAGIC, PERF_MAGIC[::-1], b"PERFFILE")
_GZIP = b"\x1f\x8b"
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""A message has a number of one of its fields among its first bytes, all of which are such signs."""
_LEAST_UNPACKED_BYTES, _MOST_TIMES_UNPACKED = 16 << 20, 50
"""Text of stacks packs to a twentieth, pprof to a fifth."""
_MEMORY_TIMES = 64
"""Per byte of the file: a packed stack of perf's takes 30, a value of JSON 40."""


class Choices(NamedTuple):
    kallsyms: bytes | None = None
    """A saved copy; None: the running kernel's."""
    as_perf_names: bool = False
    """Name frames as `perf script` does, which takes a return address for the call."""
    use_scanner: bool = True
    demangle: bool = True
    """C++ and Rust names as their authors wrote them."""
    cwd_root: bytes = b""
    """Where binaries of the recorded machine are mounted."""
    kernel: KernelSource | None = None
    """Instead of `kallsyms`."""


def read_capture(path: bytes, choices: Choices) -> Capture:
    with _said_of(path):
        return _read(map_file(path, may_change=True), shown(os.path.basename(path)), choices)


@contextmanager
def _said_of(path: bytes) -> Iterator[None]:
    """What is wrong with a file, as an error with its name."""
    try:
        with within_bounds(f"cannot read the capture ({shown(path)})", path):
            yield
    except OSError as error:
        raise ObservationError(
            f"cannot read the capture ({shown(path)})", reason_of(error), "is the path right?"
        ) from error
    except BrokenCapture as error:
        raise ObservationError(f"cannot read the capture ({shown(path)})", error.why, error.hint) from error


def within_bounds(what: str, path: bytes) -> AbstractContextManager[None]:
    """For whatever is done with a capture: in proportion to its file."""
    try:
        size = input_bytes(os.stat(path))
    except OSError:  # whoever opens it says why
        size = 0
    return bounded(what, Budget(size, _MEMORY_TIMES))


def _read(raw: memoryview, name: str, choices: Choices) -> Capture:
    beginning = bytes(raw[:8])
    if beginning.startswith(FAMILY):
        from zombiescope.profiler.formats.capture_file import decode  # each form loads only what it needs

        return decode(raw)
    if beginning in _PERF_BEGINNINGS:
        from zombiescope.profiler.perf.importing import import_perf

        return import_perf(raw, tools_for(choices), name)
    content = _unzipped(raw) if beginning[:2] == _GZIP else bytes(raw)
    return _read_text(content, name, demangle=choices.demangle)


def tools_for(choices: Choices) -> Tools:
    from zombiescope.profiler.files.scanner import built_scanner  # the direct way needs none of them
    from zombiescope.profiler.perf.importing import Tools

    tools = Tools(
        choices.kernel or (lambda text_began, _: kernel_symbols(choices.kallsyms, text_began)),
        SymbolFiles(choices.cwd_root, choices.demangle),
        decompressor_factory(),
        name_callers=not choices.as_perf_names,
    )
    scanner = built_scanner() if choices.use_scanner else None
    return tools._replace(engine=scanner) if scanner is not None else tools


def _unzipped(raw: memoryview) -> bytes:
    unpacker = zlib.decompressobj(31)
    most = _LEAST_UNPACKED_BYTES + len(raw) * _MOST_TIMES_UNPACKED
    try:
        content = unpacker.decompress(raw, most)
    except zlib.error as error:
        raise BrokenCapture(f"it looks compressed and cannot be unpacked: {error}", "copy it again") from error
    if not unpacker.eof and len(content) == most:
        raise BrokenCapture(f"it unpacks to more than {most:,} bytes", "unpack it first if you trust it: gunzip")
    if not unpacker.eof:
        raise BrokenCapture("it looks compressed and ends early", "copy it again")
    return content


def _read_text(content: bytes, name: str, *, demangle: bool) -> Capture:
    from zombiescope.profiler.formats import json_forms, protobuf, text  # perf.data needs none

    beginning = content[:4096].lstrip()
    if not beginning:
        raise BrokenCapture("it is empty", "record it again")
    if beginning[:1] == b"{":
        return json_forms.read_speedscope(content, name, demangle=demangle)
    is_text = not _NOT_TEXT.search(beginning)  # words can be taken for a message: `job;` is a field of 111 bytes
    if b"\0" in beginning or (not is_text and protobuf.looks_like_pprof(content)):
        return protobuf.read_pprof(content, name, demangle=demangle)
    if text.looks_like_perf_script(content):
        return text.read_perf_script(content, name, demangle=demangle)
    return text.read_collapsed(content, name, demangle=demangle)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_KEPT = (1 << 31) - 1
_LARGEST = 1 << 30
_LARGE_PAGES = 14


def prepare(expected_bytes: int) -> bool:
    """Until the process ends; for commands that work once and go. False where the C library has no such choice."""
    try:
        library = ctypes.CDLL(None)
        choose, take, give_back, advise = library.mallopt, library.malloc, library.free, library.madvise
    except (OSError, AttributeError):
        return False
    take.restype, take.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    give_back.argtypes = (ctypes.c_void_p,)
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if not choose(_MMAP_THRESHOLD, _LARGEST) or not choose(_TRIM_THRESHOLD, _MOST_KEPT):
        return False
    # Nothing is touched here: the allocator gets a stretch of addresses and keeps it, the kernel is told how to fill it.
    block = take(min(expected_bytes, _LARGEST))
    if block:
        begin = -(-block // PAGE_BYTES) * PAGE_BYTES
        advise(begin, (block + min(expected_bytes, _LARGEST) - begin) // PAGE_BYTES * PAGE_BYTES, _LARGE_PAGES)
        give_back(block)
    return True


_MEMORY_TIMES_FILE = 4


class Imported(NamedTuple):
    stored: bytes
    about: About
    rows: int
    samples: int
    """What the rows stand for."""
    seconds: float
    cores: int


def import_capture(path: bytes, folder: bytes, name: str | None, choices: Choices) -> Imported:
    # Nothing made here is a cycle: looking for some, again and again among ever more objects, would only cost time.
    gc.disable()
    try:
        return _import(path, folder, name, choices)
    finally:
        gc.enable()


def _size(path: bytes) -> int:
    """Zero for what cannot be read: who reads it says why."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _import(path: bytes, folder: bytes, name: str | None, choices: Choices) -> Imported:
    stem = os.fsencode(name) if name else os.path.basename(path).removesuffix(b".gz")
    with _said_of(path):
        made = _made_directly(path, choices) or _made(path, choices)
    if not stem or b"/" in stem or stem.startswith(b"."):
        raise UsageError(
            f"cannot store a capture as {shown(stem)!r}", "it is not a regular file name", "give one with --name"
        )
    return Imported(store.save(folder, stem, made.pieces), made.about, *made[2:])


def _made_directly(path: bytes, choices: Choices) -> Made | None:
    """Without numpy; None: it takes the other way."""
    library = built_library() if choices.use_scanner else None
    if library is None:
        return None
    prepare(_MEMORY_TIMES_FILE * _size(path))
    raw = map_file(path, may_change=True)
    if bytes(raw[:8]) != PERF_MAGIC:
        return None
    wanted = Wanted(
        choices.kallsyms, SymbolFiles(choices.cwd_root, choices.demangle), name_callers=not choices.as_perf_names
    )
    try:
        return import_directly(raw, shown(os.path.basename(path)), wanted, library)
    except UnusualError:
        return None


def _made(path: bytes, choices: Choices) -> Made:
    from dataclasses import replace  # the other way needs none of them

    from zombiescope.profiler.formats.capture_file import encode

    prepare(_MEMORY_TIMES_FILE * _size(path))
    capture = _read(map_file(path, may_change=True), shown(os.path.basename(path)), choices)
    # A segment that a recorder stored elsewhere is here to stay: no recorder's ring may have it.
    capture = replace(capture, about=capture.about._replace(ring=""))
    samples = len(capture) if capture.weight is None else int(capture.weight.sum())
    rows, cores = len(capture), capture.core_count
    return Made(capture.about, encode(capture), rows, samples, capture.seconds, cores)
