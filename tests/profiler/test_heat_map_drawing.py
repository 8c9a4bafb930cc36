# SPDX-License-Identifier: Apache-2.0
"""How hot a cell looks is decided once: SVG, PNG, terminal and page agree."""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np
import pytest
from rich.text import Text

from zombiescope.profiler.drawing.colours import EMPTY, HEAT, HEAT_ON_DARK, Rgb, css
from zombiescope.profiler.drawing.heat_map import render_heat_map_png, render_heat_map_svg, strips_of
from zombiescope.profiler.drawing.scene import LETTER, letters
from zombiescope.profiler.drawing.text import render_heat_map_text
from zombiescope.profiler.stacks.arrays import U8
from zombiescope.profiler.stacks.heat_map import HeatMap
from zombiescope.web.one_file import STATIC


def heat_map(*counts: int) -> HeatMap:
    """One core, one row, a column a count."""
    cells = np.array(counts, np.int64).reshape(1, -1, 1)
    return HeatMap(0.0, 1.0, 1, (3,), cells, None, (None,))


def pixels(png: bytes) -> U8:
    """[row, column, colour] of an 8-bit RGB picture without filters."""
    width, height = struct.unpack(">II", png[16:24])
    at = png.index(b"IDAT")
    lines = zlib.decompress(png[at + 4 : at + 4 + struct.unpack(">I", png[at - 4 : at])[0]])
    return np.frombuffer(lines, np.uint8).reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)


def cells(found: HeatMap) -> list[Rgb]:
    """What the PNG shows in the middle of each cell of the first row of the first strip, found where the SVG has it."""
    svg, drawn = render_heat_map_svg(found, "title"), pixels(render_heat_map_png(found, "title"))
    ground = re.search(rf'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="\d+" fill="{css(EMPTY)}"/>', svg)
    assert ground
    left, top, width = map(int, ground.groups())
    wide = width // found.columns
    return [tuple(drawn[top + 1, left + wide * column + wide // 2].tolist()) for column in range(found.columns)]


def test_all_forms_show_a_cell_in_the_same_colour() -> None:
    found = heat_map(0, 1, 5, 9)
    levels = strips_of(found, per_core=True)[0][0].levels[:, 0].tolist()
    assert levels == [0, 29, 142, 255]
    colours = [css(HEAT[level]) for level in levels if level]
    drawn = re.findall(r'<path fill="(#\w+)"', render_heat_map_svg(found, "title"))
    assert drawn == colours
    assert [css(cell) for cell in cells(found)] == [css(EMPTY), *colours]
    line = render_heat_map_text(found, "title", per_core=True, gaps=())[2]
    assert isinstance(line, Text)
    assert (line.plain, [str(span.style) for span in line.spans if span.style]) == ("  1 s  ░▓█", colours)


@pytest.mark.parametrize("hottest", range(1, 300))
def test_the_hottest_cell_has_the_last_colour_whatever_its_count(hottest: int) -> None:
    """11 / 11 * 255 is a little more than 255 in floating point."""
    assert cells(heat_map(1, hottest))[-1] == HEAT[255]


def two_cores() -> HeatMap:
    counts = np.array([[[3, 0]] * 4, [[0, 7]] * 4], np.int64)
    return HeatMap(20.0, 1.0, 2, (3, 11), counts, None, (1.0, 0.25))


def test_a_picture_has_title_legend_and_axes_and_nothing_is_cut_off() -> None:
    title = "a capture with a long name: " + "time in the kernel, by moment, " * 8
    svg = render_heat_map_svg(two_cores(), title)
    width = int(re.findall(r'viewBox="0 0 (\d+)', svg)[0])
    labels = re.findall(r'<text x="(\d+)" y="(\d+)" text-anchor="(\w+)"[^>]*>([^<]*)</text>', svg)
    words = [text for *_, text in labels]
    assert " ".join(words).startswith(title.strip())
    for told in ("core 3", "core 11", "25 % seen", "1 s", "0", "20", "22", "Samples in a cell: 1", "7"):
        assert told in words
    assert "seconds since the capture began" in words
    for x, y, anchor, text in labels:
        left = int(x) - {"start": 0, "middle": 0.5, "end": 1}[anchor] * LETTER * len(text)
        assert left >= 0
        assert left + LETTER * len(text) <= width
        assert int(y) < int(re.findall(r'viewBox="0 0 \d+ (\d+)', svg)[0])


def test_the_png_has_the_same_words_as_the_svg() -> None:
    drawn = pixels(render_heat_map_png(two_cores(), "words"))
    without = pixels(render_heat_map_png(two_cores(), ""))
    assert drawn.shape == without.shape
    ink = (drawn != without).any(axis=2)
    assert letters("words").sum() <= ink.sum() <= 2 * letters("words").sum(), "the title, in bold"


def test_strips_are_of_the_chosen_cores() -> None:
    svg = render_heat_map_svg(two_cores(), "title", cores=(11,))
    assert ">core 11<" in svg
    assert ">core 3<" not in svg
    told = "\n".join(str(part) for part in render_heat_map_text(two_cores(), "t", per_core=True, cores=(3,), gaps=()))
    assert "core 3:" in told
    assert "core 11" not in told
    assert "up to 3   samples in" in told


def test_letters_that_the_font_does_not_have_are_question_marks() -> None:
    assert np.array_equal(letters("a\u2192\x07"), letters("a??"))
    assert letters("A").shape == (13, 6)


def test_the_page_has_no_colours_of_its_own() -> None:
    script = STATIC.joinpath("parts", "heat.js").read_text()
    assert not re.search(r"\[\d+, \d+, \d+\]", script)
    assert "Math.ceil(value * 255 / this.hottest)" in script, (
        "the rule of strips_of, once more for sums made by the page"
    )


def test_palettes_begin_and_end_where_they_should() -> None:
    assert (len(HEAT), HEAT[0], HEAT[255]) == (256, (255, 247, 236), (127, 0, 0))
    assert (len(HEAT_ON_DARK), HEAT_ON_DARK[0], HEAT_ON_DARK[255]) == (256, (52, 40, 34), (255, 240, 190))
