# SPDX-License-Identifier: Apache-2.0
"""Reads the built site as a browser would: every link and picture leads to something that is there, nothing is loaded from outside,
and a reader who starts at the index reaches every page through the text, not only through the menu."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}
_INDEX = "index.html"


class Reference(NamedTuple):
    target: str
    is_loaded: bool
    """By the browser itself, not by a click."""
    is_text: bool
    """It stands in the article, not in the menu."""


class Document(HTMLParser):
    """References and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[Reference] = []
        self.anchors: set[str] = set()
        self._depth = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._depth += tag == "article"
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None:
                self.references.append(Reference(value, (tag, name) in _LOADED, self._depth > 0))

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "article"


def troubles(site: Path) -> Iterator[str]:
    pages = {
        str(path.relative_to(site)): Document(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))
    }
    if _INDEX not in pages:
        yield f"{site}: no {_INDEX}"
        return
    for name, page in pages.items():
        for reference in page.references:
            if trouble := _trouble(site, pages, name, reference):
                yield f"{name}: {trouble}"
    for name in sorted(pages.keys() - _reached(pages) - {"404.html"}):
        yield f"{name}: no text that starts at the index leads here (link it from docs/README.md)"


def _trouble(site: Path, pages: Mapping[str, Document], name: str, reference: Reference) -> str:
    parts = urlsplit(reference.target)
    if parts.scheme or parts.netloc:
        return f"loads {reference.target} from outside" if reference.is_loaded else ""
    target = _target(name, parts.path)
    if not (site / target).is_file():
        return f"{reference.target} leads nowhere" if name != "404.html" else ""
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return f"{reference.target}: no such anchor" if reference.is_text else ""
    return ""


def _target(name: str, path: str) -> str:
    if not path:
        return name
    parts = [] if path.startswith("/") else name.split("/")[:-1]
    for part in unquote(path).split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    target = "/".join(parts)
    return f"{target}/{_INDEX}".lstrip("/") if path.endswith(("/", ".")) else target


def _reached(pages: Mapping[str, Document]) -> set[str]:
    reached, waiting = set[str](), [_INDEX]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in pages:
            continue
        reached.add(name)
        waiting += [
            _target(name, urlsplit(reference.target).path)
            for reference in pages[name].references
            if reference.is_text and not urlsplit(reference.target).netloc
        ]
    return reached


def main() -> None:
    site = Path(sys.argv[1])
    found = list(troubles(site))
    print(
        "\n".join(found)
        or f"{site}: {len(list(site.rglob('*.html')))} pages, every link leads somewhere, every page is reached"
    )
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
