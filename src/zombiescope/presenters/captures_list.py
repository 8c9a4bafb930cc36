# SPDX-License-Identifier: Apache-2.0
"""The stored captures, for a person and for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from zombiescope.presenters.document import Json, rfc3339
from zombiescope.presenters.figures import size
from zombiescope.profiling.capture import About


class Entry(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def written_at(self) -> float: ...
    @property
    def about(self) -> About | None: ...


def render_list(found: Sequence[Entry]) -> Json:
    return {
        "schema": "zombiescope.captures/1",
        "captures": [
            {
                "name": entry.name,
                "bytes": entry.size_bytes,
                "written_at": rfc3339(entry.written_at),
                "source": None if entry.about is None else entry.about.source,
                "host": None if entry.about is None else entry.about.host,
                "is_damaged": entry.about is None,
            }
            for entry in found
        ],
        "gaps": [],
    }


def render_list_text(found: Sequence[Entry], folder: str) -> list[RenderableType]:
    if not found:
        return [Text(f"no captures in {folder}: zombiescope profile record, or zombiescope profile import FILE")]
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "written", "size", "host", "from"):
        table.add_column(heading, justify="right" if heading == "size" else "left", overflow="fold")
    for entry in found:
        about = entry.about
        host, source = ("?", "damaged") if about is None else (about.host or "?", about.source)
        written = f"{rfc3339(entry.written_at)[:19]}Z"
        table.add_row(*map(Text, (entry.name, written, size(entry.size_bytes), host, source)))
    return [table]
