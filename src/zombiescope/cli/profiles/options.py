# SPDX-License-Identifier: Apache-2.0
"""Options that the profile commands share, those that work without numpy too: where captures are, which samples count."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from zombiescope import profiler
from zombiescope.cli.command import Next, TextAnswer, standard_output, together
from zombiescope.errors import ObservationError, UsageError, reason_of
from zombiescope.facts.names import shown
from zombiescope.host.own_folder import write_answer
from zombiescope.profiler.files.store import LATEST

if TYPE_CHECKING:
    from zombiescope.profiler.stacks.capture import Selection

_RANGE = re.compile(r"(?P<name>.*?)@(?P<begin>[0-9.]*)\.\.(?P<end>[0-9.]*)")

capture_argument = click.argument("capture", default=LATEST)
kallsyms_option = click.option(
    "--kallsyms", type=click.Path(path_type=bytes), metavar="FILE", help="Kernel symbols saved when it was recorded."
)
perf_names_option = click.option(
    "--perf-names", is_flag=True, help="Name callers as `perf script` does (by the address after the call)."
)


core_option = click.option(
    "--core", "cores", type=click.IntRange(0, 65_534), multiple=True, help="Only this core; repeatable."
)
others_options = (
    click.option("--cgroup", "cgroups", multiple=True, metavar="GLOB", help="Only this cgroup."),
    click.option("--event", "events", multiple=True, metavar="GLOB", help="Only samples of this event."),
    click.option("--kernel", "in_kernel", is_flag=True, help="Only samples taken in the kernel."),
    click.option("--user", "in_user", is_flag=True, help="Only samples taken in user code."),
    click.option("--idle", "with_idle", is_flag=True, help="Count idle cores too."),
)
least_option = click.option(
    "--least",
    type=click.FloatRange(0, 100),
    default=1.0,
    show_default=True,
    metavar="PERCENT",
    help="Leave out what is below, in the terminal.",
)


filter_options = together(
    core_option,
    click.option("--comm", "comms", multiple=True, metavar="GLOB", help="Only threads of this name."),
    click.option("--pid", "pids", type=click.IntRange(0, 2**32 - 1), multiple=True, help="Only this process."),
    click.option("--tid", "tids", type=click.IntRange(0, 2**32 - 1), multiple=True, help="Only this thread."),
    *others_options,
)


def side_of(given: dict[str, Any]) -> str:
    """Samples of which mode are wanted."""
    if given["in_kernel"] and given["in_user"]:
        raise UsageError("cannot look at the kernel alone and at user code alone", "no sample is both", "give one")
    return "kernel" if given["in_kernel"] else "user" if given["in_user"] else "both"


range_options = together(
    click.option("--from", "begin", type=click.FloatRange(min=0), metavar="SECONDS", help="Begin of the range."),
    click.option("--to", "end", type=click.FloatRange(min=0), metavar="SECONDS", help="End of the range."),
)


def range_flags(begin: float | None, end: float | None) -> str:
    return "".join(f" --{name} {at:g}" for name, at in (("from", begin), ("to", end)) if at is not None)


def selection_of(given: dict[str, Any], begin: float | None = None, end: float | None = None) -> Selection:
    if begin is not None and end is not None and end <= begin:
        raise UsageError(
            f"cannot look from {begin:g} s to {end:g} s", "it ends before it begins", "give --from below --to"
        )

    return profiler.stacks.capture.Selection(
        begin,
        end,
        tuple(given["cores"]),
        tuple(given["comms"]),
        tuple(given["pids"]),
        tuple(given["tids"]),
        tuple(given["cgroups"]),
        tuple(given["events"]),
        side_of(given),
        given["with_idle"],
    )


def named_range(text: str) -> tuple[str, float | None, float | None]:
    """`NAME`, or `NAME@FROM..TO` with either end left out."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return text, None, None
    try:
        begin, end = (float(part) if part else None for part in (match["begin"], match["end"]))
    except ValueError as error:
        raise UsageError(
            f"cannot read the range of {text!r}", "its ends are no numbers", "such as latest@10..14.5"
        ) from error
    return match["name"] or LATEST, begin, end


def wrote(path: bytes, pieces: Iterable[bytes], last: Next) -> TextAnswer:
    """Of a file that was asked for. Where standard output is that file, nothing else is printed."""
    lines = write_pieces(path, pieces)
    return TextAnswer([*lines, last] if lines else [])


def write_pieces(path: bytes, pieces: Iterable[bytes]) -> list[str]:
    """What there is to say about it: nothing, where it was written to standard output."""
    try:
        if path == b"-":
            output = standard_output().buffer
            for piece in pieces:
                output.write(piece)
            output.flush()
            return []
        size = write_answer(path, pieces)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ObservationError(f"cannot write {shown(path)}", reason_of(error), "choose another place") from error
    return [f"wrote {shown(path)} ({size:,} bytes)"]


captures_option = click.option(
    "--captures",
    type=click.Path(path_type=bytes),
    default="/var/lib/zombiescope/captures",
    show_default=True,
    envvar="ZOMBIESCOPE_CAPTURES",
    metavar="DIR",
    help="Where captures are stored.",
)


def next_line(why: str, words: str, captures: bytes, capture: str = "") -> Next:
    """What to type next about a capture, or about all that are stored."""
    from shlex import quote  # noqa: PLC0415 (only for who is told something)

    given = [quote(capture)] if capture else []
    came_from = click.get_current_context().get_parameter_source("captures")
    if came_from is click.core.ParameterSource.COMMANDLINE and not os.path.exists(capture):
        given += ["--captures", quote(os.fsdecode(captures))]
    return Next(why, " ".join(["zombiescope profile", words, *given]))
