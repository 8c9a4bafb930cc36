# SPDX-License-Identifier: Apache-2.0
"""`profile record` without numpy: segments as they were sampled, and what to type where they can be read."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.profiles.folder import next_line
from zombiescope.errors import UsageError
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, shown
from zombiescope.presenters.document import Json, rfc3339
from zombiescope.profiler.files.rolling import Order, RawRecording, RawSegment

if TYPE_CHECKING:
    from rich.console import RenderableType


def record_raw(
    order: Order,
    should_stop: Callable[[], bool],
    seconds: float | None,
    around: tuple[str, ...],
    told: Callable[[str, str], None],
    *,
    as_json: bool,
) -> Answer:
    if around:
        raise UsageError(
            f"cannot choose segments around {around[0]}",
            "segments are not read here: numpy is missing (there is none in the one-file build)",
            "record without --around, and look with profile find where you import",
        )
    recording = RawRecording(order, should_stop, told)
    stored: list[RawSegment] = []
    for one in recording.segments(seconds):
        stored.append(one)
        click.echo(f"stored {shown(one.path)}: {one.size_bytes:,} bytes as sampled", file=sys.stderr)
    if as_json:
        return JsonAnswer(_document(stored, recording.symbols))
    return TextAnswer(_summary(stored, recording.symbols, order.folder))


def _document(stored: list[RawSegment], symbols: bytes | Gap) -> Json:
    """`captures/1`, with what has not been read yet as gaps."""
    gaps = [Gap("captures[].is_damaged", "segments are not read here", "zombiescope profile import FILE elsewhere")]
    return {
        "schema": "zombiescope.captures/1",
        "captures": [
            {
                "name": shown(os.path.basename(one.path)),
                "bytes": one.size_bytes,
                "written_at": rfc3339(one.written_at),
                "source": one.who,
                "host": os.uname().nodename,
                "is_damaged": None,
                "is_raw": True,
            }
            for one in stored
        ],
        "kallsyms": None if isinstance(symbols, Gap) else shown(symbols),
        "gaps": [gap._asdict() for gap in (*gaps, *([symbols] if isinstance(symbols, Gap) else []))],
    }


def _summary(stored: list[RawSegment], symbols: bytes | Gap, folder: bytes) -> list[RenderableType]:
    from zombiescope.presenters.layout import Command  # noqa: PLC0415 (drawing is loaded only when it is needed)

    if not stored:
        return ["no segment stored: nothing was sampled", next_line("to record again", "record", folder)]
    lines: list[RenderableType] = [
        f"{counted(len(stored), 'segment')} stored in {shown(folder)}, as sampled: drawing needs a full install"
    ]
    words = ["zombiescope", "profile", "import", os.fsdecode(os.path.basename(stored[-1].path))]
    if isinstance(symbols, Gap):
        lines.append(f"unknown: {symbols.reason} ({symbols.hint})")
    else:
        words += ["--kallsyms", os.fsdecode(os.path.basename(symbols))]
    lines.append("copy that folder to a machine with pip install 'zombiescope[profile]'")
    return [*lines, Command("then, in the copy", shlex.join(words))]
