# SPDX-License-Identifier: Apache-2.0
"""`profile import` and `profile list`."""

from __future__ import annotations

import click

from zombiescope.captures.store import entries
from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import json_option
from zombiescope.cli.profiles.options import captures_option, choices_of, kallsyms_option, perf_names_option
from zombiescope.facts.names import shown
from zombiescope.pipeline.profile import import_capture


@click.command("import")
@click.argument("file", type=click.Path(path_type=bytes))
@click.option(
    "--output", type=click.Path(path_type=bytes), metavar="DIR", help="Store it there instead of in --captures."
)
@click.option("--name", metavar="NAME", help="Store it under this name; the file's own when not given.")
@kallsyms_option
@perf_names_option
@captures_option
@json_option
def bring_in(
    *,
    file: bytes,
    output: bytes | None,
    name: str | None,
    kallsyms: bytes | None,
    perf_names: bool,
    captures: bytes,
    as_json: bool,
) -> Answer:
    """Read FILE and store it as a capture, ready for questions.

    perf.data (file or pipe mode, compressed or not), perf script text, collapsed stacks, pprof and speedscope are told apart by
    their content. What could not be read is said; the rest is stored. Exit code 0, or 3 when nothing could be read.
    """
    stored, capture = import_capture(file, output or captures, name, choices_of(kallsyms, perf_names=perf_names))
    from zombiescope.presenters.profile_json import render_capture  # noqa: PLC0415 (each form loads only what it needs)

    if as_json:
        return JsonAnswer(render_capture(shown(stored), capture, shown(stored)))
    from rich.text import Text  # noqa: PLC0415

    from zombiescope.presenters.profile_text import render_gaps  # noqa: PLC0415

    cores = len(set(capture.cpu.tolist()))
    line = f"stored {shown(stored)}: {len(capture):,} samples, {capture.seconds:.1f} s, {cores} cores"
    return TextAnswer([Text(line), *render_gaps(capture.about.gaps)])


@click.command("list")
@captures_option
@json_option
def list_captures(*, captures: bytes, as_json: bool) -> Answer:
    """The stored captures, newest last."""
    found = entries(captures)
    if as_json:
        from zombiescope.presenters.captures_list import render_list  # noqa: PLC0415

        return JsonAnswer(render_list(found))
    from zombiescope.presenters.captures_list import render_list_text  # noqa: PLC0415

    return TextAnswer(render_list_text(found, shown(captures)))
