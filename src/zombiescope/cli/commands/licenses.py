# SPDX-License-Identifier: Apache-2.0
"""`zombiescope licenses`: the parts of this build, their versions and licences. Reads nothing of the host."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import click

from zombiescope import presenters
from zombiescope.cli.command import Answer, JsonAnswer, Next, PlainAnswer, TextAnswer, examples, json_option
from zombiescope.facts.names import counted
from zombiescope.pipeline.components import Component, find_component, gaps_of, read_components

if TYPE_CHECKING:
    from rich.console import RenderableType


@click.command(
    epilog=examples(
        "zombiescope licenses            every part with its version and licence",
        "zombiescope licenses click      the licence text of one",
        "zombiescope licenses --json | jq '.components[] | [.name, .licence]'",
    )
)
@click.argument("name", required=False)
@json_option
def licenses(*, name: str | None, as_json: bool) -> Answer:
    """List the parts of this build with version and licence, or print the licence text of the part NAME.

    The one-file build lists everything that is linked or packed into it, an installation what is installed of what it requires.
    Exit code 0, or 2 for a part that is not in this build.
    """
    parts = [find_component(name)] if name else read_components()
    if as_json:
        return JsonAnswer(_document(parts, with_text=bool(name)))
    if name:
        (part,) = parts
        untold = f"{part.name} {part.version}: {part.licence}; no licence text came along"
        return PlainAnswer(part.text.rstrip("\n") or untold)
    return TextAnswer(_listed(parts))


def _document(parts: list[Component], *, with_text: bool) -> dict[str, object]:
    rows = [
        {"name": part.name, "version": part.version, "licence": part.licence, "has_text": bool(part.text)}
        | ({"text": part.text} if with_text else {})
        for part in parts
    ]
    gaps = [gap._asdict() for gap in gaps_of(parts)]
    return {"schema": "zombiescope.licenses/1", "components": rows, "gaps": gaps}


def _listed(parts: list[Component]) -> list[RenderableType]:

    columns = [presenters.layout.Column(name, is_number=False) for name in ("part", "version")]
    columns.append(presenters.layout.Column("licence", is_number=False, least_width=12))
    table = presenters.layout.Fitting(columns, [(part.name, part.version, part.licence) for part in parts])
    unknown = [f"unknown: {gap.reason} ({gap.hint})" for gap in gaps_of(parts)]
    last = Next("to read a licence", f"zombiescope licenses {quote(parts[-1].name)}")
    return [f"{counted(len(parts), 'part is', 'parts are')} in this build", table, *unknown, last]
