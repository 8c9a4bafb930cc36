# SPDX-License-Identifier: Apache-2.0
"""Documents, help and offline pages are in plain English: the odd phrases that slip in most often do not come back.

The reference pages are written from the commands and from the words of `explain`, so reading them reads those, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ODD = re.compile(
    r"\b(to be had|(?:not|cannot|could|can) be had|noughts?|of that choice|by lot|in vain|for people"
    r"|(?:samples?|pages?|looks?|point|column|letter|strip) a (?:second|core|column|look)(?! (?:apart|later)))\b"
)
_STYLE = re.compile(r"^\| instead of \| write \|\n.*?\n\n", re.MULTILINE | re.DOTALL)
"""Of CONTRIBUTING: what not to write."""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_is_in_plain_words(document: Path) -> None:
    text = _STYLE.sub("", document.read_text(encoding="utf-8"))
    assert [line for line in text.splitlines() if ODD.search(line)] == []


@pytest.mark.parametrize(
    "words", ["is not to be had", "could not be had", "chosen by lot", "1 more for people", "a column a second"]
)
def test_an_odd_phrase_is_noticed(words: str) -> None:
    assert ODD.search(words)
