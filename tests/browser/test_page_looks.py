# SPDX-License-Identifier: Apache-2.0
"""How the page looks to everybody: axe in both themes, contrast, 360 px to 4K, print, reduced motion, forced colours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.browser.conftest import no_barrier, served, visit, watched
from tests.browser.written import Written

VIEWS = [
    "now?data=1",
    "zombies?open=unit:unused-agent.service&z=6245670",
    "time?data=1",
    "cores?data=1",
    "profiles",
    "services",
    "remedies",
]
TOKENS = Path(__file__).resolve().parents[2] / "src" / "zombiescope" / "web" / "static" / "tokens.css"
GROUNDS = ("bg", "panel", "raised")
LEAST = {"ink": 12.0, "soft": 4.5, "link": 4.5, "critical": 4.5, "warning": 4.5, "ok": 4.5, "unknown": 4.5, "edge": 3.0}


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with served(Written()) as address:
        yield address


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_barrier_in_any_view(browser: Browser, node: str, theme: str) -> None:
    with watched(browser, color_scheme=theme, reduced_motion="reduce") as found:
        for view in VIEWS:
            page = found.context.new_page()
            visit(page, node, f"#/{view}")
            no_barrier(page)
            page.close()
        page = found.context.new_page()
        visit(page, node)
        for key in ("?", "/"):
            page.keyboard.press(key)
            page.wait_for_selector("dialog[open]")
            no_barrier(page)
            page.keyboard.press("Escape")
            page.wait_for_selector("dialog", state="detached")


@pytest.mark.parametrize("width", [360, 720, 1000, 1440, 3840])
def test_nothing_makes_the_page_scroll_sideways(browser: Browser, node: str, width: int) -> None:
    with watched(browser, viewport={"width": width, "height": 900}) as found:
        page = found.context.new_page()
        for view in VIEWS:
            visit(page, node, f"#/{view}")
            wide = page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width, f"{view} is {wide} px wide"


def test_on_a_phone_the_chain_stands_upright_and_the_verdict_leads_to_the_remedy(browser: Browser, node: str) -> None:
    with watched(browser, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as found:
        page = found.context.new_page()
        visit(page, node)
        left = page.eval_on_selector_all(
            ".chain li:not(.why)", "all => all.map(one => one.getBoundingClientRect().left)"
        )
        assert len(set(left)) == 1
        page.tap(".jump")
        page.wait_for_function("() => document.getElementById('first').getBoundingClientRect().top < innerHeight")
        visit(page, node, "#/zombies?z=6245670")
        small = page.eval_on_selector_all(
            ".views a, .pick button, .drawer .btn",
            "all => all.filter(one => one.getBoundingClientRect().height < 40).length",
        )
        assert small == 0


def test_a_wall_screen_grows_everything(browser: Browser, node: str) -> None:
    sizes = []
    for width in (1440, 3840):
        with watched(browser, viewport={"width": width, "height": 1000}) as found:
            page = found.context.new_page()
            visit(page, node)
            sizes.append(page.eval_on_selector("#verdict h1", "one => parseFloat(getComputedStyle(one).fontSize)"))
    assert sizes[1] == pytest.approx(1.5 * sizes[0])


def test_print_is_light_without_controls_and_says_where_it_is_from(browser: Browser, node: str) -> None:
    with watched(browser, color_scheme="dark") as found:
        page = found.context.new_page()
        visit(page, node)
        page.emulate_media(media="print")
        assert page.eval_on_selector("body", "one => getComputedStyle(one).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.is_visible(".views")
        assert not page.is_visible(".cmd .btn")
        assert node in page.inner_text(".onpaper")
        assert page.is_visible("#verdict")


def test_forced_colours_keep_every_picture_and_nothing_moves_when_asked(browser: Browser, node: str) -> None:
    with watched(browser, forced_colors="active", reduced_motion="reduce") as found:
        page = found.context.new_page()
        visit(page, node, "#/zombies?size=bytes")
        colours = page.eval_on_selector_all(
            ".icicle .pin", "all => new Set(all.map(one => getComputedStyle(one).backgroundColor)).size"
        )
        assert colours >= 3
        moving = page.evaluate("() => document.getAnimations().length")
        assert moving == 0


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_token_has_the_contrast_it_needs_on_every_ground() -> None:
    text = TOKENS.read_text(encoding="utf-8")
    pairs = {
        name: (light, dark) for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", text)
    }
    for theme in (0, 1):
        for name, least in LEAST.items():
            worst = min(contrast(pairs[name][theme], pairs[ground][theme]) for ground in GROUNDS)
            assert worst >= least, f"{name} in theme {theme}: {worst:.2f}"
        ramp = [luminance(pairs[f"h{step}"][theme]) for step in range(5)]
        assert ramp == sorted(ramp, reverse=theme == 0), "the lightness of the heat ramp turns"
        for area in ("memory", "files", "network", "kernel", "user", "none"):
            assert contrast(pairs["ink"][theme], pairs[f"k-{area}"][theme]) >= 4.5, area
        for side in ("less", "more"):
            assert contrast(pairs["ink"][theme], pairs[side][theme]) >= 4.5, side


def test_every_picture_has_words(page: Page, node: str) -> None:
    for view in VIEWS:
        visit(page, node, f"#/{view}")
        wordless = page.eval_on_selector_all(
            "main canvas, main svg:not(.icon):not([aria-hidden] *):not([aria-hidden=true])",
            "all => all.filter(one => !one.getAttribute('aria-label') && !one.parentElement.closest('svg')).length",
        )
        assert wordless == 0, view
