# SPDX-License-Identifier: Apache-2.0
"""`profile import` and `profile list`."""

from __future__ import annotations

import click

from zombiescope import profiler
from zombiescope.cli.command import Answer, JsonAnswer, TextAnswer, examples, json_option
from zombiescope.cli.profiles.options import captures_option, kallsyms_option, next_line, perf_names_option
from zombiescope.facts.names import shown
from zombiescope.profiler.files.reading import Choices, Imported, import_capture, read_capture
from zombiescope.profiler.files.store import entries


@click.command(
    "import",
    epilog=examples(
        "zombiescope profile import perf.data", "zombiescope profile import perf.data --kallsyms kallsyms --name monday"
    ),
)
@click.argument("file", type=click.Path(path_type=bytes))
@click.option(
    "--output", type=click.Path(path_type=bytes), metavar="DIR", help="Store it there instead of in --captures."
)
@click.option("--name", metavar="NAME", help="Store it under this name; the file's own when not given.")
@click.option("--no-scanner", is_flag=True, help="Use numpy alone, even where the scanner in C was built.")
@click.option("--no-demangle", is_flag=True, help="Leave C++ and Rust names as the linker has them.")
@kallsyms_option
@perf_names_option
@captures_option
@json_option
def bring_in(
    *,
    file: bytes,
    output: bytes | None,
    name: str | None,
    no_scanner: bool,
    no_demangle: bool,
    kallsyms: bytes | None,
    perf_names: bool,
    captures: bytes,
    as_json: bool,
) -> Answer:
    """Read FILE and store it as a capture, ready for questions.

    perf.data (file or pipe mode, compressed or not), perf script text, collapsed stacks, pprof and speedscope are told apart by
    their content. What could not be read is said; the rest is stored. Exit code 0, or 3 when nothing could be read.
    """
    choices = Choices(kallsyms, perf_names, use_scanner=not no_scanner, demangle=not no_demangle)
    made = import_capture(file, output or captures, name, choices)
    stored = shown(made.stored)
    if as_json:
        return JsonAnswer(profiler.drawing.documents.render_capture(stored, read_capture(made.stored, choices), stored))
    lines = [f"stored {stored}: {_size(made)}"]
    lines += [f"unknown: {gap.reason}" + (f" ({gap.hint})" if gap.hint else "") for gap in made.about.gaps]
    why, verb = ("to see what the cores did", "heatmap") if made.about.has_time else ("to see the calls", "flame")
    return TextAnswer([*lines, next_line(why, verb, captures, stored)])


def _size(made: Imported) -> str:
    if not made.about.has_time:
        return f"{made.samples:,} samples in {made.rows:,} stacks"
    return f"{made.rows:,} samples, {made.seconds:.1f} s, {made.cores} core{'s' * (made.cores != 1)}"


@click.command("list", epilog=examples("zombiescope profile list", "zombiescope profile list --captures /srv/captures"))
@captures_option
@json_option
def list_captures(*, captures: bytes, as_json: bool) -> Answer:
    """The stored captures, newest last."""
    found = entries(captures)
    if as_json:
        return JsonAnswer(profiler.drawing.documents.render_list(found))

    parts = profiler.drawing.text.render_list_text(found, shown(captures))
    if not found:
        return TextAnswer([*parts, next_line("to make one", "record --seconds 60", captures)])
    return TextAnswer([*parts, next_line("to see what the cores did", "heatmap", captures, found[-1].name)])
