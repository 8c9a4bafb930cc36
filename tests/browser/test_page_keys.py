# SPDX-License-Identifier: Apache-2.0
"""The page by keyboard alone: every question of the runbook in two keys, and the way from the verdict to the flame graph."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page
from tests.browser.conftest import find, served, until, visit
from tests.browser.written import Written


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with served(Written()) as address:
        yield address


@pytest.mark.parametrize(
    ("question", "keys", "answer"),
    [
        ("which core", "4", "Core 1 was saturated"),
        ("which function", "5", "Core 1 was held by vfs_read"),
        ("which service", "6", "unused-agent.service loops"),
        ("did it hold", "7", "Held: 20,000 zombies before, 0 now"),
    ],
)
def test_a_question_of_the_runbook_takes_two_keys_at_most(
    page: Page, node: str, question: str, keys: str, answer: str
) -> None:
    visit(page, node)
    for key in keys:
        page.keyboard.press(key)
    until(page, f"document.querySelector('h1')?.textContent.startsWith({answer!r})")
    assert len(keys) <= 2, question
    box = page.locator("h1").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 900, "the answer is in sight"


def test_from_the_verdict_to_the_flame_graph_of_the_saturated_second(page: Page, node: str) -> None:
    visit(page, node)
    assert page.inner_text("#verdict h1").startswith("20,008")
    page.keyboard.press("ArrowRight")
    until(page, "location.hash.includes('link=saturated-core')")
    assert page.get_attribute("#link-saturated-core", "aria-pressed") == "true"
    page.keyboard.press("f")
    until(page, "location.hash.includes('from=1') && location.hash.includes('core=1')")
    until(page, "document.getElementById('range').textContent.includes('100 samples')")
    assert page.evaluate("() => document.activeElement.id") == "flame"
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert "(" in page.inner_text("#detail")
    walked = page.inner_text("#detail")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('zoom=')")
    again = page.context.new_page()
    visit(again, page.url)
    until(again, "document.getElementById('detail').textContent !== '' && window.zombiescope.flame.root > 0")
    assert again.inner_text("#detail") == walked
    again.close()


def test_the_table_is_walked_and_the_story_gives_the_focus_back(page: Page, node: str) -> None:
    visit(page, node, "#/zombies")
    page.focus("table[role=grid]")
    for key in ("j", "j", "ArrowDown", "k"):
        page.keyboard.press(key)
    assert page.get_attribute("table[role=grid]", "aria-activedescendant") == "row-1"
    page.keyboard.press("End")
    until(page, "document.querySelector('#row-20007') !== null")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.drawer .cmd') !== null")
    page.keyboard.press("Escape")
    until(page, "document.querySelector('.drawer') === null")
    assert page.evaluate("() => document.activeElement.getAttribute('role')") == "grid"
    page.keyboard.press("Home")
    until(page, "document.querySelector('#row-0') !== null")


def test_the_tree_is_walked_by_arrows(page: Page, node: str) -> None:
    visit(page, node, "#/zombies?size=bytes")
    page.focus(".icicle button")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("() => document.activeElement.textContent").startswith("/kubepods")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('node=/kubepods')")
    until(page, "document.querySelector('.rows h2')?.textContent.startsWith('7 of')")


def test_find_leads_anywhere_and_escape_leads_back(page: Page, node: str) -> None:
    visit(page, node, "#/zombies")
    find(page, "019999")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('[data-zombie]').length === 1")
    page.keyboard.press("1")
    until(page, "document.getElementById('verdict') !== null")
    find(page, "costly-reclaim")
    page.keyboard.press("Enter")
    until(page, "location.hash === '#/now?link=costly-reclaim-walk'")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open] .keylist")
    page.keyboard.press("Escape")
    until(page, "document.querySelector('dialog') === null")


def test_single_keys_can_be_turned_off_and_fields_keep_theirs(page: Page, node: str) -> None:
    visit(page, node, "#/zombies")
    page.click("input[type=search]")
    page.keyboard.type("g12")
    assert page.input_value("input[type=search]") == "g12"
    assert "#/zombies" in page.url
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.uncheck("dialog input[type=checkbox]")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    page.wait_for_timeout(100)
    assert "#/zombies" in page.url


def test_the_theme_goes_round_and_the_link_is_copied(page: Page, node: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit(page, node)
    seen = []
    for _ in range(3):
        page.keyboard.press("t")
        seen.append(page.evaluate("() => document.documentElement.dataset.theme ?? 'auto'"))
    assert seen == ["light", "dark", "auto"]
    page.keyboard.press("c")
    until(page, "navigator.clipboard.readText().then((text) => text === 'sudo zombiescope apply')")
    assert "Copied: sudo zombiescope apply" in page.inner_text("[role=status].vh")


def test_time_by_keys_alone(page: Page, node: str) -> None:
    visit(page, node, "#/time")
    for key in ("[", "[", "b", "}", "c"):
        page.keyboard.press(key)
    until(page, "document.querySelectorAll('.stretch').length === 2 && document.querySelector('aside table') !== null")
    assert "UTC" in page.inner_text(".lanebox")
    page.keyboard.press("d")
    until(page, "document.querySelector('.datatable') !== null")
    assert "Reclaim" in page.inner_text(".datatable")
    page.keyboard.press("x")
    until(page, "document.querySelectorAll('.stretch').length === 0")
