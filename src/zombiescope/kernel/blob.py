# SPDX-License-Identifier: Apache-2.0
"""The file that carries a compiled BPF object: a loader program for bpf(2) and the data it needs.

`tools/build_bpf.py` writes it from the C source beside it. The kernel itself fits it to the running kernel's BTF.
Layout: magic, length and CRC of the header (u32 each), header (JSON), deflated data and instructions with a checksum.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, NamedTuple

from zombiescope.errors import ObservationError

MAGIC = b"ZSBPF\x001\n"
_REBUILD = "reinstall zombiescope; developers: tools/build_bpf.py"


class BlobError(ObservationError):
    """The blob in the package is not what was built."""


class Blob(NamedTuple):
    maps: tuple[str, ...]
    programs: tuple[str, ...]
    data: bytes
    instructions: bytes


def parse_blob(name: str, content: bytes) -> Blob:
    header, payload = _split(name, content)
    try:
        raw = zlib.decompress(payload)
        data_size, size = int(header["data_bytes"]), int(header["bytes"])
        maps, programs = tuple(map(str, header["maps"])), tuple(map(str, header["programs"]))
    except (zlib.error, KeyError, TypeError, ValueError) as error:
        raise BlobError(f"cannot use the BPF object {name}", f"it is damaged ({error})", _REBUILD) from None
    if len(raw) != size or not 0 < data_size < size:
        raise BlobError(
            f"cannot use the BPF object {name}", "its parts have other sizes than its header says", _REBUILD
        )
    return Blob(maps, programs, raw[:data_size], raw[data_size:])


def read_header(name: str, content: bytes) -> dict[str, Any]:
    return _split(name, content)[0]


def make_blob(header: dict[str, Any], data: bytes, instructions: bytes) -> bytes:
    raw = data + instructions
    complete = header | {"data_bytes": len(data), "bytes": len(raw)}
    text = json.dumps(complete, indent=1, sort_keys=True).encode()
    return MAGIC + struct.pack("<II", len(text), zlib.crc32(text)) + text + zlib.compress(raw, 9)


def _split(name: str, content: bytes) -> tuple[dict[str, Any], bytes]:
    start = len(MAGIC) + 8
    if not content.startswith(MAGIC) or len(content) < start:
        raise BlobError(f"cannot use the BPF object {name}", "it is truncated or not a BPF object of ours", _REBUILD)
    size, checksum = struct.unpack_from("<II", content, len(MAGIC))
    text = content[start : start + size]
    if len(text) != size or zlib.crc32(text) != checksum:
        raise BlobError(f"cannot use the BPF object {name}", "it is truncated or changed", _REBUILD)
    try:
        header = json.loads(text)
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise BlobError(f"cannot use the BPF object {name}", "its header is unreadable", _REBUILD)
    return header, content[start + size :]
