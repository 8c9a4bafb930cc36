# SPDX-License-Identifier: Apache-2.0
"""Every view over a node written by hand: what it answers, the address, live changes, a failed part, hostile names, one file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.browser.conftest import find, heading, ready, served, until, visit, watched
from tests.browser.written import Written, now_document, zombies_document
from tests.browser.written_time import DAY, HOSTILE, NOW

ANSWERS = {
    "now": "20,008 dead memory cgroups are still in the kernel and a core is held",
    "zombies": "20,008 zombies, 99.96 % of them made by unit:unused-agent.service; 99.96 % held by shared memory (tmpfs).",
    "time": "Grew from 8 to 20,008 zombies; 50 network resets; 1 stretch not observed.",
    "cores": "Core 1 was saturated 1 time, for up to 5.0 s without a break (7 min in all): mem_cgroup_iter 41 %, kswapd0.",
    "profiles": "Core 1 was held by vfs_read",
    "services": "unused-agent.service loops: 4,711 restarts, and nothing needs it. 1 service could not be judged.",
    "remedies": "Held: 20,000 zombies before, 0 now, none more in 600 s. The plan has 1 step.",
}


@pytest.fixture(scope="module")
def written() -> Written:
    return Written()


@pytest.fixture(scope="module")
def node(written: Written) -> Iterator[str]:
    with served(written) as address:
        yield address


@pytest.mark.parametrize("view", ANSWERS)
def test_a_view_begins_with_its_answer(page: Page, node: str, view: str) -> None:
    visit(page, node, f"#/{view}")
    assert heading(page).startswith(ANSWERS[view])
    assert page.locator("h1").count() == 1
    assert page.get_attribute(".views a[aria-current]", "href") == f"#/{view}"
    assert page.title().endswith("· node-c-0417 · Zombiescope")


def test_now_has_the_answer_the_chain_the_command_and_six_numbers_without_scrolling(page: Page, node: str) -> None:
    visit(page, node)
    for part in ("#verdict", ".chain", "#first", ".numbers"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900, part
    assert page.get_attribute("#verdict", "data-sev") == "critical"
    assert page.locator(".chain button").all_inner_texts()[0].startswith("symptom\nCritical\nA network card was reset")
    assert page.locator(".chain li.joins").count() == 1
    assert "the kernel log may not be read" in page.inner_text("[data-number=nic_resets]")
    page.click("#link-zombie-population")
    assert "Zombie memory cgroups" in page.inner_text("#evidence")
    assert "link=zombie-population" in page.url


def test_a_healthy_node_lists_what_was_looked_for_and_an_unread_one_is_not_called_healthy(page: Page) -> None:
    well = {**now_document(), "severity": "ok", "verdict": "Nothing is wrong", "chains": [], "remedy": None}
    with served(Written(now=well)) as address:
        visit(page, address)
        assert "1 of 8 possible findings were looked for and are absent; 1 could not be judged." in page.inner_text(
            "#verdict"
        )
        assert page.locator(".checks li").count() == 8
    blind = {**well, "severity": "unknown", "verdict": "It cannot be told what is wrong here"}
    with served(Written(now=blind)) as address:
        visit(page, address)
        assert page.inner_text("#verdict .sev") == "Cannot tell"


def test_the_tree_the_groups_and_the_filter_choose_rows_and_the_link_restores_them(page: Page, node: str) -> None:
    visit(page, node, "#/zombies?size=bytes")
    assert page.locator(".icicle button").count() == 10
    page.click(".icicle button.pin.k2")
    until(page, "document.querySelector('.rows h2')?.textContent.startsWith('5 of')")
    assert page.locator("[data-zombie]").count() == 5
    page.keyboard.press("x")
    page.keyboard.press("g")
    until(page, "document.querySelector('.pick [aria-pressed=true]').textContent === 'pin'")
    page.keyboard.press("s")
    page.fill("input[type=search]", "019999")
    until(page, "document.querySelectorAll('[data-zombie]').length === 1")
    page.click("[data-zombie]")
    until(page, "document.querySelector('.drawer .cmd code') !== null")
    assert page.inner_text(".drawer .cmd code").startswith("sudo zombiescope plan --zombie 6265666")
    again = page.context.new_page()
    visit(again, page.url)
    until(again, "document.querySelector('.drawer .cmd code') !== null")
    assert again.locator("[data-zombie]").count() == 1
    assert again.inner_text(".pick [aria-pressed=true]") == "pin"
    again.close()


def test_65_000_rows_are_scrolled_and_sorted_with_sixty_alive(page: Page) -> None:
    with served(Written(65_000)) as address:
        visit(page, address, "#/zombies")
        page.wait_for_selector("[data-zombie]")
        assert page.get_attribute("table[role=grid]", "aria-rowcount") == "65009"
        page.evaluate("() => { const box = document.querySelector('.scroller'); box.scrollTop = box.scrollHeight; }")
        until(page, "document.querySelector('#row-65007') !== null")
        assert page.locator(".scroller tbody tr").count() < 80
        page.evaluate("() => { location.hash = '#/zombies?sort=-file'; }")
        until(page, "document.querySelector('.scroller [aria-sort=descending]')?.textContent.startsWith('file')")
        page.focus("table[role=grid]")
        page.keyboard.press("Home")
        until(page, "document.querySelector('#row-0') !== null")
        assert page.locator(".scroller tbody tr").count() < 80


def test_a_new_series_is_a_lane_without_code_and_gaps_say_why(page: Page, node: str) -> None:
    visit(page, node, "#/time")
    assert "Something of a later release" in page.inner_text(".lanebox")
    labels = page.eval_on_selector_all(".lanebox canvas", "all => all.map(one => one.getAttribute('aria-label'))")
    assert "Restarts: not known, systemd could not be asked" in labels
    assert "the agent was not running" in page.inner_text("aside")
    assert "this may be chance" in page.inner_text("aside")


def test_an_agent_that_hangs_is_said_too(page: Page, node: str) -> None:
    """Stopped, or behind a line that was cut: it takes the question and never answers."""
    page.clock.install()
    visit(page, node)
    page.route("**/api/v1/page", lambda _: None)
    for _ in range(4):
        page.clock.fast_forward(6_000)
    page.wait_for_selector(".banner [role=alert]")
    assert page.inner_text(".live").startswith("lost · last ")
    page.unroute_all(behavior="ignoreErrors")


@pytest.mark.parametrize("width", [360, 700, 1440])
def test_no_number_in_the_tree_is_cut(browser: Browser, node: str, width: int) -> None:
    with watched(browser, viewport={"width": width, "height": 900}) as found:
        page = found.context.new_page()
        for size in ("zombies", "bytes"):
            visit(page, node, f"#/zombies?size={size}")
            until(page, "document.querySelectorAll('.icicle button').length > 3")
            cut = page.eval_on_selector_all(
                ".icicle button",
                "all => all.filter(one => one.textContent && (/[0-9]…/.test(one.textContent)"
                " || one.scrollWidth > one.clientWidth + 1)).map(one => one.textContent)",
            )
            assert cut == []


def test_brushing_compares_two_stretches_and_zooming_reaches_a_second(page: Page, node: str) -> None:
    visit(page, node, "#/time")
    box = page.locator(".lanebox").bounding_box()
    assert box is not None
    for keys, place in (((), 0.9), (("Shift",), 0.3)):
        for key in keys:
            page.keyboard.down(key)
        page.mouse.move(box["x"] + box["width"] * place, box["y"] + 200)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * (place - 0.05), box["y"] + 220, steps=3)
        page.mouse.up()
        for key in keys:
            page.keyboard.up(key)
    until(page, "document.querySelector('aside table') !== null")
    assert "cannot tell" in page.inner_text("aside table")
    assert page.locator(".stretch").count() == 2
    for _ in range(18):
        page.keyboard.press("+")
    query = dict(part.split("=") for part in page.url.split("?")[1].split("&"))
    assert 1.0 <= float(query["to"]) - float(query["from"]) < 1.1
    page.keyboard.press("o")
    until(page, "location.hash.startsWith('#/profiles?name=test')")


def test_a_part_that_fails_says_so_and_the_others_live(browser: Browser) -> None:
    with watched(browser) as found, served(Written(tree=None)) as address:
        page = found.context.new_page()
        visit(page, address, "#/zombies")
        assert "tree broke" in page.inner_text("section[aria-label='Live tree']")
        assert page.locator("[data-zombie]").count() > 10
        assert [text for text in found.problems if "500" not in text] == []
        found.problems.clear()


def test_numbers_change_in_place_and_rows_wait_while_somebody_is_inside(
    page: Page, written: Written, node: str
) -> None:
    visit(page, node, "#/zombies")
    page.evaluate("() => { document.querySelector('.bar').dataset.same = 'yes'; }")
    page.hover("[data-zombie]")
    written.changes["zombies"] = zombies_document(20_012)
    written.versions += 1
    until(page, "document.querySelector('[aria-keyshortcuts=r]') !== null")
    assert page.inner_text("[aria-keyshortcuts=r]").startswith("12 more in a newer look")
    assert heading(page).startswith("20,008")
    page.keyboard.press("r")
    until(page, "document.querySelector('h1').textContent.startsWith('20,020')")
    assert page.get_attribute(".bar", "data-same") == "yes"
    written.changes.clear()


def test_names_are_text(page: Page, node: str) -> None:
    for view in ("#/now", f"#/zombies?q={HOSTILE[:20]}&z=6265668", "#/services?q=unused"):
        visit(page, node, view)
        assert page.locator("#app img, #app b b, #app i:not(.key)").count() == 0
    visit(page, node, "#/zombies?z=6265668")
    assert HOSTILE in page.inner_text(".drawer")
    assert page.eval_on_selector(".drawer code", "one => getComputedStyle(one).unicodeBidi") == "isolate"
    find(page, "<img")
    assert "<img" in page.inner_text("dialog .hits")


def test_what_is_gone_says_so(browser: Browser, node: str) -> None:
    with watched(browser) as found, served(Written(zombie=None)) as address:
        page = found.context.new_page()
        visit(page, address, "#/zombies?z=1")
        until(page, "document.querySelector('.drawer').textContent.includes('zombie broke')")
        found.problems.clear()


@pytest.mark.parametrize("view", ["now", "zombies", "time"])
def test_a_saved_view_is_one_file_that_needs_nobody(page: Page, node: str, tmp_path: Path, view: str) -> None:
    visit(page, node, f"#/{view}")
    with page.expect_download() as download:
        page.keyboard.press("S")
    file = tmp_path / "saved.html"
    download.value.save_as(file)
    assert "<img src=x" not in file.read_text(encoding="utf-8")
    asked: list[str] = []
    again = page.context.new_page()
    again.on("request", lambda request: asked.append(request.url))
    again.goto(file.as_uri())
    ready(again)
    assert heading(again).startswith(ANSWERS[view])
    assert again.inner_text(".live").startswith("saved · ")
    assert asked == [file.as_uri()]
    again.close()


def test_a_recording_says_its_time_and_polls_nobody(page: Page) -> None:
    world = Written()
    world.mode = "recording"
    asked: list[str] = []
    with served(world) as address:
        page.on("request", lambda request: asked.append(request.url))
        visit(page, address)
        assert page.inner_text(".live") == "recording · 16 Nov 05:49:26Z"
        before = len(asked)
        page.wait_for_timeout(2500)  # two and a half polls of a live one
        assert len(asked) == before


def test_times_are_absolute_in_the_address(page: Page, node: str) -> None:
    visit(page, node, f"#/time?from={NOW - DAY / 2}&to={NOW}")
    assert "15 Nov 17:49Z to 16 Nov 05:49Z" in page.inner_text(".tools")
    page.keyboard.press("ArrowLeft")
    until(page, f"location.hash.includes('from={int(NOW - DAY / 2 - DAY / 8)}')")
    assert json.loads(page.evaluate("() => JSON.stringify(history.length)")) <= 2
