# SPDX-License-Identifier: Apache-2.0
"""The file that carries a compiled BPF object: a loader program for bpf(2) and the data it needs, with their checksum.

`tools/build_bpf.py` writes it from the C source beside it. The kernel itself fits it to the running kernel's BTF.
Layout: magic, length of the header (u32), header (JSON), deflated data and instructions.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import Any

from zombiescope.errors import ObservationError

MAGIC = b"ZSBPF\x001\n"
_REBUILD = "reinstall zombiescope; developers: tools/build_bpf.py"


class BlobError(ObservationError):
    """The blob in the package is not what was built."""


@dataclass(frozen=True, slots=True)
class Blob:
    maps: tuple[str, ...]
    programs: tuple[str, ...]
    data: bytes
    instructions: bytes


def parse_blob(name: str, content: bytes) -> Blob:
    header, payload = _split(name, content)
    try:
        raw = zlib.decompress(payload)
        data_size, checksum = int(header["data_bytes"]), header["sha256"]
        maps, programs = tuple(map(str, header["maps"])), tuple(map(str, header["programs"]))
    except (zlib.error, KeyError, TypeError, ValueError) as error:
        raise BlobError(f"cannot use the BPF object {name}", f"it is damaged ({error})", _REBUILD) from None
    if hashlib.sha256(raw).hexdigest() != checksum or not 0 < data_size < len(raw):
        raise BlobError(f"cannot use the BPF object {name}", "its checksum is wrong", _REBUILD)
    return Blob(maps, programs, raw[:data_size], raw[data_size:])


def read_header(name: str, content: bytes) -> dict[str, Any]:
    return _split(name, content)[0]


def make_blob(header: dict[str, Any], data: bytes, instructions: bytes) -> bytes:
    raw = data + instructions
    complete = header | {"data_bytes": len(data), "sha256": hashlib.sha256(raw).hexdigest()}
    text = json.dumps(complete, indent=1, sort_keys=True).encode()
    return MAGIC + len(text).to_bytes(4, "little") + text + zlib.compress(raw, 9)


def _split(name: str, content: bytes) -> tuple[dict[str, Any], bytes]:
    start = len(MAGIC) + 4
    end = start + int.from_bytes(content[len(MAGIC) : start], "little")
    if not content.startswith(MAGIC) or len(content) < end:
        raise BlobError(f"cannot use the BPF object {name}", "it is truncated or not a BPF object of ours", _REBUILD)
    try:
        header = json.loads(content[start:end])
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise BlobError(f"cannot use the BPF object {name}", "its header is unreadable", _REBUILD)
    return header, content[end:]
