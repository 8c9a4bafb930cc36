# SPDX-License-Identifier: Apache-2.0
"""A still picture, laid out once and drawn twice: as SVG without script or outside address, as PNG without an image library. The
letters of a PNG are the printable ASCII of X11's `6x13`, which is public domain."""

import base64
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from textwrap import wrap
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from zombiescope.profiler.drawing.colours import EMPTY, HEAT, Rgb, css
from zombiescope.profiler.stacks.arrays import I64, U8, Flags

_WIDE, _HIGH, _BASELINE = 6, 13, 11
_FIRST, _LAST, _UNKNOWN = 32, 126, "?"
# 95 glyphs of 13 rows, a byte each, the leftmost pixel in its highest bit.
_GLYPHS = (
    "c-m!Dt$M>S3=A|h95fsZ95f8nBLof#1{xX$1_m1L5e5qf_ZWeO)32Lt>X$UqN$Sa`beeuyQkxPx0C0l<I(;;fw)4c-*Gtlt1~Fx5yFmFo^Lgy="
    ")@_u>lrmdNk&@`nMlnun*wURtztyqLlE&7jKYWohL!eeUmm(pkY#=StddfgjhqVUEE8=u|#1JY9xi|ytJw`!F`FJ>jwUmq6q1EUZ)~%u={IGeA"
    "(Nb>qts}_K=M=+p9Ggg@j6R8)3gjHEeUxns*Xd&CT9yUrx|}GPGGJtJgytz1UH$HqQFGV`)jCUSv_%l)O|**ps%iWAdG4B4%(^1qt$Bm`c(isL"
    ")~%{3H+r}+5NjA5@z%_3=+l!grV$<8L~4L1(#Sv^3IiA&cDzBibz#<+-B9MC1&uK<8;owK2S5Ec>X71}7>2DL?{+#oQoS6hu1^S*#49t9Zpggk"
    "d}Uj)u~>{1UQ0h-T8(w+GsS5Zfmk6*Q-K&*?=q5o@#**=w{9kcr@2JpY`WUPYFs&~S)<h`>18&Ao9P*-1CWN}`mjTqjB}L|e}lTer!P$ZlW#B2"
    "zbBDVg96K+(Cz~K07eiV5C"
)


def letters(text: str) -> Flags:
    """[row, column], set where there is ink."""
    rows = np.frombuffer(zlib.decompress(base64.b85decode(_GLYPHS)), np.uint8).reshape(-1, _HIGH)
    numbers = [ord(each if _FIRST <= ord(each) <= _LAST else _UNKNOWN) - _FIRST for each in text]
    glyphs = np.unpackbits(rows[numbers], axis=1).reshape(len(numbers), _HIGH, 8)[:, :, :_WIDE]
    ink: Flags = glyphs.transpose(1, 0, 2).reshape(_HIGH, -1).astype(bool)
    return ink


INK: Rgb = (17, 17, 17)
FAINT: Rgb = (85, 85, 85)
LETTER = 7
"""No letter of the sans-serif fonts that browsers have is wider on average, at this size."""
_SIZE = 12
_ANCHORS = {"start": 0.0, "middle": 0.5, "end": 1.0}


class Label(NamedTuple):
    x: int
    baseline: int
    text: str
    anchor: str = "start"
    colour: Rgb = INK
    is_bold: bool = False


class Box(NamedTuple):
    left: int
    top: int
    width: int
    height: int
    colour: Rgb


class Grid(NamedTuple):
    """Cells by how hot they are."""

    left: int
    top: int
    wide: int
    high: int
    levels: I64
    """[column, row]; row 0 is at the bottom."""


@dataclass(slots=True)
class Scene:
    width: int
    height: int
    title: str
    parts: list[Label | Box | Grid] = field(default_factory=list)

    def svg(self) -> str:
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="{_SIZE}" role="img">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>',
            *chain.from_iterable(map(_svg, self.parts)),
        ]
        return "\n".join([*lines, "</svg>\n"])

    def png(self) -> bytes:
        pixels = np.full((self.height, self.width, 3), 255, np.uint8)
        palette = np.array([EMPTY, *HEAT[1:]], np.uint8)
        for part in self.parts:
            match part:
                case Box(left, top, width, height, colour):
                    pixels[top : top + height, left : left + width] = colour
                case Grid(left, top, wide, high, levels):
                    cells = palette[np.repeat(np.repeat(levels.T[::-1], high, axis=0), wide, axis=1)]
                    pixels[top : top + cells.shape[0], left : left + cells.shape[1]] = cells
                case Label():
                    _write(pixels, part)
        return _png(pixels)


def wrapped(text: str, width: int) -> list[str]:
    """Lines that fit so many pixels; a word that does not is broken rather than cut off."""
    return wrap(text, max(10, width // LETTER)) or [""]


def _svg(part: Label | Box | Grid) -> Iterator[str]:
    match part:
        case Box(left, top, width, height, colour):
            yield f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="{css(colour)}"/>'
        case Label(x, baseline, text, anchor, colour, is_bold):
            weight = ' font-weight="bold"' if is_bold else ""
            yield f'<text x="{x}" y="{baseline}" text-anchor="{anchor}" fill="{css(colour)}"{weight}>{escape(text)}</text>'
        case Grid(left, top, wide, high, levels):
            columns, rows = levels.shape
            yield f'<rect x="{left}" y="{top}" width="{columns * wide}" height="{rows * high}" fill="{css(EMPTY)}"/>'
            by_level: dict[int, list[str]] = {}
            for column, cells in enumerate(levels.tolist()):
                for row, level in enumerate(cells):
                    if level:
                        y = top + (rows - 1 - row) * high
                        by_level.setdefault(level, []).append(f"M{left + column * wide} {y}h{wide}v{high}h-{wide}z")
            yield from (f'<path fill="{css(HEAT[level])}" d="{"".join(paths)}"/>' for level, paths in by_level.items())


def _write(pixels: U8, label: Label) -> None:
    if not label.text:
        return
    ink = letters(label.text)
    if label.is_bold:
        ink = ink | np.pad(ink, ((0, 0), (1, 0)))[:, :-1]
    left = max(0, round(label.x - _ANCHORS[label.anchor] * ink.shape[1]))
    top = max(0, label.baseline - _BASELINE)
    place = pixels[top : top + ink.shape[0], left : left + ink.shape[1]]
    place[ink[: place.shape[0], : place.shape[1]]] = label.colour


def _png(pixels: U8) -> bytes:
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * 3)], axis=1)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
            (b"IDAT", zlib.compress(lines.tobytes(), 6)),
            (b"IEND", b""),
        )
    )
