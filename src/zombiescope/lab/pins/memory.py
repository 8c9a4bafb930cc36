# SPDX-License-Identifier: Apache-2.0
"""Pins without a name in the file tree: memfd, shared anonymous memory, SysV segments."""

from __future__ import annotations

import mmap
import os
import zlib

from zombiescope.errors import ObservationError
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.lab import sysv
from zombiescope.lab.names import LAB, SYSV_KEY_BASE, SYSV_KEY_COUNT
from zombiescope.lab.pins.pin import Bench, Pin, require_descriptors, require_mappings


class Memfd(Pin):
    kind = "memfd"
    seen_as = "memfd"
    is_held = True

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._files: list[int] = []

    def prepare(self, indexes: range) -> None:
        require_descriptors(len(indexes))
        self._files = [os.memfd_create(self._name(index)) for index in indexes]

    def charge(self, index: int, folder: str) -> None:
        os.pwrite(self._files[index], b"z" * PAGE_BYTES, 0)

    def file(self, index: int) -> str | None:
        return f"/memfd:{self._name(index)}"

    def _name(self, index: int) -> str:
        return f"{LAB}-{self.bench.run}-{index:06d}"


class SharedAnon(Pin):
    """Every zombie's page in a mapping of its own, made by and shared with the process that stays."""

    kind = "shared-anon"
    seen_as = "shared_anon"
    is_held = True

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._maps: list[mmap.mmap] = []

    def refuse(self) -> None:
        require_mappings(self.bench.count)

    def prepare(self, indexes: range) -> None:
        self._maps = [mmap.mmap(-1, PAGE_BYTES) for _ in indexes]

    def charge(self, index: int, folder: str) -> None:
        self._maps[index][:] = b"z" * PAGE_BYTES


class SysvShm(Pin):
    kind = "sysv-shm"
    seen_as = "sysv_shm"

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._segments: list[sysv.Segment] = []

    def announce(self) -> None:
        self.bench.journal.intend("sysv", first_key=SYSV_KEY_BASE, keys=SYSV_KEY_COUNT)

    def file(self, index: int) -> str | None:
        return f"/SYSV{self._segments[index].key:08x}"

    def prepare(self, indexes: range) -> None:
        offset = zlib.crc32(self.bench.run.encode()) % SYSV_KEY_COUNT
        for made in indexes:
            try:
                segment, offset = sysv.make_segment(offset)
            except OSError as error:
                raise ObservationError(
                    f"cannot make {self.bench.count} SysV segments",
                    f"the kernel refused after {made}: {error.strerror} (kernel.shmmni limits their number)",
                    f"sysctl kernel.shmmni={2 * self.bench.count}, or a smaller --count",
                ) from error
            self._segments.append(segment)

    def charge(self, index: int, folder: str) -> None:
        sysv.mark_segment(self._segments[index], self.bench.run)
