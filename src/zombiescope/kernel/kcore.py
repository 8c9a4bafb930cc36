# SPDX-License-Identifier: Apache-2.0
"""The running kernel's memory through /proc/kcore, and its symbols: read only, and every address checked before it is followed.

There is no lock: what is read may change or be freed under our feet. Each reader bounds its loops and doubts what it gets.
"""

from __future__ import annotations

import errno
import os
import re
import struct

from zombiescope.errors import ObservationError
from zombiescope.host.access import Host

_BLOCK = 4096
"""What is read and kept at once: never more than a page, whose neighbours may not be mapped."""
_MOST_PAGES = 8192
_MOST_SEGMENTS = 65536
_LOAD = 1
_WHAT = "cannot read the kernel's memory"
_SYMBOLS_LIMIT = 64 << 20
_SYMBOL = re.compile(rb"([0-9a-f]{1,16}) [A-Za-z]")


class UnreadableError(Exception):
    """An address that is not the kernel's memory: the structure it came from has changed or gone."""


class KcoreError(ObservationError):
    """/proc/kcore or /proc/kallsyms is not available."""


class KernelMemory:
    """Keeps whole pages for a while, so that neighbours are read together; `fresh` and `forget` look again."""

    def __init__(self, path: str = "/proc/kcore") -> None:
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _refused(path, error) from None
        try:
            self._segments = _segments(self._descriptor)
        except (OSError, struct.error) as error:
            os.close(self._descriptor)
            raise KcoreError(_WHAT, f"{path} has no table of memory ({error})") from None
        self._pages: dict[int, bytes] = {}

    def close(self) -> None:
        os.close(self._descriptor)

    def forget(self) -> None:
        self._pages.clear()

    def read(self, address: int, size: int) -> bytes:
        number, start = divmod(address, _BLOCK)
        page = self._pages.get(number) or self._page(number)
        if start + size <= _BLOCK:
            return page[start : start + size]
        return page[start:] + self.read((number + 1) * _BLOCK, start + size - _BLOCK)

    def fresh(self, address: int) -> int:
        """A pointer or number as it is now, whatever was kept."""
        self._pages.pop(address // _BLOCK, None)
        return self.pointer(address)

    def pointer(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")

    def signed(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little", signed=True)

    def number(self, address: int) -> int:
        return int.from_bytes(self.read(address, 4), "little")

    def text(self, address: int, limit: int = 256) -> bytes:
        """Up to NUL; at most `limit` bytes."""
        room = _BLOCK - address % _BLOCK
        found = self.read(address, min(limit, room))
        if b"\0" not in found and limit > room:
            found += self.read(address + room, limit - room)
        return found.partition(b"\0")[0]

    def _page(self, number: int) -> bytes:
        address = number * _BLOCK
        place = next((offset + address - low for low, high, offset in self._segments if low <= address < high), None)
        if place is None:
            raise UnreadableError
        try:
            page = os.pread(self._descriptor, _BLOCK, place)
        except (OSError, OverflowError):
            raise UnreadableError from None
        if len(page) != _BLOCK:
            raise UnreadableError
        if len(self._pages) >= _MOST_PAGES:
            self._pages.clear()
        self._pages[number] = page
        return page


def read_symbols(host: Host, names: tuple[str, ...]) -> dict[str, int]:
    """Addresses by name; those that the kernel does not list are left out."""
    try:
        table = b"\n" + host.read(b"/proc/kallsyms", _SYMBOLS_LIMIT)
    except OSError as error:
        raise _refused("/proc/kallsyms", error) from None
    found = {}
    for name in names:
        place = table.find(b" " + name.encode() + b"\n")
        match = _SYMBOL.fullmatch(table[table.rfind(b"\n", 0, place) + 1 : place]) if place >= 0 else None
        if match and int(match[1], 16):
            found[name] = int(match[1], 16)
    if not found and table.count(b"\n0000000000000000 ", 0, 4096) > 3:
        raise KcoreError(_WHAT, "/proc/kallsyms hides the addresses", "run as root; see kernel.kptr_restrict")
    return found


def _segments(descriptor: int) -> list[tuple[int, int, int]]:
    header = os.pread(descriptor, 64, 0)
    if header[:5] != b"\x7fELF\x02":
        raise struct.error("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    rows = os.pread(descriptor, size * min(count, _MOST_SEGMENTS), table)
    segments = []
    for place in range(0, len(rows) - 55, max(size, 56)):
        kind, _, offset, address, _, _, length, _ = struct.unpack_from("<IIQQQQQQ", rows, place)
        if kind == _LOAD and length:
            segments.append((address, address + length, offset))
    # The direct map is the largest, and most of what we follow lies in it.
    return sorted(segments, key=lambda segment: segment[0] - segment[1])


def _refused(path: str, error: OSError) -> KcoreError:
    words = {
        errno.ENOENT: ("this kernel is built without it", ""),
        errno.EPERM: ("not permitted: CAP_SYS_RAWIO is missing, or lockdown forbids it", "run as root"),
        errno.EACCES: ("not permitted", "run as root"),
    }
    why, hint = words.get(error.errno or 0, ((error.strerror or "cannot be opened").lower(), ""))
    return KcoreError(_WHAT, f"{path}: {why}", hint)
