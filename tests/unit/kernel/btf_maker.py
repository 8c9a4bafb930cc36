# SPDX-License-Identifier: Apache-2.0
"""Writes small type information: structures of 64-bit words, as the kernel's BTF lays them out."""

from __future__ import annotations

import struct

_INT, _ARRAY, _STRUCT, _ENUM = 1, 3, 4, 6


class BtfMaker:
    def __init__(self) -> None:
        self._strings = bytearray(b"\0")
        self._types = bytearray()
        self.count = 0
        self.word = self._add("unsigned long", _INT, 0, 8, struct.pack("<I", 64))
        self.half = self._add("unsigned int", _INT, 0, 4, struct.pack("<I", 32))

    def structure(self, name: str, size: int, members: dict[str, tuple[int, int]]) -> int:
        """Members by name: type and offset in bytes. A name that begins with `?` stands for no name at all."""
        body = b"".join(
            struct.pack("<III", 0 if label.startswith("?") else self._string(label), kind, offset * 8)
            for label, (kind, offset) in members.items()
        )
        return self._add(name, _STRUCT, len(members), size, body)

    def array(self, element: int, count: int) -> int:
        return self._add("", _ARRAY, 0, 0, struct.pack("<III", element, self.half, count))

    def typedef(self, name: str, target: int) -> int:
        return self._add(name, 8, 0, target, b"")

    def enum(self, name: str, values: dict[str, int]) -> int:
        body = b"".join(struct.pack("<Ii", self._string(label), value) for label, value in values.items())
        return self._add(name, _ENUM, len(values), 4, body)

    def content(self) -> bytes:
        header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(self._types), len(self._types), len(self._strings))
        return header + bytes(self._types) + bytes(self._strings)

    def _string(self, text: str) -> int:
        place = len(self._strings)
        self._strings += text.encode() + b"\0"
        return place

    def _add(self, name: str, kind: int, members: int, size: int, body: bytes) -> int:
        self._types += struct.pack("<III", self._string(name) if name else 0, kind << 24 | members, size) + body
        self.count += 1
        return self.count
