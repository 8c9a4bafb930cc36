# SPDX-License-Identifier: Apache-2.0
"""The commands that a document shows, and what it declares about each: read from the Markdown itself.

A fence of `sh` is run as it stands. What must be known beside it stands in a comment on the line before:

    <!-- run: limit=60s -->            it may take so long (30 s without)
    <!-- run: stop=3s -->              a long window: interrupted after so long, it must end in order
    <!-- run: daemon=TEXT -->          it stays in the background until the end of the document; ready when it prints TEXT
    <!-- run: exit=1 -->               it ends with this code (or one of 1|2)
    <!-- run: tier=kubernetes -->      it needs a cluster: that tier of the tests runs it
    <!-- run: tier=release, in=bookworm|trixie -->   it needs a release: that tier runs it, in these roots (tests/release)
    <!-- run: never, REASON -->        it cannot be run here, and why
    <!-- before: COMMAND -->           what the reader has and the test must make: run first
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TIERS = ("kubernetes", "release")
_DEFAULT_SECONDS = 30.0
_FENCE = re.compile(r"((?:^<!--(?:(?!-->).)*-->\n+)*)^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!-- (run|before): ((?:(?!-->).)*?) -->", re.DOTALL)


class Fence(NamedTuple):
    document: str
    line: int
    script: str
    before: str = ""
    limit_seconds: float = _DEFAULT_SECONDS
    stop_seconds: float | None = None
    ready: str = ""
    """A daemon: what it prints when it is ready."""
    exits: tuple[int, ...] = (0,)
    tier: str = ""
    places: tuple[str, ...] = ()
    """Of its tier: where it is run."""
    never: str = ""
    """Why it is not run."""

    @property
    def name(self) -> str:
        return f"{self.document}:{self.line}"


class WrongDeclarationError(ValueError):
    pass


def documents() -> list[str]:
    """Those whose commands a reader types: the README, the tutorial, the guides."""
    return [
        "README.md",
        "docs/tutorial.md",
        *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/guides/*.md")),
    ]


def fences_of(document: str, text: str | None = None) -> Iterator[Fence]:
    text = (ROOT / document).read_text(encoding="utf-8") if text is None else text
    for match in _FENCE.finditer(text):
        if match[2] == "sh":
            line = text.count("\n", 0, match.start(3))
            yield _declared(Fence(document, line, match[3].rstrip()), match[1])


def silent_commands(text: str) -> Iterator[str]:
    """Lines of other fences that look like something to type: they would be run by nobody."""
    for match in _FENCE.finditer(text):
        if match[2] != "sh":
            yield from re.findall(r"^(?:\$ .*|sudo .*|zombiescope .*)$", match[3], re.MULTILINE)


def _declared(fence: Fence, comments: str) -> Fence:
    for kind, words in _COMMENT.findall(comments):
        if kind == "before":
            fence = fence._replace(before=words)
        elif words.startswith("never"):
            reason = words.removeprefix("never").lstrip(", ")
            if not reason:
                raise WrongDeclarationError(f"{fence.name}: never, and why?")
            fence = fence._replace(never=" ".join(reason.split()))
        else:
            for part in words.split(", "):
                fence = _with(fence, *part.partition("=")[::2])
    return fence


def _with(fence: Fence, key: str, value: str) -> Fence:
    match key:
        case "limit":
            return fence._replace(limit_seconds=_seconds(value))
        case "stop":
            return fence._replace(stop_seconds=_seconds(value))
        case "daemon" if value:
            return fence._replace(ready=value)
        case "exit" if re.fullmatch(r"\d+(\|\d+)*", value):
            return fence._replace(exits=tuple(int(code) for code in value.split("|")))
        case "in" if re.fullmatch(r"[\w.-]+(\|[\w.-]+)*", value):
            return fence._replace(places=tuple(value.split("|")))
        case "tier" if value in TIERS:
            return fence._replace(tier=value)
    raise WrongDeclarationError(f"{fence.name}: {key}={value} declares nothing")


def _seconds(value: str) -> float:
    if match := re.fullmatch(r"(\d+)s", value):
        return float(match[1])
    raise WrongDeclarationError(f"{value!r} is no time: 60s")
