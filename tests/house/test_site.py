# SPDX-License-Identifier: Apache-2.0
"""What `make test-docs` relies on: a dead link, an outside address and a page that nothing leads to are noticed; every command has
its manual page; every page of docs/ has its place in the menu."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.check_site import troubles
from tools.command_tree import every_command
from tools.site_pages import OUTSIDE
from tools.write_man import page

ROOT = Path(__file__).resolve().parents[2]
INDEX = (
    '<link href="s.css"><nav><a href="lone.html">menu</a></nav><article id="top"><a href="a.html#there">a</a></article>'
)


def site(folder: Path, **pages: str) -> Path:
    (folder / "s.css").write_text("", encoding="utf-8")
    (folder / "search").mkdir()
    (folder / "search/search_index.json").write_text("{}", encoding="utf-8")
    for name, text in {"index": INDEX, "a": '<h2 id="there"></h2>', **pages}.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


def test_a_whole_site_has_no_troubles(tmp_path: Path) -> None:
    lone = '<nav><a href="lone.html">menu</a></nav>'
    assert list(troubles(site(tmp_path, index=INDEX.replace(lone, "")))) == []


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ('<a href="gone.html">x</a>', "gone.html leads nowhere"),
        ('<article><a href="index.html#gone">x</a></article>', "index.html#gone: no such anchor"),
        ('<img src="gone.png">', "gone.png leads nowhere"),
        ('<script src="https://example.com/x.js"></script>', "loads https://example.com/x.js from outside"),
        ('<link href="//example.com/x.css">', "loads //example.com/x.css from outside"),
    ],
)
def test_what_leads_nowhere_is_noticed(text: str, trouble: str, tmp_path: Path) -> None:
    found = list(troubles(site(tmp_path, a=f'<h2 id="there"></h2>{text}', lone="")))
    assert f"a.html: {trouble}" in found


def test_a_page_that_only_the_menu_leads_to_is_noticed(tmp_path: Path) -> None:
    assert list(troubles(site(tmp_path, lone=""))) == [
        "lone.html: no text that starts at the index leads here (link it from docs/README.md)"
    ]


def test_a_site_that_cannot_be_searched_is_noticed(tmp_path: Path) -> None:
    built = site(tmp_path, index="")
    (built / "search/search_index.json").unlink()
    assert any("nothing can be searched" in trouble for trouble in troubles(built))


def test_the_site_carries_every_document_outside_docs() -> None:
    there = {str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("tests/**/*.md")]}
    assert set(OUTSIDE) == there, "tools/site_pages.py, mkdocs.yml and docs/README.md name them"


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [*OUTSIDE.values(), *(str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md"))]
    missing = [name for name in pages if not (name.startswith("decisions/0") or f": {name}\n" in menu)]
    assert missing == [], "add them to nav in mkdocs.yml, and to docs/README.md"


COMMANDS = {command.page: command for command in every_command()}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_manual_page_has_what_the_help_has(name: str) -> None:
    command, text = COMMANDS[name], page(COMMANDS[name], COMMANDS)
    assert text.startswith(f".TH {name.upper()} 1 ")
    assert command.summary
    for flag in command.flags:
        assert f".B {flag.names}".replace("-", r"\-") in text
    assert all(len(line) < 400 and not line.startswith("'") for line in text.splitlines())
