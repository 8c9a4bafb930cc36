# SPDX-License-Identifier: Apache-2.0
"""How a file is changed: anywhere; in its numbers; and so that its checksums are right again, for what lies behind them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import re
import struct
import zlib
from collections.abc import Callable

from tests.unit.zstd_frames import zstd_packed

Change = Callable[[bytes, random.Random], bytes]
_BYTES = (0, 1, 7, 8, 9, 10, 32, 0x1B, 0x2D, 0x7F, 0x80, 0xFF, 66, 71, 81)
_WORDS = (0, 1, 127, 4096, 1 << 16, 1 << 31, 1 << 40, (1 << 61) + 1, 1 << 63, (1 << 64) - 1)
_TEXTS = (
    b"-1", b"0", b"1e400", b"NaN", b"99999999999999999999", b"null", b"true", b"[]", b"{}", b'""', b'"\\ud800"', b'"\\u001b[2J"',
    b"[" * 2000, b'{"a":' * 2000, b"9" * 5000, b"\x1b]0;x\x07", b"\xff\xfe",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?|null|true|false|\"[^\"\\]{0,40}\"")


def anywhere(raw: bytes, dice: random.Random) -> bytes:
    out = bytearray(raw)
    for _ in range(dice.choice((1, 1, 1, 2, 4, 16, 64))):
        place = dice.randrange(len(out)) if out else 0
        match dice.randrange(7):
            case 0 if out:
                out[place] = dice.choice(_BYTES)
            case 1 if out:
                out[place] ^= 1 << dice.randrange(8)
            case 2:
                out[place & ~7 : (place & ~7) + 8] = struct.pack("<Q", dice.choice(_WORDS))
            case 3:
                other = dice.randrange(len(out) + 1)
                out[place : place + 8] = out[other : other + 8]
            case 4:
                out[place & ~1 : (place & ~1) + 2] = struct.pack("<H", dice.choice((0, 1, 8, 40, 0x7FF8, 0xFFFF)))
            case 5:
                out[place:place] = dice.choice(_TEXTS)[:64]
            case _:
                out[place : place + dice.choice((4, 4, 64, 512))] = b""
    if dice.random() < 0.15:
        del out[dice.randrange(len(out) + 1) :]
    return bytes(out)


def values(raw: bytes, dice: random.Random) -> bytes:
    """In text: a value becomes another that is still a value, mostly."""
    places = [match.span() for match in _NUMBER.finditer(raw[:200_000])]
    for begin, end in sorted(dice.sample(places, min(len(places), dice.choice((1, 1, 2, 5)))), reverse=True):
        raw = raw[:begin] + dice.choice(_TEXTS) + raw[end:]
    return raw


def either(*changes: Change) -> Change:
    return lambda raw, dice: dice.choice(changes)(raw, dice)


def tar_headers(raw: bytes, dice: random.Random) -> bytes:
    """A field of a header, and its checksum made right."""
    out = bytearray(raw)
    blocks = [at for at in range(0, len(out) - 511, 512) if out[at + 257 : at + 262] == b"ustar"]
    for at in dice.sample(blocks, min(len(blocks), dice.choice((1, 1, 2, 5)))):
        begin, length = dice.choice(
            ((0, 100), (100, 8), (124, 12), (156, 1), (157, 100), (257, 8), (345, 155), (482, 1))
        )
        text = dice.choice(
            (*_TEXTS, b"-0000000001", b"77777777777", b"\x80" + b"\xff" * 11, b"\xff" * 12, b"x", b"L", b"S", b"g")
        )
        out[at + begin : at + begin + length] = text[:length].ljust(length, b"\0")
        out[at + 148 : at + 156] = b" " * 8
        out[at + 148 : at + 156] = b"%06o\0 " % sum(out[at : at + 512])
    return bytes(out)


def packed(change: Change, form: str) -> Change:
    """Changed before it is packed, or after."""
    pack = {"gzip": lambda raw: gzip.compress(raw, 1), "bzip2": bz2.compress, "xz": lzma.compress, "zstd": zstd_packed}[
        form
    ]

    def run(raw: bytes, dice: random.Random) -> bytes:
        return pack(change(raw, dice)) if dice.random() < 0.5 else anywhere(pack(raw), dice)

    return run


def with_crc(raw: bytes, dice: random.Random) -> bytes:
    """Lines of a log, each with its checksum made right."""
    lines = raw.split(b"\n")
    for number in dice.sample(range(len(lines) - 1), min(len(lines) - 1, dice.choice((1, 2, 8)))):
        body = dice.choice((values, values, anywhere))(lines[number][9:], dice).replace(b"\n", b" ")
        lines[number] = b"%08x %s" % (zlib.crc32(body), body)
    return b"\n".join(lines)


def stored_capture(raw: bytes, dice: random.Random) -> bytes:
    """The heading of a stored capture, or a column with its checksum made right."""
    length = struct.unpack_from("<I", raw, 8)[0]
    if dice.random() < 0.5:
        heading = values(raw[12 : 12 + length], dice)
        return raw[:8] + struct.pack("<I", len(heading)) + heading + raw[12 + length :]
    heading, body = raw[12 : 12 + length], bytearray(raw[12 + length :])
    entries = list(re.finditer(rb'"bytes": (\d+), "crc": (\d+)', heading))
    which, at = dice.randrange(len(entries)), 0
    for number, entry in enumerate(entries):
        size = int(entry[1])
        if number == which:
            form = (
                -15 if b'"form"' in heading[entry.start() - 200 : entry.start()] and number < len(entries) - 1 else 15
            )
            packer = zlib.compressobj(1, wbits=form)
            try:
                plain = zlib.decompressobj(form).decompress(bytes(body[at : at + size]))
            except zlib.error:
                return anywhere(raw, dice)
            changed = dice.choice((values, anywhere))(plain, dice)[: len(plain)].ljust(len(plain), b"\0")
            made = packer.compress(changed) + packer.flush()
            said = b'"bytes": %d, "crc": %d' % (len(made), zlib.crc32(made))
            heading = heading[: entry.start()] + said + heading[entry.end() :]
            body[at : at + size] = made
            break
        at += size
    return raw[:8] + struct.pack("<I", len(heading)) + heading + bytes(body)
