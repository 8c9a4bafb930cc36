# SPDX-License-Identifier: Apache-2.0
"""Files as a stranger would send them, and what reading one cost: the most memory and whether it ended by itself."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import resource
import struct
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tests.hostile.neighbour import INSTALLED
from tests.profiler.perf_files import KERNEL_MARK, PerfFileBuilder

MOST_MIB = 256
MOST_CPU_SECONDS = 100
"""Many times what is needed here, and far less than what the bombs took: whoever reaches it is ended by the kernel."""
UNIT = b"[Service]\nExecStart=/bin/a\n"
UNIT_NAME = "usr/lib/systemd/system/a.service"


class Outcome(NamedTuple):
    code: int
    """Negative: ended by that signal."""
    out: str
    err: str
    mib: int

    def assert_refused(self) -> None:
        """An error with its reason and a way on, within bounds."""
        self.assert_bounded()
        assert self.code in (2, 3), self
        assert self.err.startswith("error: ") and "why: " in self.err and "try: " in self.err, self.err

    def assert_bounded(self) -> None:
        assert self.code in (0, 1, 2, 3), self
        assert self.mib <= MOST_MIB, f"{self.mib} MiB"
        assert "Traceback" not in self.err and "bug" not in self.err, self.err


def measured(*words: str | Path) -> Outcome:
    """The installed command, ended by the kernel when it takes far too much processor time."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))

    child = subprocess.Popen(
        [str(INSTALLED), *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=limited,  # noqa: PLW1509 (there is one thread here)
    )
    assert child.stdout is not None and child.stderr is not None
    out, err = child.stdout.read(), child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return Outcome(
        child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), used.ru_maxrss >> 10
    )


def tarred(members: dict[str, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def header(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
    """A tar header with its size field as given, and a right checksum."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108], block[124:136], block[148:156], block[156:157] = b"0000644\0", size.ljust(12, b"\0"), b" " * 8, kind
    block[257:265] = b"ustar\x0000"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def recording_bomb(mib: int) -> bytes:
    """As small as gzip makes it: the same answer again and again."""
    first = json.dumps({"schema": "zombiescope.recording/1", "tool": "", "label": ""}).encode()
    lines = b'{"at":0,"ask":"read","path":"","answer":""}\n' * (1 << 15)
    count = (mib << 20) // len(lines)
    size = b"%011o" % (len(first) + 1 + count * len(lines))
    return gzip.compress(header(b"recording.jsonl", size) + first + b"\n") + gzip.compress(lines, 9) * count


def pax_bomb(headers: int) -> bytes:
    """Extended headers of a mebibyte each, full of the shortest records that there are."""
    body = b"4 =\n" * ((1 << 18) - 1)
    one = header(b"x", b"%011o" % len(body), b"x") + body + bytes(-len(body) % 512)
    return gzip.compress(one * headers + tarred({UNIT_NAME: UNIT}), 9)


def settings_bomb() -> dict[str, bytes]:
    """Units of the shortest settings that there are, just below the size that is read."""
    unit = b"[Service]\n" + b"a=\n" * 300_000
    return {f"etc/systemd/system/a{number}.service": unit for number in range(30)}


def presets_bomb() -> dict[str, bytes]:
    """Every rule is tried on every unit, and none fits."""
    units = {f"etc/systemd/system/a{number}.service": UNIT for number in range(1000)}
    rules = b"".join(b"disable *z%d\n" % number for number in range(60_000))
    return {**units, "etc/systemd/system-preset/a.preset": rules}


def zeros_bomb(form: str) -> bytes:
    """A member of zeros, a thousand times as large as what stands for it; bzip2 and zstd: a million times."""
    gib = 1 << 30
    pieces = [header(b"zeros", b"\x80" + (1 << 40).to_bytes(11, "big"))]
    if form == "gzip":
        return gzip.compress(pieces[0]) + gzip.compress(bytes(1 << 24), 9) * 64
    if form == "bzip2":
        return bz2.compress(pieces[0]) + bz2.compress(bytes(gib >> 6)) * 20_000
    if form == "xz":
        return lzma.compress(pieces[0]) + lzma.compress(bytes(gib >> 5), preset=0) * 400
    return b"".join(_zstd_zeros(pieces[0], gib * 256))


def _zstd_zeros(first: bytes, size: int) -> Iterator[bytes]:
    """By hand: blocks that repeat one byte take four bytes for 128 KiB."""
    yield struct.pack("<IBB", 0xFD2FB528, 0x00, 0x58)
    yield (len(first) << 3).to_bytes(3, "little") + first
    yield ((128 << 10 << 3) | 1 << 1).to_bytes(3, "little") + b"\0" * 1
    yield (((128 << 10 << 3) | 1 << 1).to_bytes(3, "little") + b"\0") * (size >> 17)
    yield (1).to_bytes(3, "little")


def sparse_ext4(folder: Path) -> Path:
    """Many unit files that are holes."""
    tree = folder / "tree/etc/systemd/system"
    tree.mkdir(parents=True)
    for number in range(700):
        with (tree / f"a{number}.service").open("wb") as file:
            file.write(UNIT)
            file.truncate(1 << 20)
    image = folder / "disk.raw"
    subprocess.run(
        ["/usr/sbin/mke2fs", "-q", "-t", "ext4", "-N", "1024", "-d", folder / "tree", image, "4m"], check=True
    )
    return image


def colliding_addresses(count: int) -> bytes:
    """perf.data whose addresses all fall on one place of a table with the scanner's spread of today, whatever its size: their
    product with it has the highest bits all alike. Nobody owns them, which is mixed in, and a return address is one less."""
    inverse, nobody = pow(0x9E3779B97F4A7C15, -1, 1 << 64), np.uint64(0xFFFFFF << 40)
    chosen = (np.arange(1, count + 1, dtype=np.uint64) * np.uint64(inverse) ^ nobody) + np.uint64(1)
    builder = PerfFileBuilder()
    for time, begin in enumerate(range(0, len(chosen), 1000)):
        builder.sample(5_000_000_000 + time, 0, 10, [KERNEL_MARK, *chosen[begin : begin + 1000].tolist()])
    return builder.file()


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def unfolding_pprof(lines: int, samples: int) -> bytes:
    """One place with very many inlined calls, named by very many samples, in ever other company."""
    place = b"\x08\x01" + b"".join(field(4, b"\x08" + varint(number)) for number in range(1, lines))
    functions = b"".join(field(5, b"\x08" + varint(number) + b"\x10\x01") for number in range(1, lines))
    asked = b"".join(field(2, field(1, b"\x01" + varint(2 + number)) + field(2, b"\x01")) for number in range(samples))
    return field(6, b"") + field(6, b"f") + functions + field(4, place) + asked


def stored_bomb(rows: int) -> bytes:
    """A stored capture whose columns are zeros."""
    names = ("time", "cpu", "mode", "event", "idle", "node", "pid", "tid", "comm", "cgroup", "tree_frame", "tree_rest")
    data = zlib.compress(bytes(8 * rows), 9)
    said: dict[str, object] = {
        "rows": rows,
        "width": 8,
        "ascends": False,
        "first": 0,
        "bytes": len(data),
        "crc": zlib.crc32(data),
    }
    columns: list[dict[str, object]] = [{"name": name, **said} for name in names]
    packed = [data] * len(names)
    return _stored(columns, packed, {})


def stored_with(text: str) -> bytes:
    """A stored capture of two samples in which every text is the one given."""
    columns, packed = [], []
    values = {
        "time": [10**9, 2 * 10**9], "cpu": [0, 0], "mode": [1, 1], "event": [0, 0], "idle": [0, 0], "node": [1, 1],
        "pid": [1, 1], "tid": [1, 1], "comm": [0, 0], "cgroup": [0, 0], "tree_frame": [0, 0], "tree_rest": [1, 1, 0],
    }  # fmt: skip
    for name, numbers in values.items():
        raw = struct.pack(f"<{len(numbers)}Q", *numbers)
        planes = b"".join(raw[at::8] for at in range(8))
        data = zlib.compress(planes)
        columns.append(
            {"name": name, "rows": len(numbers), "width": 8, "ascends": False, "first": 0}
            | {"bytes": len(data), "crc": zlib.crc32(data)}
        )
        packed.append(data)
    texts = {
        "names": [text],
        "files": [text],
        "file_of": [0],
        "comms": [text],
        "events": [text, text],
        "cgroups": [text],
    }
    about = {"source": text, "host": text, "kernel": text, "gaps": [{"fact": text, "reason": text, "hint": text}]}
    return _stored(columns, packed, texts, about)


def _stored(columns: list[dict[str, object]], packed: list[bytes], texts: object, about: object = None) -> bytes:
    text = zlib.compress(json.dumps(texts).encode())
    columns = [*columns, {"name": "texts", "bytes": len(text), "crc": zlib.crc32(text)}]
    said: dict[str, object] = {
        "source": "x",
        "host": None,
        "kernel": None,
        "clock": None,
        "rate_hz": 99,
        "lost": 0,
        "throttled": 0,
    }
    said |= {"has_time": True, "gaps": []} | (about if isinstance(about, dict) else {})
    heading = json.dumps({"schema": "zombiescope.capture/1", "about": said, "columns": columns}).encode()
    return struct.pack("<8sI", b"ZSCAPT01", len(heading)) + heading + b"".join([*packed, text])
