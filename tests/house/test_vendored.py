# SPDX-License-Identifier: Apache-2.0
"""The page's libraries are what npm published under the version named, and nothing in the page is from outside or inline."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

STATIC = Path(__file__).resolve().parents[2] / "src" / "zombiescope" / "web" / "static"
VENDOR = STATIC / "vendor"
LIBRARIES: list[dict[str, Any]] = json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))["libraries"]
FILES = [(library["name"], entry) for library in LIBRARIES for entry in library["files"]]
OWN = [
    path for path in sorted(STATIC.rglob("*")) if path.suffix in (".js", ".css", ".html") and VENDOR not in path.parents
]
MOST_LINES = 400


@pytest.mark.parametrize(("library", "entry"), FILES, ids=lambda one: one if isinstance(one, str) else one["file"])
def test_a_file_is_what_was_published(library: str, entry: dict[str, Any]) -> None:
    text = (VENDOR / entry["file"]).read_text(encoding="utf-8")
    for published, ours in entry["replaced"]:
        assert text.count(ours) == 1, f"{library}: the one replaced line is gone"
        text = text.replace(ours, published)
    assert hashlib.sha256(text.encode()).hexdigest() == entry["published_sha256"]


def test_every_vendored_file_is_listed_with_version_and_licence() -> None:
    listed = {entry["file"] for _, entry in FILES} | {library["licence_file"] for library in LIBRARIES}
    assert {path.name for path in VENDOR.iterdir()} == listed | {"manifest.json"}
    for library in LIBRARIES:
        assert re.fullmatch(r"\d+\.\d+\.\d+", library["version"])
        assert library["licence"].split("-")[0] in (VENDOR / library["licence_file"]).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.relative_to(STATIC)))
def test_the_page_needs_nothing_from_outside_and_nothing_inline(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "SPDX-License-Identifier: Apache-2.0" in text or path.suffix == ".html"
    assert len(text.splitlines()) <= MOST_LINES
    assert not re.search(r"https?://(?!www\.w3\.org/)", text), "an address from outside"
    assert not re.search(
        r"\binnerHTML\b|\bouterHTML\b|insertAdjacentHTML|dangerouslySetInnerHTML|\beval\(|new Function|document\.write",
        text,
    )
    if path.suffix == ".html":
        assert not re.search(r"\sstyle=|\son\w+=", text)
        assert len(re.findall(r"<script", text)) == 1


@pytest.mark.parametrize(
    "path", [path for path in OWN if path.suffix == ".js"], ids=lambda path: str(path.relative_to(STATIC))
)
def test_modules_can_be_joined_into_one_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\bimport\(|import\.meta|^export .* from [\"']|^await |</script|<!--", text, re.MULTILINE)
    for line in re.findall(r"^import .*", text, re.MULTILINE):
        found = re.fullmatch(r'import (?:\{ [\w, ]+ \}|\w+) from "(\.{1,2}/[\w./]+\.js)";', line)
        assert found, line
        assert (path.parent / found.group(1)).resolve().is_file(), line
