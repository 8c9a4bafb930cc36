#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds src/zombiescope/kernel/bpf/*.blob from the *.bpf.c beside them; `--check` rebuilds and compares instead.

clang compiles, bpftool writes a "light skeleton": one loader program and its data, both independent of the machine. The
header of a blob also lists what the source became (instructions by section, maps, relocations), so that a rebuild by
another bpftool can still be compared. Needs clang, bpftool and libbpf-dev here; a node needs none of them.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src/zombiescope/kernel/bpf"
sys.path.insert(0, str(ROOT / "src"))

from zombiescope.kernel.bpf_object import MAGIC, split_blob  # noqa: E402

_EXECUTABLE = 4
_PROGBITS = 1
_SYMBOL = struct.Struct("<IBBHQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")


def build(source: Path, scratch: Path) -> bytes:
    target = scratch / source.with_suffix(".o").name
    flags = ["-g", "-O2", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-fdebug-compilation-dir=."]
    run(["clang", *flags, "-c", source.name, "-o", str(target)], source.parent)
    skeleton = run(["bpftool", "gen", "skeleton", "-L", str(target), "name", "zombiescope"], scratch)
    header = describe(target.read_bytes()) | {
        "maps": re.findall(r"struct bpf_map_desc (\w+);", skeleton),
        "programs": re.findall(r"struct bpf_prog_desc (\w+);", skeleton),
        "built_by": versions(scratch),
    }
    return make_blob(header, literal(skeleton, "data"), literal(skeleton, "insns"))


def make_blob(header: dict[str, Any], data: bytes, instructions: bytes) -> bytes:
    raw = data + instructions
    complete = header | {"data_bytes": len(data), "bytes": len(raw)}
    text = json.dumps(complete, indent=1, sort_keys=True).encode()
    return MAGIC + struct.pack("<II", len(text), zlib.crc32(text)) + text + zlib.compress(raw, 9)


def run(command: list[str], where: Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=where).stdout


def versions(where: Path) -> dict[str, str]:
    clang, bpftool = run(["clang", "--version"], where), run(["bpftool", "version"], where)
    return {"clang": clang.splitlines()[0], "bpftool": bpftool.splitlines()[0], "libbpf": bpftool.splitlines()[1]}


def literal(skeleton: str, name: str) -> bytes:
    match = re.search(rf'opts\.{name} = \(void \*\)"(.*?)";', skeleton, re.DOTALL)
    size = re.search(rf"opts\.{name}_sz = (\d+)", skeleton)
    if not match or not size:
        raise SystemExit(f"bpftool's skeleton has no opts.{name}: its format has changed")
    content = bytes(int(digits, 16) if digits else 0 for digits in re.findall(r"\\(?:x([0-9a-f]{2})|0)", match[1]))
    if len(content) != int(size[1]):
        raise SystemExit(f"opts.{name} has {len(content)} bytes, {size[1]} were promised")
    return content


def describe(elf: bytes) -> dict[str, Any]:
    """What the compiler made of the source, without what depends on bpftool."""
    found = {name: (kind, flags, content) for name, kind, flags, content in sections(elf)}
    return {
        "instructions": {
            name: {"count": len(content) // 8, "sha256": hashlib.sha256(content).hexdigest()}
            for name, (kind, flags, content) in found.items()
            if kind == _PROGBITS and flags & _EXECUTABLE and content
        },
        "map_definitions": {"bytes": len(found[".maps"][2]) if ".maps" in found else 0},
        "relocations": relocations(found[".BTF"][2], found[".BTF.ext"][2]),
    }


def sections(elf: bytes) -> Iterator[tuple[str, int, int, bytes]]:
    (offset,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_index = struct.unpack_from("<HHH", elf, 58)
    headers = [_SECTION.unpack_from(elf, offset + size * i) for i in range(count)]
    names = elf[headers[names_index][4] :]
    for name, kind, flags, _, start, length, *_ in headers:
        yield text_at(names, name), kind, flags, elf[start : start + length]


def text_at(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()


def relocations(btf: bytes, ext: bytes) -> list[str]:
    """CO-RE relocations as `section+offset type access kind`, with the type by name."""
    header, strings_at = struct.unpack_from("<I", btf, 4)[0], struct.unpack_from("<I", btf, 16)[0]
    strings = btf[header + strings_at :]
    names = [text_at(strings, name) for name in type_names(btf)]
    ext_header = struct.unpack_from("<I", ext, 4)[0]
    start, length = struct.unpack_from("<II", ext, 24)
    position, end = ext_header + start + 4, ext_header + start + length
    lines = []
    while position < end:
        section, count = struct.unpack_from("<II", ext, position)
        position += 8
        for _ in range(count):
            offset, kind_of, access, kind = struct.unpack_from("<IIII", ext, position)
            lines.append(f"{text_at(strings, section)}+{offset} {names[kind_of]} {text_at(strings, access)} {kind}")
            position += 16
    return lines


def type_names(btf: bytes) -> Iterator[int]:
    extra = {
        1: (4, 0),
        3: (12, 0),
        4: (0, 12),
        5: (0, 12),
        6: (0, 8),
        13: (0, 8),
        14: (4, 0),
        15: (0, 12),
        17: (4, 0),
        19: (0, 12),
    }
    header, start, length = struct.unpack_from("<III", btf, 4)
    position, end = header + start, header + start + length
    yield 0
    while position < end:
        name, info, _ = struct.unpack_from("<III", btf, position)
        fixed, each = extra.get(info >> 24 & 31, (0, 0))
        position += 12 + fixed + each * (info & 0xFFFF)
        yield name


def differences(committed: bytes, rebuilt: bytes) -> list[str]:
    """Raw bytes when the same tools built both; else everything that does not depend on the tools' versions."""
    old, new = split_blob("committed", committed)[0], split_blob("rebuilt", rebuilt)[0]
    if old["built_by"] == new["built_by"]:
        return [] if committed == rebuilt else ["the bytes differ, though the same tools built both"]
    keys = ["maps", "programs", "map_definitions", "relocations"]
    if old["built_by"]["clang"] == new["built_by"]["clang"]:
        keys.append("instructions")
    return [f"{key} differ" for key in keys if old[key] != new[key]]


def main(arguments: list[str]) -> int:
    failed = 0
    for source in sorted(SOURCES.glob("*.bpf.c")):
        target = source.with_name(source.name.removesuffix(".bpf.c") + ".blob")
        with tempfile.TemporaryDirectory() as scratch:
            rebuilt = build(source, Path(scratch))
        if "--check" in arguments:
            found = differences(target.read_bytes(), rebuilt)
            print(f"{target.name}: {'; '.join(found) or 'equal'}")
            failed += bool(found)
        else:
            target.write_bytes(rebuilt)
            print(f"{target.name}: {len(rebuilt)} bytes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
