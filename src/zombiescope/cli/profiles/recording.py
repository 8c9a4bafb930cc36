# SPDX-License-Identifier: Apache-2.0
"""`profile record`."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import config_option, examples, json_option
from zombiescope.cli.profiles.folder import captures_option, next_line
from zombiescope.cli.profiles.keeping import Flags, say_dropped, say_who, told_of, worth_keeping
from zombiescope.cli.progress import running_shown
from zombiescope.errors import UsageError
from zombiescope.facts.names import counted, shown
from zombiescope.pipeline.profile_events import AROUND, cause_words
from zombiescope.profiler.files.rolling import Order
from zombiescope.profiler.files.sources import AUTO, WITH

if TYPE_CHECKING:
    from rich.console import RenderableType


@click.command(
    epilog=examples(
        "zombiescope profile record --seconds 60 --segment 30",
        "zombiescope profile record --around saturated-core      until Ctrl-C; keeps only what matters",
        "zombiescope profile record --service                    all the time, by [profile] of the configuration",
    )
)
@click.option("--seconds", type=click.FloatRange(min=1), help="How long to record; without it until interrupted.")
@click.option(
    "--segment",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="Length of each capture in seconds.",
)
@click.option(
    "--rate", type=click.IntRange(1, 10_000), default=99, show_default=True, help="Samples per second and core."
)
@click.option(
    "--keep-mb",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    help="Remove the oldest recorded ones beyond this size.",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0.001),
    default=7.0,
    show_default=True,
    help="Remove recorded ones that are older.",
)
@click.option(
    "--with",
    "source",
    type=click.Choice(WITH),
    default=AUTO,
    show_default=True,
    help="Who samples: zombiescope itself, or perf; auto takes perf where it is installed and can, else our own sampler.",
)
@click.option("--around", type=click.Choice(AROUND), multiple=True, help="Keep only segments around this; repeatable.")
@click.option(
    "--prefer",
    type=click.Choice(AROUND),
    multiple=True,
    help="Keep segments around this longer than others; repeatable.",
)
@click.option(
    "--state",
    type=click.Path(path_type=bytes, file_okay=False, exists=True),
    metavar="DIR",
    help="State folder of the agent: with --around and --prefer, what it saw counts too.",
)
@click.option(
    "--service",
    is_flag=True,
    help="Go on through full disks and errors that pass, within a budget of processor time; values from [profile].",
)
@config_option
@captures_option
@json_option
@click.pass_context
def record(
    context: click.Context, /, *, around: tuple[str, ...], seconds: float | None, as_json: bool, **given: Any
) -> Answer:
    """Sample every core, in segments that are ready for questions as soon as they end, kept in a ring.

    By perf where it is installed and can, else by perf_event_open(2) directly (`--with own`), which needs nothing installed; says
    which. Needs root or CAP_PERFMON; kernel names need CAP_SYSLOG too.
    Ends on Ctrl-C, storing what it has. What a crash leaves is picked up by the next recording.
    Imported captures are never removed. Where numpy is not installed, and in the one-file build, segments stay as they were
    sampled (NAME.perf, with the kernel's symbols beside them) for `profile import` of a full install.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if given["service"]:
        chosen = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
        _refuse_around(around)
        from zombiescope.cli.profiles.service import serve  # noqa: PLC0415

        flags = Flags(given["config"], context.params, frozenset(chosen))
        return serve(flags, stop.is_set, seconds, as_json=as_json)
    order, events = _order(around, given), (*around, *given["prefer"])
    if find_spec("numpy") is None:
        from zombiescope.cli.profiles.raw_recording import record_raw  # noqa: PLC0415 (each way loads what it needs)

        return record_raw(order, stop.is_set, seconds, events, say_who, as_json=as_json)
    stored = _record(order, stop.is_set, seconds, events, given["state"])
    if as_json:
        from zombiescope.profiler.drawing.documents import render_list  # noqa: PLC0415
        from zombiescope.profiler.files.store import entries  # noqa: PLC0415

        return JsonAnswer(render_list([entry for entry in entries(order.folder) if entry.path in stored]))
    return TextAnswer(_summary(stored, around, order.folder))


def _order(around: tuple[str, ...], given: dict[str, Any]) -> Order:
    if around and given["prefer"]:
        raise UsageError(
            "cannot both drop and keep what is not worth keeping", "--around stores nothing else", "give one"
        )
    return Order(
        given["captures"],
        given["rate"],
        given["segment"],
        given["keep_mb"] << 20,
        given["keep_days"] * 86_400,
        given["source"],
        "+".join(sorted(set(around))),
        only_around=bool(around),
    )


def _record(
    order: Order,
    has_ended: Callable[[], bool],
    seconds: float | None,
    events: tuple[str, ...],
    state: bytes | None,
) -> set[bytes]:
    """The captures that were stored."""
    from zombiescope.profiler.files.recorder import Recording  # noqa: PLC0415
    from zombiescope.profiler.files.summing import Summing  # noqa: PLC0415

    stored: set[bytes] = set()
    begun = time.monotonic()
    with running_shown("sampling every core", seconds) as progress:

        def should_stop() -> bool:
            """Asked several times per second."""
            progress(time.monotonic() - begun)
            return has_ended()

        keep = worth_keeping(events, state)
        recording = Recording(order, should_stop, keep, say_who, say_dropped, Summing(cause_words()[0]))
        for one in recording.segments(seconds):
            stored.add(one.path)
            click.echo(told_of(one.path, one.capture), file=sys.stderr)
    return stored


def _refuse_around(around: tuple[str, ...]) -> None:
    if around:
        raise UsageError(
            "cannot store only what lies around an event, as a service",
            "it keeps a ring of everything, and what is worth keeping longer",
            f"--prefer {around[0]}",
        )


def _summary(stored: set[bytes], around: tuple[str, ...], folder: bytes) -> list[RenderableType]:
    if not stored:
        why = f"none of these happened: {', '.join(around)}" if around else "nothing was sampled"
        return [f"no capture stored: {why}", next_line("to record until Ctrl-C", "record", folder)]
    told = f"{counted(len(stored), 'capture')} stored in {shown(folder)}"
    return [told, next_line("to see what the cores did", "heatmap", folder, shown(max(stored)))]
