# SPDX-License-Identifier: Apache-2.0
"""As much of protocol buffers as two profile formats need: varints and length-delimited fields, in and out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [varint(value) for value in range(1 << 14)]


def number(field: int, value: int) -> bytes:
    """Zero is not written: it is what a reader assumes."""
    return varint(field << 3 | VARINT) + varint(value) if value else b""


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | LENGTH) + varint(len(content)) + content


def text(field: int, content: str) -> bytes:
    return message(field, content.encode("utf-8", "replace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    return message(field, b"".join([_SMALL[value] if 0 <= value < len(_SMALL) else varint(value) for value in values]))


def fixed64(field: int, values: Iterable[int]) -> bytes:
    return message(field, b"".join([value.to_bytes(8, "little") for value in values]))


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:
            raise ValueError(f"a number at byte {at} has no end")
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7


def fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field number and value, one after the other."""
    at = 0
    while at < len(raw):
        tag, at = read_varint(raw, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = read_varint(raw, at)
            yield tag >> 3, value
            continue
        if kind == LENGTH:
            length, at = read_varint(raw, at)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"a field at byte {at} is of no known kind")
        if at + length > len(raw):
            raise ValueError(f"a field at byte {at} reaches beyond the end")
        yield tag >> 3, raw[at : at + length]
        at += length


def numbers(value: int | bytes) -> list[int]:
    """A repeated number, packed or not."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        one, at = read_varint(value, at)
        found.append(one)
    return found
