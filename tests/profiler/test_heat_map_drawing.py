# SPDX-License-Identifier: Apache-2.0
"""How hot a cell looks is decided once: SVG, PNG, terminal and page agree."""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np
import pytest
from rich.text import Text

from zombiescope.profiler.drawing.colours import HEAT, HEAT_ON_DARK, css
from zombiescope.profiler.drawing.heat_map import render_heat_map_png, render_heat_map_svg, strips_of
from zombiescope.profiler.drawing.text import render_heat_map_text
from zombiescope.profiler.stacks.heat_map import HeatMap
from zombiescope.web.statics import STATIC


def heat_map(*counts: int) -> HeatMap:
    """One core, one row, a column a count."""
    cells = np.array(counts, np.int64).reshape(1, -1, 1)
    return HeatMap(0.0, 1.0, 1, (3,), cells, None, (None,))


def pixels(png: bytes) -> list[tuple[int, ...]]:
    """The first line of an 8-bit RGB picture without filters."""
    width = struct.unpack(">I", png[16:20])[0]
    at = png.index(b"IDAT")
    line = zlib.decompress(png[at + 4 : at + 4 + struct.unpack(">I", png[at - 4 : at])[0]])[1 : 1 + 3 * width]
    return [tuple(line[place : place + 3]) for place in range(0, len(line), 3)]


def test_all_forms_show_a_cell_in_the_same_colour() -> None:
    found = heat_map(0, 1, 5, 9)
    levels = strips_of(found, per_core=True)[0][0].levels[:, 0].tolist()
    assert levels == [0, 29, 142, 255]
    colours = [css(HEAT[level]) for level in levels if level]
    drawn = re.findall(r'<path fill="(#\w+)"', render_heat_map_svg(found, "title"))
    assert drawn == colours
    seen = list(dict.fromkeys("#{:02x}{:02x}{:02x}".format(*pixel) for pixel in pixels(render_heat_map_png(found))))
    assert seen == ["#f4f4f4", *colours]
    line = render_heat_map_text(found, "title", per_core=True, gaps=())[2]
    assert isinstance(line, Text)
    assert (line.plain, [str(span.style) for span in line.spans if span.style]) == ("   ░▓█", colours)


@pytest.mark.parametrize("hottest", range(1, 300))
def test_the_hottest_cell_has_the_last_colour_whatever_its_count(hottest: int) -> None:
    """11 / 11 * 255 is a little more than 255 in floating point."""
    assert pixels(render_heat_map_png(heat_map(1, hottest)))[-1] == HEAT[255]


def test_the_page_has_no_colours_of_its_own() -> None:
    script = STATIC.joinpath("parts", "heat.js").read_text()
    assert not re.search(r"\[\d+, \d+, \d+\]", script)
    assert "Math.ceil(value * 255 / this.hottest)" in script, (
        "the rule of strips_of, once more for sums made by the page"
    )


def test_palettes_begin_and_end_where_they_should() -> None:
    assert (len(HEAT), HEAT[0], HEAT[255]) == (256, (255, 247, 236), (127, 0, 0))
    assert (len(HEAT_ON_DARK), HEAT_ON_DARK[0], HEAT_ON_DARK[255]) == (256, (52, 40, 34), (255, 240, 190))
