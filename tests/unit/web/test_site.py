# SPDX-License-Identifier: Apache-2.0
"""The page's addresses over a built host: documents made by a child, kept packed, one story found among many."""

from __future__ import annotations

import gzip
import json
import os
import selectors
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser import worlds

from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import ObservationError
from zombiescope.pipeline.carrying import places
from zombiescope.pipeline.page_look import Subject
from zombiescope.presenters.document import render_column, render_numbers
from zombiescope.web.http import Request, Response
from zombiescope.web.one_file import STATIC
from zombiescope.web.server import Apart
from zombiescope.web.site import Pace, Shelf, Site, failed, laid_out
from zombiescope.web.standing import Standing

ZOMBIES = 700
PATIENCE = 120.0


class Turning:
    """A selector's loop, turned until something is so."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()

    def until(self, is_so: Callable[[], bool]) -> bool:
        end = time.monotonic() + PATIENCE
        while not is_so() and time.monotonic() < end:
            for key, _ in self.selector.select(0.05):
                key.data(time.monotonic())
        return is_so()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    turning = Turning()
    subject = Subject(worlds.machine(ZOMBIES), None, Thresholds(), None, 0.0)
    found = Site(Standing(subject, turning.selector))
    assert ask(found, "zombies")[0] == 202, "it is being made"
    assert turning.until(lambda: ask(found, "zombies")[0] == 200)
    yield found
    found.close()


def ask(site: Site, path: str, **query: str) -> tuple[int, Any]:
    found = site.answer(Request(f"/api/v1/{path}", query))
    if isinstance(found, Apart):
        found = found.finish(found.work())
    assert isinstance(found, Response)
    body = gzip.decompress(found.body) if found.is_packed else found.body
    return found.status, json.loads(body)


def column(document: Any, name: str) -> list[Any]:
    """As the page unpacks it."""
    one = document["columns"][name]
    if "constant" in one:
        return [one["constant"]] * document["count"]
    if "values" in one:
        return list(one["values"])
    if "dictionary" in one:
        return [one["dictionary"][code] for code in one["codes"]]
    found: list[Any] = []
    running = 0
    for step in one["deltas"]:
        running += step or 0
        found.append(None if step is None else running * one.get("scale", 1))
    return found


def test_every_zombie_is_a_row_and_every_row_has_its_story(site: Site) -> None:
    _, table = ask(site, "zombies")
    assert table["count"] == ZOMBIES
    truth = [worlds.zombie(number, number / (ZOMBIES - 1)) for number in range(ZOMBIES)]
    assert column(table, "id") == [zombie.id for zombie in truth]
    assert column(table, "pin") == [zombie.pins[0].kind for zombie in truth]
    files = zip(column(table, "file_folder"), column(table, "file_name"), strict=True)
    names = [None if folder is None else folder + name for folder, name in files]
    assert names == [None if zombie.pins[0].path is None else zombie.pins[0].path.decode() for zombie in truth]
    for zombie in (truth[0], truth[333], truth[-1]):
        status, story = ask(site, "zombie", id=str(zombie.id))
        assert (status, story["id"], story["command"]) == (
            200,
            zombie.id,
            f"sudo zombiescope plan --zombie {zombie.id}",
        )
        assert [pin["kind"] for pin in story["pins"]] == [pin.kind for pin in zombie.pins]
        assert story["freed_by"]
    assert ask(site, "zombie", id="1")[0] == 404
    assert ask(site, "zombie", id="x")[0] == 400


def test_a_strangers_name_is_printable_in_every_document(site: Site) -> None:
    for name in ("zombies", "tree", "now", "remedies"):
        text = json.dumps(ask(site, name)[1], ensure_ascii=False)
        assert all(character.isprintable() for character in text), name
    assert any("\\x1b[31m<img" in maker for maker in column(ask(site, "zombies")[1], "name"))


def test_the_tree_adds_up_and_names_its_makers(site: Site) -> None:
    nodes = ask(site, "tree")[1]["nodes"]
    assert (nodes[0]["path"], nodes[0]["zombies"], nodes[0]["parent"]) == ("/", ZOMBIES, -1)
    assert sum(node["own"] for node in nodes) == ZOMBIES
    for number, node in enumerate(nodes):
        below = [other for other in nodes if other["parent"] == number]
        assert node["zombies"] == node["own"] + sum(each["zombies"] for each in below)
        assert sum(maker[1] for maker in node["makers"]) == node["own"]


def test_what_cannot_be_told_is_a_gap_with_its_reason(site: Site) -> None:
    services = ask(site, "services")[1]
    assert services["counts"] is None
    assert services["gaps"][0]["reason"]
    for name in ("series", "range", "events", "cores", "follows"):
        assert ask(site, name)[1]["gaps"][0]["reason"] == "no history is kept", name
    now = ask(site, "now")[1]
    assert [number["id"] for number in now["numbers"] if number["day"] is not None] == []
    assert all(number["gap"]["reason"] for number in now["numbers"])
    assert ask(site, "captures")[1]["captures"] == []
    assert site.answer(Request("/api/v1/nothing")) is None


def test_a_shelf_makes_when_asked_and_not_again_before_its_time() -> None:
    turning = Turning()
    shelf = Shelf(turning.selector, lambda: laid_out({"a": {"b": 1}}, [], {"at": 5.0}), Pace(3600.0, 1.0))
    assert (shelf.get("a"), shelf.is_making) == (None, False)
    shelf.want()
    assert turning.until(lambda: not shelf.is_making)
    kept = shelf.get("a")
    assert kept is not None
    assert json.loads(gzip.decompress(kept.body)) == {"b": 1}
    assert shelf.about["at"] == 5.0
    shelf.want()
    assert not shelf.is_making, "the last one is young"


@pytest.mark.parametrize("kind", ["refused", "bug"])
def test_a_shelf_that_fails_says_why_and_keeps_what_it_has(kind: str) -> None:
    turning = Turning()
    is_broken: list[bool] = []

    def make() -> bytes:
        if not is_broken:
            return laid_out({"a": {}}, [], {})
        if kind == "bug":
            raise KeyError("bug")
        return failed(ObservationError("cannot look", "nobody may", ""))

    shelf = Shelf(turning.selector, make, Pace(0.0, 1e9))
    shelf.want()
    assert turning.until(lambda: shelf.get("a") is not None)
    is_broken.append(True)
    shelf.want()
    assert turning.until(lambda: bool(shelf.why))
    assert shelf.get("a") is not None
    shelf.close()


def test_columns_take_their_shortest_form_and_come_back() -> None:
    assert render_column(["a"] * 9) == {"constant": "a"}
    assert render_column(["a", "b"] * 9)["dictionary"] == ["a", "b"]
    assert render_column(["a", None, "c"]) == {"values": ["a", None, "c"]}
    assert render_numbers([5, 7, None, 4]) == {"deltas": [5, 2, None, -3]}
    assert render_numbers([None, None]) == {"constant": None}
    assert render_numbers([]) == {"constant": None}


def test_history_and_captures_are_found_beside_a_recording_or_inside_a_root(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path)
    assert places(root, None, None, b"/usual") == (None, None)
    inside = tmp_path / "var/lib/zombiescope"
    inside.mkdir(parents=True)
    (inside / "history.db").touch()
    assert places(root, None, None, b"/usual").state == os.fsencode(inside)
    (tmp_path / "history.log").touch()
    assert places(root, None, None, b"/usual") == (root, os.path.join(root, b"captures"))
    assert places(None, None, None, b"/usual").captures == b"/usual/captures"
    assert places(root, b"/given", b"/other", None) == (b"/given", b"/other")


def test_the_modules_of_the_page_keep_to_the_forms_that_can_be_joined(tmp_path: Path) -> None:
    from zombiescope.web.one_file import joined, one_file  # noqa: PLC0415

    assert "data-ready" in joined() or "dataset.ready" in joined()
    page = one_file({"/api/v1/page": {"label": "</script><!--"}}, "words <b> of a\u202eb\udc9b\x1b[31m\nand more")
    assert "</script><!--" not in page.replace("\\u003c", "")
    assert "words &lt;b&gt; of a\\xe2\\x80\\xaeb\\x9b\\x1b[31m\nand more" in page  # as a terminal would get it
    (tmp_path / "app.js").write_text('import { b } from "./b.js";\nexport const a = b;\n')
    (tmp_path / "b.js").write_text("const one = 1;\nexport { one as b };\n")
    assert "const {b} = m_b_js;" in joined(tmp_path)
    for wrong in (
        'import "./b.js";',
        'export * from "./b.js";',
        'import { b } from "b";',
        'import { a } from "./app.js";',
    ):
        (tmp_path / "app.js").write_text(wrong + "\n")
        with pytest.raises(ValueError, match=r"app\.js"):
            joined(tmp_path)
    assert STATIC.joinpath("index.html").is_file()
