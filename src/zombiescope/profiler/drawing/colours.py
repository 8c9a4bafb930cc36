# SPDX-License-Identifier: Apache-2.0
"""Colours that mean something: how hot a cell is, which kind a frame is, how much a box grew or shrank."""

import math

from zombiescope.profiler.stacks.capture import is_kernel_file

Rgb = tuple[int, int, int]

EMPTY: Rgb = (244, 244, 244)
LEVELS = 255
"""How hot a cell is: 0 for an empty one, then 1 to 255."""
KINDS: dict[str, Rgb] = {
    "kernel": (240, 160, 90),
    "user": (140, 190, 220),
    "thread": (200, 205, 210),
    "unknown": (225, 225, 225),
}
GREW: Rgb = (214, 72, 56)
SHRANK: Rgb = (58, 116, 190)
SAME: Rgb = (236, 236, 236)


def kind_of(name: str, file: str) -> str:
    if not file:
        return "thread"
    if name == "[unknown]" or file == "[unknown]":
        return "unknown"
    return "kernel" if is_kernel_file(file) else "user"


def frame(name: str, file: str) -> Rgb:
    """By kind, with a shade by name, so that neighbours part and the same function looks the same everywhere."""
    shade = sum(ord(character) * (index + 1) for index, character in enumerate(name[:24])) % 9 - 4
    red, green, blue = KINDS[kind_of(name, file)]
    return _clip(red + 4 * shade), _clip(green + 4 * shade), _clip(blue + 3 * shade)


def change(before: float, after: float) -> Rgb:
    """Shares of the whole: red grew, blue shrank; half of the larger share, or five points, is full colour."""
    strength = min(1.0, abs(after - before) / max(0.05, 0.5 * max(before, after)))
    return _between(SAME, GREW if after > before else SHRANK, strength)


def css(colour: Rgb) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _between(low: Rgb, high: Rgb, share: float) -> Rgb:
    red, green, blue = (_clip(round(a + (b - a) * share)) for a, b in zip(low, high, strict=True))
    return red, green, blue


def _clip(value: int) -> int:
    return min(255, max(0, value))


def _palette(*stops: Rgb) -> tuple[Rgb, ...]:
    """A colour for each level."""
    places = [level * (len(stops) - 1) / LEVELS for level in range(LEVELS + 1)]
    return tuple(_between(stops[int(at)], stops[math.ceil(at)], at % 1) for at in places)


HEAT = _palette((255, 247, 236), (253, 212, 158), (252, 141, 89), (215, 48, 31), (127, 0, 0))
"""Light to dark, one hue: also told apart in print and by colour-blind eyes."""
HEAT_ON_DARK = _palette((52, 40, 34), (122, 60, 30), (205, 90, 40), (250, 160, 80), (255, 240, 190))
"""The same for a dark page."""
