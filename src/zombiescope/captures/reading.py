# SPDX-License-Identifier: Apache-2.0
"""Any file with stacks to a capture: which kind it is, is seen from its first bytes."""

from __future__ import annotations

import os
import zlib
from contextlib import AbstractContextManager
from typing import NamedTuple

from zombiescope.captures.scanner import built_scanner
from zombiescope.captures.symbol_files import SymbolFiles, kernel_symbols, map_file
from zombiescope.captures.zstd import decompressor_factory
from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.host.bounds import Budget, bounded, input_bytes
from zombiescope.profiling import capture_codec
from zombiescope.profiling.broken import BrokenCapture
from zombiescope.profiling.capture import Capture
from zombiescope.profiling.perf_file import MAGIC as PERF_MAGIC
from zombiescope.profiling.perf_import import Tools, import_perf

_PERF_BEGINNINGS = (PERF_MAGIC, PERF_MAGIC[::-1], b"PERFFILE")
_GZIP = b"\x1f\x8b"
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


def read_capture(path: bytes, choices: Choices) -> Capture:
    try:
        with within_bounds(f"cannot read the capture ({shown(path)})", path):
            return _read(map_file(path, may_change=True), shown(os.path.basename(path)), choices)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ObservationError(f"cannot read the capture ({shown(path)})", why, "is the path right?") from error
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
    if beginning == capture_codec.MAGIC:
        return capture_codec.decode(raw)
    if beginning in _PERF_BEGINNINGS:
        return import_perf(raw, tools_for(choices), name)
    content = _unzipped(raw) if beginning[:2] == _GZIP else bytes(raw)
    return _read_text(content, name)


def tools_for(choices: Choices) -> Tools:
    tools = Tools(
        lambda text_began: kernel_symbols(choices.kallsyms, text_began),
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


def _read_text(content: bytes, name: str) -> Capture:
    from zombiescope.profiling.formats import collapsed, perf_script, pprof, speedscope  # noqa: PLC0415 (perf.data needs none)

    beginning = content[:4096].lstrip()
    if not beginning:
        raise BrokenCapture("it is empty", "record it again")
    if beginning[:1] == b"{":
        return speedscope.read_speedscope(content, name)
    if b"\0" in beginning or pprof.looks_like_pprof(content):
        return pprof.read_pprof(content, name)
    if perf_script.looks_like_perf_script(content):
        return perf_script.read_perf_script(content, name)
    return collapsed.read_collapsed(content, name)
