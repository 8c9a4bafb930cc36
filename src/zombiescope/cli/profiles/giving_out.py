# SPDX-License-Identifier: Apache-2.0
"""`profile export`."""

from __future__ import annotations

from typing import Any

import click

from zombiescope.cli.answer import Answer
from zombiescope.cli.profiles.files import write_pieces
from zombiescope.cli.profiles.options import (
    capture_argument,
    captures_option,
    filter_options,
    range_options,
    selection_of,
)
from zombiescope.pipeline import profile as pipeline


@click.command()
@capture_argument
@click.option("--form", type=click.Choice(list(pipeline.WRITERS)), required=True, help="Which format.")
@click.option(
    "--output",
    type=click.Path(path_type=bytes),
    default="-",
    show_default=True,
    metavar="FILE",
    help="Where to; - is standard output.",
)
@range_options
@filter_options
@captures_option
def export(
    *, capture: str, form: str, output: bytes, begin: float | None, end: float | None, captures: bytes, **given: Any
) -> Answer:
    """Write a range of a capture for another tool: collapsed stacks, pprof, speedscope, Firefox Profiler or OTLP."""
    opened = pipeline.open_capture(captures, capture)
    return write_pieces(output, pipeline.write_elsewhere(opened, selection_of(given, begin, end), form))
