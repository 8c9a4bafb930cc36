# SPDX-License-Identifier: Apache-2.0
"""`profile record`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from zombiescope.cli.answer import Answer, JsonAnswer, PlainAnswer
from zombiescope.cli.options import json_option
from zombiescope.cli.profiles.folder import captures_option
from zombiescope.facts.names import shown
from zombiescope.pipeline.profile_events import AROUND, Span, keeper
from zombiescope.profiler.files.rolling import Order
from zombiescope.profiler.files.sources import AUTO, OWN, PERF, WITH

if TYPE_CHECKING:
    from zombiescope.profiler.stacks.capture import Capture


@click.command()
@click.option("--seconds", type=click.FloatRange(min=1), help="How long; until interrupted when not given.")
@click.option("--segment", type=click.FloatRange(min=1), default=120.0, show_default=True, help="Seconds of a capture.")
@click.option(
    "--rate", type=click.IntRange(1, 10_000), default=99, show_default=True, help="Samples a second and core."
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
    "--state",
    type=click.Path(path_type=bytes, file_okay=False, exists=True),
    metavar="DIR",
    help="State folder of the agent: with --around, what it saw counts too.",
)
@captures_option
@json_option
def record(
    *,
    seconds: float | None,
    segment: float,
    rate: int,
    keep_mb: int,
    keep_days: float,
    source: str,
    around: tuple[str, ...],
    state: bytes | None,
    captures: bytes,
    as_json: bool,
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
    order = Order(captures, rate, segment, keep_mb << 20, keep_days * 86_400, source, "+".join(sorted(set(around))))
    if find_spec("numpy") is None:
        from zombiescope.cli.profiles.raw_recording import record_raw  # noqa: PLC0415 (each way loads what it needs)

        return record_raw(order, stop.is_set, seconds, around, _say, as_json=as_json)
    from zombiescope.profiler.drawing.documents import render_list  # noqa: PLC0415
    from zombiescope.profiler.files.recorder import Recording  # noqa: PLC0415
    from zombiescope.profiler.files.store import entries  # noqa: PLC0415

    stored: set[bytes] = set()
    for one in Recording(order, stop.is_set, _worth_keeping(around, state), _say, _say_dropped).segments(seconds):
        stored.add(one.path)
        click.echo(
            f"stored {shown(one.path)}: {len(one.capture):,} samples, {one.capture.seconds:.1f} s", file=sys.stderr
        )
    if as_json:
        return JsonAnswer(render_list([entry for entry in entries(captures) if entry.path in stored]))
    return PlainAnswer(_summary(len(stored), around, shown(captures)))


def _worth_keeping(around: tuple[str, ...], state: bytes | None) -> Callable[[Capture], bool]:
    from zombiescope.profiler.stacks.saturation import find_moments  # noqa: PLC0415

    happened = keeper(around, state)

    def judge(capture: Capture) -> bool:
        return happened(span_of(capture)) or ("saturated-core" in around and bool(find_moments(capture)))

    return judge


def span_of(capture: Capture) -> Span | None:
    """None: it does not say when it was taken."""
    clock = capture.about.clock
    if capture.began is None or clock is None:
        return None
    return Span(capture.began, clock.on_log(int(capture.time[0])) / 1e9, capture.seconds)


def _summary(stored: int, around: tuple[str, ...], folder: str) -> str:
    if not stored and around:
        return f"no capture stored: nothing happened of {', '.join(around)}"
    return f"{stored} capture{'s' * (stored != 1)} stored in {folder}"


def _say(name: str, why: str) -> None:
    who = {OWN: "our own sampler", PERF: "perf"}[name]
    click.echo(f"sampling with {who}: {shown(os.fsencode(why))}", file=sys.stderr)


def _say_dropped(path: bytes, why: str) -> None:
    click.echo(f"not stored {shown(path)}: {why}", file=sys.stderr)
