# SPDX-License-Identifier: Apache-2.0
"""Builds perf.data byte by byte, file and pipe mode, as the kernel's header files say."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from zombiescope.facts.gap import Gap
from zombiescope.profiler.perf import data_file as bits
from zombiescope.profiler.perf.elf_symbols import ElfSymbols
from zombiescope.profiler.perf.importing import Tools
from zombiescope.profiler.perf.kernel_code import KernelSymbols, read_kallsyms
from zombiescope.profiler.perf.symbolise import JitMap

KERNEL_MARK, USER_MARK = (1 << 64) - 128, (1 << 64) - 512
SAMPLE_TYPE = bits.IDENTIFIER | bits.IP | bits.TID | bits.TIME | bits.CPU | bits.PERIOD | bits.CALLCHAIN
FLAGS = 1 << 10 | 1 << 18
KALLSYMS = b"""ffffffff81000000 T _text
ffffffff81000100 T do_syscall_64
ffffffff81000200 t vfs_read
ffffffff81000300 T pv_native_safe_halt
ffffffff81000400 T net_rx_action
ffffffffc0000000 t nf_hook\t[nf_tables]
"""


def record(kind: int, misc: int, body: bytes) -> bytes:
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def padded(name: bytes) -> bytes:
    return name + b"\0" * (8 - len(name) % 8)


@dataclass
class PerfFileBuilder:
    sample_type: int = SAMPLE_TYPE
    ids: tuple[tuple[int, ...], ...] = ((7,),)
    records: list[bytes] = field(default_factory=list)

    def trailer(self, time: int, pid: int = 0, cpu: int = 0) -> bytes:
        """sample_id: TID, TIME, CPU, IDENTIFIER."""
        return struct.pack("<IIQIIQ", pid, pid, time, cpu, 0, self.ids[0][0])

    def sample(
        self, time: int, cpu: int, pid: int, chain: list[int], mode: int = 1, number: int = 7
    ) -> PerfFileBuilder:
        body = struct.pack(
            "<QQIIQIIQQ", number, chain[1] if len(chain) > 1 else 0, pid, pid, time, cpu, 0, 1, len(chain)
        )
        self.records.append(record(9, mode, body + struct.pack(f"<{len(chain)}Q", *chain)))
        return self

    def comm(self, time: int, pid: int, name: bytes, *, is_exec: bool = False) -> PerfFileBuilder:
        body = struct.pack("<II", pid, pid) + padded(name) + self.trailer(time, pid)
        self.records.append(record(3, 1 << 13 if is_exec else 0, body))
        return self

    def mmap2(
        self, time: int, pid: int, start: int, length: int, offset: int, path: bytes, *, marked: bytes | None = None
    ) -> PerfFileBuilder:
        """`marked`: what stands in place of device and inode, marked as a build id."""
        body = struct.pack("<IIQQQ", pid, pid, start, length, offset) + (marked or b"").ljust(32, b"\0")
        body += padded(path) + self.trailer(time, pid)
        self.records.append(record(10, 2 if marked is None else 2 | 1 << 14, body))
        return self

    def fork(self, time: int, pid: int, parent: int) -> PerfFileBuilder:
        body = struct.pack("<IIIIQ", pid, parent, pid, parent, time) + self.trailer(time, pid)
        self.records.append(record(7, 0, body))
        return self

    def lost(self, time: int, count: int) -> PerfFileBuilder:
        self.records.append(record(2, 0, struct.pack("<QQ", 7, count) + self.trailer(time)))
        return self

    def ksymbol(self, time: int, start: int, length: int, name: bytes, *, is_gone: bool = False) -> PerfFileBuilder:
        body = struct.pack("<QIHH", start, length, 1, int(is_gone)) + padded(name) + self.trailer(time)
        self.records.append(record(17, 0, body))
        return self

    def attr(self) -> bytes:
        head = struct.pack("<IIQQQQQ", 1, 112, 0, 99, self.sample_type, 0, FLAGS)
        return head + b"\0" * (112 - len(head))

    def file(self) -> bytes:
        attrs_at = 104 + sum(8 * len(ids) for ids in self.ids)
        data_at = attrs_at + len(self.ids) * 128
        data = b"".join(self.records)
        id_bytes, entries, at = b"", b"", 104
        for ids in self.ids:
            entries += self.attr() + struct.pack("<QQ", at, 8 * len(ids))
            id_bytes += struct.pack(f"<{len(ids)}Q", *ids)
            at += 8 * len(ids)
        header = struct.pack("<8sQQQQQQ", b"PERFILE2", 104, 128, attrs_at, len(entries), data_at, len(data))
        return header.ljust(104, b"\0") + id_bytes + entries + data

    def pipe(self) -> bytes:
        head = struct.pack("<8sQ", b"PERFILE2", 16)
        attrs = b"".join(record(64, 0, self.attr() + struct.pack(f"<{len(ids)}Q", *ids)) for ids in self.ids)
        return head + attrs + b"".join(self.records)


class NoFiles:
    def elf(self, path: str, build_id: str, pid: int) -> ElfSymbols | Gap:
        return Gap("frames[].name", "no files in this test")

    def plain(self, name: str) -> str:
        return name

    def jit(self, pid: int) -> JitMap | None:
        return None


def known_kernel(text_began: int | None, is_same: bool) -> KernelSymbols | Gap:
    return read_kallsyms(KALLSYMS)


TOOLS = Tools(known_kernel, NoFiles())


def small_capture() -> PerfFileBuilder:
    """Two cores for two seconds: core 0 idles with one softirq, core 1 reads from 1.0 s on."""
    builder = PerfFileBuilder().comm(0, 10, b"reader")
    builder.mmap2(0, 10, 0x400000, 0x1000, 0, b"/bin/reader")
    for tick in range(200):
        time = 5_000_000_000 + tick * 10_000_000
        leaf = 0xFFFFFFFF81000410 if tick == 50 else 0xFFFFFFFF81000310
        builder.sample(time, 0, 0, [KERNEL_MARK, leaf])
        if tick < 100:
            builder.sample(time + 1, 1, 10, [USER_MARK, 0x400100], mode=2)
        else:
            chain = [KERNEL_MARK, 0xFFFFFFFF81000210, 0xFFFFFFFF81000150, USER_MARK, 0x400200]
            builder.sample(time + 1, 1, 10, chain)
    return builder
