# SPDX-License-Identifier: Apache-2.0
"""What a search over all captures found, for a person and as `zombiescope.profile-hits/1`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rich.console import RenderableType
from rich.text import Text

from zombiescope.facts.gap import Gap
from zombiescope.presenters.document import Json, rfc3339
from zombiescope.profiler.stacks.searching import Hit


class Why(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def words(self) -> str: ...


class Found(Protocol):
    @property
    def reasons(self) -> Mapping[str, Sequence[Why]]: ...
    @property
    def captures(self) -> int: ...
    @property
    def gaps(self) -> Sequence[Gap]: ...


def render_hits(hits: Sequence[Hit], reasons: Mapping[str, Sequence[Any]], captures: int, gaps: Sequence[Gap]) -> Json:
    return {
        "schema": "zombiescope.profile-hits/1",
        "captures": captures,
        "hits": [
            {
                "capture": hit.name,
                "at": None if hit.begin is None else rfc3339(hit.begin + hit.at),
                "begin_seconds": round(hit.at, 3),
                "end_seconds": round(hit.until, 3),
                "core": hit.core,
                "kind": hit.kind,
                "name": hit.what,
                "cores": round(hit.cores, 4),
                "usual_cores": round(hit.usual, 4),
                "score": round(hit.score, 2),
                "moment": dict(hit.moment) if hit.moment is not None else None,
                "kept_for": [f"{why.kind}: {why.words}" for why in reasons.get(hit.name, ())],
            }
            for hit in hits
        ],
        "gaps": [gap._asdict() for gap in gaps],
    }


def render_hits_text(
    hits: Sequence[Hit], found: Found, cause_words: Callable[[str], str], folder: str
) -> list[RenderableType]:
    gaps = [Text(f"unknown: {gap.reason}", style="yellow") for gap in found.gaps]
    if not hits:
        return [
            Text(f"nothing of that kind stands out in the {found.captures:,} captures of {folder}", style="bold"),
            *gaps,
        ]
    parts: list[RenderableType] = [
        Text(f"{_when(hits[0])}: {_what(hits[0], cause_words)}", style="bold"),
        Text(f"first of {found.captures:,} captures searched, by how much it stands out of what is usual", style="dim"),
    ]
    for number, hit in enumerate(hits, 1):
        parts.append(Text(f"{number}. {_when(hit)}, {hit.name} at {hit.at:g} s"))
        parts.append(Text(f"   {_what(hit, cause_words)}"))
        if hit.moment is not None:
            parts.append(Text(f"   {hit.moment['comm'] or '?'}: " + " > ".join(hit.moment["stack"][-4:]), style="dim"))
        parts += [
            Text(f"   kept for {why.kind}: {why.words}", style="dim") for why in found.reasons.get(hit.name, ())[:3]
        ]
    return [*parts, *gaps]


def _when(hit: Hit) -> str:
    return "at an unknown time" if hit.begin is None else f"{rfc3339(hit.begin + hit.at)[:19].replace('T', ' ')} UTC"


def _what(hit: Hit, cause_words: Callable[[str], str]) -> str:
    names = {
        "cause": cause_words(hit.what),
        "process": f"threads named {hit.what}",
        "cgroup": f"the cgroup {hit.what}",
        "core": f"the kernel on core {hit.what}",
    }
    where = f" on core {hit.core}" if hit.core is not None and hit.kind != "core" else ""
    length = hit.until - hit.at
    held = "" if hit.moment is None else f"core {hit.core} was held in the kernel for {length:.1f} s; "
    return f"{held}{names.get(hit.kind, hit.what)} took {hit.cores:.2f} cores{where} (usual: {hit.usual:.2f})"


def look_at(hit: Hit, at: float | None) -> str:
    """The words of the command that shows it; `at`: the moment that was asked for."""
    begin, end = max(0.0, hit.at - 1), hit.until + 1
    if at is not None and hit.begin is not None:
        begin, end = max(0.0, at - hit.begin - 5), at - hit.begin + 5
    core = f" --core {hit.core}" if hit.core is not None and at is None else ""
    return f"flame --from {begin:.3g} --to {end:.3g}{core}"
