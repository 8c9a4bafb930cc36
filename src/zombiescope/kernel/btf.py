# SPDX-License-Identifier: Apache-2.0
"""Where a field lies in this kernel's structures: the type information in /sys/kernel/btf/vmlinux, read without any library.

Only the structures and enums asked for are remembered; one pass over some 150,000 types finds them.
"""

import struct
from collections.abc import Collection, Iterator

from zombiescope.errors import ObservationError

_MAGIC = 0xEB9F
_INT, _POINTER, _ARRAY, _STRUCT, _UNION, _ENUM = 1, 2, 3, 4, 5, 6
_ALIASES = (8, 9, 10, 11, 18)  # typedef, volatile, const, restrict, type tag
# What follows the 12 bytes of a type, by kind: bytes once, bytes for each member.
_ONCE = {_INT: 4, _ARRAY: 12, 14: 4, 17: 4}
_EACH = {_STRUCT: 12, _UNION: 12, _ENUM: 8, 13: 8, 15: 12, 19: 12}
_TYPE = struct.Struct("<III")
_VARIABLE, _SECTION, _PER_CPU = 14, 15, ".data..percpu"
_MOST_ALIASES = 64


class BtfError(ObservationError):
    """The kernel's type information is absent, damaged or lacks a field."""

    def __init__(self, why: str) -> None:
        super().__init__("cannot use the kernel's type information", why, "boot a kernel with CONFIG_DEBUG_INFO_BTF")


class Btf:
    def __init__(self, content: bytes, names: Collection[str]) -> None:
        self._content = content
        try:
            magic, _, _, header, start, length, strings, strings_length = struct.unpack_from("<HBBIIIII", content)
            if magic != _MAGIC or header + strings + strings_length > len(content):
                raise BtfError("it is truncated, or in another byte order or format")
            self._strings = header + strings
            words = content[self._strings : self._strings + strings_length]
            self._named = {
                place + 1: name for name in names if (place := words.find(b"\0" + name.encode() + b"\0")) >= 0
            }
            self._places: list[int] = [0]
            self._types: dict[tuple[str, int], int] = {}
            self._variables: dict[str, int] = {}
            self._sections: list[int] = []
            self._scan(header + start, header + start + length)
        except struct.error:
            raise BtfError("it is truncated") from None

    def offset(self, path: str) -> int | None:
        """Bytes from the start of a structure to a field: `mem_cgroup.memory.usage`; None where there is no such field."""
        found = self._find(path)
        return None if found is None else found[0]

    def size(self, path: str) -> int | None:
        """Bytes of a field, or of a whole structure."""
        found = self._find(path)
        return None if found is None else self._size(found[1])

    def per_cpu(self, path: str) -> int | None:
        """Bytes from where a core's own variables begin to one of them, or to a field of it: `irq_stat.__softirq_pending`."""
        name, *fields = path.split(".")
        variable = self._variables.get(name)
        offset = None if variable is None else self._in_section(variable)
        if variable is None or offset is None:
            return None
        found = self._follow(fields, offset, self._type(variable)[2])
        return None if found is None else found[0]

    def _in_section(self, variable: int) -> int | None:
        for section in self._sections:
            name, info, _ = self._type(section)
            if self._text(name) != _PER_CPU:
                continue
            at = self._places[section] + 12
            for place in range(at, at + 12 * (info & 0xFFFF), 12):
                number, offset, _ = _TYPE.unpack_from(self._content, place)
                if number == variable:
                    return int(offset)
        return None

    def enumerator(self, enum: str, name: str) -> int | None:
        if (place := self._types.get((enum, _ENUM))) is None:
            return None
        _, info, _ = self._type(place)
        for number in range(info & 0xFFFF):
            label, value = struct.unpack_from("<Ii", self._content, self._places[place] + 12 + 8 * number)
            if self._text(label) == name:
                return int(value)
        return None

    def _scan(self, place: int, end: int) -> None:
        add, named, number = self._places.append, self._named, 0
        once, each = [_ONCE.get(kind, 0) for kind in range(32)], [_EACH.get(kind, 0) for kind in range(32)]
        content, unpack = self._content, _TYPE.unpack_from
        while place < end:
            name, info, _ = unpack(content, place)
            kind = info >> 24 & 31
            number += 1
            add(place)
            if kind == _SECTION:
                self._sections.append(number)
            elif name in named:
                if kind in (_STRUCT, _UNION, _ENUM):
                    self._types.setdefault((named[name], _ENUM if kind == _ENUM else _STRUCT), number)
                elif kind == _VARIABLE:
                    self._variables.setdefault(named[name], number)
            place += 12 + once[kind] + each[kind] * (info & 0xFFFF)

    def _type(self, number: int) -> tuple[int, int, int]:
        if not 0 < number < len(self._places):
            raise BtfError("a type refers to one that is not there")
        return _TYPE.unpack_from(self._content, self._places[number])

    def _text(self, offset: int) -> str:
        start = self._strings + offset
        return self._content[start : self._content.find(b"\0", start)].decode("ascii", "replace")

    def _plain(self, number: int) -> tuple[int, int, int, int]:
        """The type behind its aliases: number, kind, count of members, size or referred type."""
        for _ in range(_MOST_ALIASES):
            _, info, size = self._type(number)
            if (kind := info >> 24 & 31) not in _ALIASES:
                return number, kind, info & 0xFFFF, size
            number = size
        raise BtfError("a type is an alias of itself")

    def _size(self, number: int, depth: int = 0) -> int:
        if depth > _MOST_ALIASES:
            raise BtfError("an array holds itself")
        number, kind, _, size = self._plain(number)
        if kind == _POINTER:
            return 8
        if kind == _ARRAY:
            element, _, count = struct.unpack_from("<III", self._content, self._places[number] + 12)
            return self._size(element, depth + 1) * int(count)
        return size

    def _find(self, path: str) -> tuple[int, int] | None:
        first, *fields = path.split(".")
        number = self._types.get((first, _STRUCT))
        return None if number is None else self._follow(fields, 0, number)

    def _follow(self, fields: list[str], offset: int, number: int) -> tuple[int, int] | None:
        """From a type to a field of its fields: where it lies, and its type."""
        for name in fields:
            if (found := self._member(number, name)) is None:
                return None
            offset, number = offset + found[0], found[1]
        return offset, number

    def _member(self, number: int, wanted: str, depth: int = 0) -> tuple[int, int] | None:
        """Offset and type of a member, also through members without a name."""
        number, kind, _, _ = self._plain(number)
        if kind not in (_STRUCT, _UNION) or depth > _MOST_ALIASES:
            return None
        for name, member, offset in self._members(number):
            if name == wanted:
                return offset, member
            if not name and (inside := self._member(member, wanted, depth + 1)):
                return offset + inside[0], inside[1]
        return None

    def _members(self, number: int) -> Iterator[tuple[str, int, int]]:
        _, info, _ = self._type(number)
        at, has_bits = self._places[number] + 12, info >> 31
        for place in range(at, at + 12 * (info & 0xFFFF), 12):
            name, member, offset = _TYPE.unpack_from(self._content, place)
            yield self._text(name) if name else "", member, (offset & 0xFFFFFF if has_bits else offset) // 8
