# SPDX-License-Identifier: Apache-2.0
"""The fleet view in a browser: cells, groups, cohorts, keys, links to nodes, hostile labels, saved, for everybody."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.browser.conftest import BROKEN_LINE, heading, no_barrier, ready, served, until, visit, watched
from tests.fleets.paging import many_nodes
from tests.fleets.worlds import World, world

from zombiescope.facts.fleet import Fleet, FleetNode
from zombiescope.presenters.fleet_json import INSTANCE_PAGE, NodeLinks
from zombiescope.web.fleet import DOCUMENTS
from zombiescope.web.site import Site

NODES = 2500
EVIL = "<img src=x onerror=alert(1)>\n\x1b[31m\u202e'\"&"


@contextmanager
def fleet_page(fleet: Fleet, template: str = INSTANCE_PAGE) -> Iterator[str]:
    with served(lambda selector: Site(many_nodes(fleet, NodeLinks(template), selector), DOCUMENTS)) as address:
        yield address


def planted() -> World:
    one = world(4, NODES, "pair")
    blind = [
        node._replace(zombies=None, live=None, counted=None) if place % 50 == 7 else node
        for place, node in enumerate(one.nodes)
    ]
    return World(tuple(blind), one.causes, one.began_at)


@pytest.fixture(scope="module")
def fleet() -> Iterator[str]:
    with fleet_page(planted().fleet(), "http://127.0.0.1:9/{node}") as address:
        yield address


def cell(page: Page) -> str:
    return page.inner_text(".readout")


def test_the_sentence_names_the_cause_and_the_confounder_and_every_node_is_a_cell(page: Page, fleet: str) -> None:
    visit(page, fleet)
    assert re.match(r"\d+ of \d+ nodes with image img-2024 and kernel 5\.15\.0-1050 are sick\.", heading(page))
    assert "Zone c is worse only because" in page.inner_text("#verdict .more")
    assert "could not be judged" in page.inner_text("#verdict")
    words = page.get_attribute(".cells .above", "aria-label") or ""
    assert f"{NODES:,} nodes as cells, in 4 groups by image" in words
    assert page.locator(".cohorts tr.first").inner_text().startswith("image img-2024 and kernel 5.15.0-1050")
    assert page.evaluate("document.querySelector('.cohorts tr.first .odds').getAttribute('aria-label')").startswith(
        "odds between"
    )
    painted = page.evaluate(
        "() => { const one = document.querySelector('.cells canvas'); "
        "const seen = one.getContext('2d').getImageData(0, 0, one.width, one.height).data; "
        "return seen.filter((value, place) => place % 4 === 3 && value).length }"
    )
    assert painted > 2 * NODES


def test_any_label_groups_and_any_number_colours_and_the_link_restores_both(page: Page, fleet: str) -> None:
    visit(page, fleet)
    page.select_option("select >> nth=0", "growth_per_hour")
    page.select_option("select >> nth=1", "zone")
    until(page, "document.querySelector('.above').getAttribute('aria-label').includes('3 groups by zone')")
    assert "growth per hour:" in page.inner_text(".legend")
    assert "not known 0" in page.inner_text(".legend")
    assert page.url.endswith("#/fleet?colour=growth_per_hour&by=zone")
    page.reload()
    ready(page)
    assert "growth per hour:" in page.inner_text(".legend")
    page.keyboard.press("d")
    page.wait_for_selector(".datatable")
    rows = page.locator(".datatable tbody tr").all_inner_texts()
    assert len(rows) == 3
    assert sum(int(row.split("\t")[1].replace(",", "")) for row in rows) == NODES


def test_a_cohort_chooses_its_nodes_in_cells_and_table(page: Page, fleet: str) -> None:
    visit(page, fleet)
    page.click(".cohorts tr.first button")
    page.wait_for_selector(".only")
    told = int(page.inner_text(".cohorts tr.first td:nth-child(2)").split()[0].replace(",", ""))
    shown = int(re.findall(r"([\d,]+) of", page.inner_text(".only"))[0].replace(",", ""))
    assert told <= shown <= told + NODES // 40, "those that nobody can judge are members too"
    until(page, f"document.querySelector('.rows h2').textContent.startsWith('{shown:,} of')")
    page.keyboard.press("x")
    until(page, "document.querySelector('.only') === null")


def test_keys_walk_the_cells_choose_a_node_and_open_its_page(page: Page, fleet: str) -> None:
    visit(page, fleet)
    page.focus(".above")
    page.keyboard.press("ArrowRight")
    first = cell(page)
    assert "Critical" in first
    page.keyboard.press("ArrowRight")
    until(page, f"document.querySelector('.readout').innerText !== {first!r}")
    assert page.inner_text("[role=status].vh")
    page.keyboard.press("PageDown")
    page.keyboard.press("End")
    until(page, "document.querySelector('.readout').textContent.includes('img-')")
    for key in ("+", "+", "ArrowUp", "0"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_selector("#node")
    name = re.search(r"node-\d{5}", page.inner_text("#node h2"))
    assert name
    assert page.get_attribute(".nodepage", "href") == f"http://127.0.0.1:9/{name[0]}"
    assert f"n={name[0]}" in page.url
    page.keyboard.press("Escape")
    until(page, "document.querySelector('#node') === null")


def test_the_pointer_reads_a_cell_zooms_and_moves(page: Page, fleet: str) -> None:
    visit(page, fleet)
    box = page.locator(".above").bounding_box()
    assert box
    page.mouse.move(box["x"] + 4, box["y"] + 27)
    until(page, "document.querySelector('.readout').textContent.includes('zombies')")
    worst = cell(page)
    page.keyboard.down("Control")
    for _ in range(12):
        page.mouse.wheel(0, -240)
    page.keyboard.up("Control")
    until(page, "document.querySelector('.above').classList.contains('moves')")
    page.mouse.down()
    page.mouse.move(box["x"] + 204, box["y"] + 127, steps=4)
    page.mouse.move(box["x"] + 4, box["y"] + 27, steps=4)
    page.mouse.up()
    page.mouse.move(box["x"] + 6, box["y"] + 30)
    assert "zombies" in cell(page)
    page.click("text=All >> nth=0")
    page.mouse.move(box["x"] + 4, box["y"] + 27)
    until(page, f"document.querySelector('.readout').innerText === {worst!r}")
    page.mouse.click(box["x"] + 4, box["y"] + 27)
    page.wait_for_selector("#node")


def test_rows_sort_filter_and_find_reaches_labels(page: Page, fleet: str) -> None:
    visit(page, fleet)
    page.click("th button:has-text('per hour')")
    page.click("th button:has-text('per hour')")
    until(page, "document.querySelector('th[aria-sort=descending]') !== null")
    page.fill("input[type=search]", "node-00012")
    until(page, "document.querySelectorAll('[data-node]').length === 1")
    page.click("[data-node]")
    page.wait_for_selector("#node")
    page.keyboard.press("x")
    page.keyboard.press("/")
    page.wait_for_selector("dialog[open] input:focus")
    page.keyboard.type("pool")
    until(page, "document.querySelector('dialog .hits').textContent.includes('group the nodes by it')")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('by=pool')")


def test_a_node_of_a_server_leads_to_the_page_of_its_agent(browser: Browser) -> None:
    class Agent(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>a node</title>")

        def log_message(self, *_: object) -> None:
            pass

    with watched(browser) as found:
        found.forgives = BROKEN_LINE  # whoever leaves a page breaks what it was asking
        page = found.context.new_page()
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Agent) as agent:
            threading.Thread(target=agent.serve_forever, daemon=True).start()
            nodes = (FleetNode("here", {"zone": "a"}, 20_000, 40, 20_040), FleetNode("there", {"zone": "b"}, 3, 40, 43))
            addresses = {"here": f"127.0.0.1:{agent.server_port}", "there": "javascript:alert(1)"}
            with fleet_page(Fleet(1.8e9, "http://127.0.0.1:9090", nodes, addresses=addresses)) as address:
                visit(page, address, "#/fleet?n=there")
                assert page.locator(".nodepage").count() == 0
                assert "fleet serve --node-page" in page.inner_text("#node")
                visit(page, address, "#/fleet?n=here")
                page.click(".nodepage")
                page.wait_for_url(f"http://127.0.0.1:{agent.server_port}/")
            agent.shutdown()


def test_few_nodes_are_too_few_and_said_so(page: Page, shot: Callable[[Page], None]) -> None:
    nodes = tuple(
        FleetNode(name, {"zone": zone}, zombies, 40, zombies + 40)
        for name, zone, zombies in (("a", "x", 9000), ("b", "x", 8000), ("c", "y", 3), ("d", "z", 4))
    )
    with fleet_page(Fleet(1.8e9, "four", nodes)) as address:
        visit(page, address)
        assert heading(page) == "2 of 4 nodes are sick: too few nodes to tell what sets them apart."
        assert "All sick nodes and no others have zone x, which may be chance." in page.inner_text("#verdict")
        assert "too few nodes to compare" in page.inner_text(".cohorts")
        shot(page)


def test_hostile_names_and_labels_stay_text(page: Page) -> None:
    nodes = tuple(
        FleetNode(
            f"{EVIL}{place}",
            {EVIL: EVIL if place % 2 else "plain", "zone": EVIL},
            20_000 if place % 2 else 3,
            40,
            43,
            findings={EVIL: "critical"} if place % 2 else {},
        )
        for place in range(60)
    )
    with fleet_page(Fleet(1.8e9, EVIL, nodes), "http://127.0.0.1:9/{node}") as address:
        visit(page, address, "#/fleet?data=1")
        page.focus(".above")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector("#node")
        assert page.locator("main img").count() == 0
        assert "<img src=x onerror=alert(1)>" in page.inner_text("#node")
        link = page.get_attribute(".nodepage", "href") or ""
        assert link.startswith("http://127.0.0.1:9/%3Cimg")
        assert "\n" not in link
        no_barrier(page)


def test_a_fleet_that_cannot_be_asked_says_why(browser: Browser) -> None:
    with watched(browser) as found:
        found.forgives = BROKEN_LINE
        page = found.context.new_page()
        with fleet_page(Fleet(1.8e9, "nothing", ())) as address:
            page.goto(address)
            page.wait_for_selector(".panelerror")
            assert "no node was found" in page.inner_text("main")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_barrier(browser: Browser, fleet: str, theme: str, shot: Callable[[Page], None]) -> None:
    with watched(browser, color_scheme=theme, reduced_motion="reduce") as found:
        page = found.context.new_page()
        visit(page, fleet, "#/fleet?data=1&n=node-00001&colour=zombies")
        no_barrier(page)
        page.keyboard.press("?")
        page.wait_for_selector("dialog[open]")
        no_barrier(page)
        page.keyboard.press("Escape")
        shot(page)


@pytest.mark.parametrize("width", [360, 1000, 3840])
def test_nothing_makes_it_scroll_sideways(browser: Browser, fleet: str, width: int) -> None:
    with watched(browser, viewport={"width": width, "height": 900}) as found:
        page = found.context.new_page()
        visit(page, fleet, "#/fleet?data=1&n=node-00001")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_a_saved_view_opens_from_a_file_with_every_node(browser: Browser, fleet: str, tmp_path: Path) -> None:
    with watched(browser) as found:
        page = found.context.new_page()
        visit(page, fleet, "#/fleet?by=zone&n=node-00001")
        with page.expect_download() as saved:
            page.keyboard.press("S")
        file = tmp_path / saved.value.suggested_filename
        saved.value.save_as(file)
        page.goto(file.as_uri())
        ready(page)
        assert "node-00001" in page.inner_text("#node h2")
        assert f"{NODES:,} nodes" in page.inner_text("main h2 >> nth=0")
