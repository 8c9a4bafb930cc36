# SPDX-License-Identifier: Apache-2.0
"""A heat map as a picture: seconds to the right, the parts of a second upwards, one strip per core. How hot a cell is, is decided
here once, for SVG, PNG and the terminal; the page does the same with the same colours."""

from collections.abc import Collection
from typing import NamedTuple

from zombiescope.profiler.drawing.colours import HEAT, LEVELS
from zombiescope.profiler.drawing.scene import FAINT, INK, Box, Grid, Label, Scene, wrapped
from zombiescope.profiler.stacks.arrays import I64
from zombiescope.profiler.stacks.heat_map import HeatMap

_LEFT, _RIGHT, _TOP, _LINE = 124, 24, 20, 17
_AXIS, _BETWEEN = 20, 14
"""Room below a strip for its times, and before the next one."""
_LEAST_WIDTH, _MOST_WIDTH, _MOST_WIDE = 620, 1600, 28
_SCALE_STEPS, _SCALE_WIDE = 8, 16
_TICKS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
_TICK_PIXELS = 56


class Strip(NamedTuple):
    name: str
    counts: I64
    """[column, row]"""
    coverage: float | None
    levels: I64
    """Of each cell: 0 for an empty one, 255 for the hottest of all strips."""


def strips_of(found: HeatMap, *, per_core: bool, cores: Collection[int] = ()) -> tuple[list[Strip], int]:
    """One strip per core (only of those that were chosen, if any) or one for all, and how many samples the hottest cell has."""
    named = (
        [
            (f"core {cpu}", found.counts[index], found.coverage[index])
            for index, cpu in enumerate(found.cpus)
            if not cores or cpu in cores
        ]
        if per_core
        else [("all cores" if not cores else "chosen cores", found.summed(), None)]
    )
    hottest = max([1, *(int(counts.max(initial=0)) for _, counts, _ in named)])
    return [Strip(name, counts, coverage, -(-counts * LEVELS // hottest)) for name, counts, coverage in named], hottest


def render_heat_map_svg(found: HeatMap, title: str, *, per_core: bool = True, cores: Collection[int] = ()) -> str:
    return _scene(found, title, *strips_of(found, per_core=per_core, cores=cores)).svg()


def render_heat_map_png(found: HeatMap, title: str, *, per_core: bool = True, cores: Collection[int] = ()) -> bytes:
    return _scene(found, title, *strips_of(found, per_core=per_core, cores=cores)).png()


def _scene(found: HeatMap, title: str, strips: list[Strip], hottest: int) -> Scene:
    wide = max(2, min(_MOST_WIDE, _MOST_WIDTH // max(1, found.columns)))
    high = 3 if found.rows > 25 else 6
    width = max(_LEAST_WIDTH, _LEFT + found.columns * wide + _RIGHT)
    scene = Scene(width, 0, title)
    cell = 1000 * found.column_seconds / found.rows
    how = f"Each column is {found.column_seconds:g} s; time within it runs upwards, in cells of {cell:.3g} ms."
    if any(strip.coverage is not None for strip in strips):
        how += " % seen: samples that are there, of those expected; what is missing is not idle."
    at = _TOP
    for text, colour, is_bold in ((title, INK, True), (how, FAINT, False)):
        for line in wrapped(text, width - 2 * _RIGHT):
            scene.parts.append(Label(_RIGHT, at, line, colour=colour, is_bold=is_bold))
            at += _LINE
    _legend(scene, at, hottest)
    at += _LINE
    for strip in strips:
        _strip(scene, found, strip, (at, wide, high))
        at += found.rows * high + _AXIS + _BETWEEN
    scene.parts.append(Label(_LEFT, at, "seconds since the capture began", colour=FAINT))
    scene.height = at + _LINE
    return scene


def _legend(scene: Scene, baseline: int, hottest: int) -> None:
    words = "Samples in a cell: 1"
    scene.parts.append(Label(_RIGHT, baseline, words, colour=FAINT))
    left = _RIGHT + 7 * len(words) + 6
    steps = min(_SCALE_STEPS, hottest)
    for step in range(steps):
        colour = HEAT[LEVELS * (step + 1) // steps]
        scene.parts.append(Box(left + step * _SCALE_WIDE, baseline - 10, _SCALE_WIDE, 12, colour))
    last = f"{hottest:,}" if hottest > 1 else ""
    scene.parts.append(Label(left + steps * _SCALE_WIDE + 6, baseline, last, colour=FAINT))


def _strip(scene: Scene, found: HeatMap, strip: Strip, place: tuple[int, int, int]) -> None:
    """With its name, how far the samples are complete, and both axes."""
    top, wide, high = place
    bottom = top + found.rows * high
    middle = (top + bottom) // 2
    scene.parts += [
        Grid(_LEFT, top, wide, high, strip.levels),
        Label(_LEFT - 36, middle, strip.name, "end", INK),
        Label(_LEFT - 6, top + 10, f"{found.column_seconds:g} s", "end", FAINT),
        Label(_LEFT - 6, bottom, "0", "end", FAINT),
    ]
    if strip.coverage is not None:
        scene.parts.append(Label(_LEFT - 36, middle + 15, f"{100 * strip.coverage:.0f} % seen", "end", FAINT))
    step = next((step for step in _TICKS if step * wide >= _TICK_PIXELS), found.columns)
    for column in range(0, found.columns + 1, step):
        x, at = _LEFT + column * wide, found.begin + column * found.column_seconds
        anchor = "start" if column == 0 else "middle"
        scene.parts += [Box(x, bottom, 1, 4, FAINT), Label(x, bottom + 15, f"{at:g}", anchor, FAINT)]
