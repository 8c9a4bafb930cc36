# SPDX-License-Identifier: Apache-2.0
"""`profile record`: for a while, or all the time as a service, by `[profile]` of the configuration; without numpy, segments as they
were sampled, and what to type where they can be read."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from zombiescope import profiler
from zombiescope.cli.command import Answer, JsonAnswer, Next, TextAnswer, config_option, examples, json_option
from zombiescope.cli.profiles.options import captures_option, next_line
from zombiescope.cli.progress import running_shown
from zombiescope.config import Config, Value, load_config, load_profile_config
from zombiescope.errors import UsageError, absent_part
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, shown
from zombiescope.pipeline.profile_events import AROUND, cause_words, keeper
from zombiescope.presenters.document import Json, rfc3339
from zombiescope.profiler.files.rolling import Order, RawRecording, RawSegment
from zombiescope.profiler.files.sources import AUTO, OWN, WITH
from zombiescope.profiler.stacks.about import Reason
from zombiescope.web.captures import span_of

if TYPE_CHECKING:
    from zombiescope.profiler.files.recorder import Recording, Segment
    from zombiescope.profiler.stacks.capture import Capture


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
        if around:
            raise UsageError(
                "cannot store only what lies around an event, as a service",
                "it keeps a ring of everything, and what is worth keeping longer",
                f"--prefer {around[0]}",
            )
        return _serve(context, stop.is_set, seconds, as_json=as_json)
    order, events = _order(around, given), (*around, *given["prefer"])
    if find_spec("numpy") is None:
        return _record_raw(order, stop.is_set, seconds, events, say_who, as_json=as_json)
    stored = _record(order, stop.is_set, seconds, events, given["state"])
    if as_json:
        return _listed(order.folder, stored)
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
    begun = time.monotonic()
    with running_shown("sampling every core", seconds) as progress:

        def should_stop() -> bool:
            """Asked several times per second."""
            progress(time.monotonic() - begun)
            return has_ended()

        return _stored(_recording(order, should_stop, worth_keeping(events, state)).segments(seconds))


def _summary(stored: set[bytes], around: tuple[str, ...], folder: bytes) -> list[str | Next]:
    if not stored:
        why = f"none of these happened: {', '.join(around)}" if around else "nothing was sampled"
        return [f"no capture stored: {why}", next_line("to record until Ctrl-C", "record", folder)]
    told = f"{counted(len(stored), 'capture')} stored in {shown(folder)}"
    return [told, next_line("to see what the cores did", "heatmap", folder, shown(max(stored)))]


def _recording(order: Order, should_stop: Callable[[], bool], keep: Callable[[Capture], Sequence[Reason]]) -> Recording:

    return profiler.files.recorder.Recording(
        order, should_stop, keep, say_who, say_dropped, profiler.files.summing.Summing(cause_words()[0])
    )


def _listed(folder: bytes, stored: set[bytes]) -> JsonAnswer:

    return JsonAnswer(
        profiler.drawing.documents.render_list(
            [entry for entry in profiler.files.store.entries(folder) if entry.path in stored]
        )
    )


def _stored(segments: Iterable[Segment]) -> set[bytes]:
    """Where each is, told as it is stored."""
    stored = set()
    for one in segments:
        stored.add(one.path)
        _say(f"stored {shown(one.path)}: {len(one.capture):,} samples, {one.capture.seconds:.1f} s")
    return stored


def worth_keeping(
    events: tuple[str, ...], state: bytes | None, *, scans: bool = True
) -> Callable[[Capture], Sequence[Reason]]:

    happened = keeper(events, state, scans=scans)

    def judge(capture: Capture) -> list[Reason]:
        found = [Reason(*event) for event in happened(span_of(capture))]
        moments = profiler.stacks.saturation.find_moments(capture) if "saturated-core" in events else []
        if moments:
            worst = max(moments, key=lambda one: one.score)
            length = worst.end - worst.begin
            words = f"core {worst.cpu} ran kernel code for {length:.1f} s ({100 * worst.share:.0f} %)"
            found.append(Reason("saturated-core", (capture.began or 0.0) + worst.begin, words))
        return found

    return judge


def say_who(name: str, why: str) -> None:
    _say(f"sampling with {'our own sampler' if name == OWN else name}: {shown(os.fsencode(why))}")


def say_dropped(path: bytes, why: str) -> None:
    _say(f"not stored {shown(path)}: {why}")


_KEYS = {
    "captures": "captures",
    "source": "sampler",
    "rate": "rate_hz",
    "segment": "segment_seconds",
    "keep_mb": "keep_megabytes",
    "keep_days": "keep_days",
    "prefer": "prefer",
}
"""Flags, and the keys that they override."""


def _configured(context: click.Context) -> Config:
    given: dict[str, Value | None] = {}
    for flag, key in _KEYS.items():
        if context.get_parameter_source(flag) is ParameterSource.COMMANDLINE:
            value = context.params[flag]
            given[key] = ",".join(value) if flag == "prefer" else os.fsdecode(value) if flag == "captures" else value
    return load_profile_config(context.params["config"], given)


def _order_of(config: Config) -> Order:
    return Order(
        os.fsencode(config.text("captures")),
        round(config.number("rate_hz")),
        config.number("segment_seconds"),
        int(config.number("keep_megabytes") * 1e6),
        config.number("keep_days") * 86_400,
        config.text("sampler"),
        "service",
        around_seconds=config.number("around_seconds"),
        least_free_bytes=int(config.number("least_free_megabytes") * 1e6),
    )


def _serve(context: click.Context, should_stop: Callable[[], bool], seconds: float | None, *, as_json: bool) -> Answer:
    config = _configured(context)
    if find_spec("numpy") is None:
        hint = "zombiescope profile record without --service keeps what was sampled"
        raise absent_part("cannot sum up captures as they are recorded", "numpy", "profile", hint)
    from zombiescope.profiler.files.service import Cost, Service, room_for_others  # noqa: PLC0415

    order = _order_of(config)
    order = replace(order, least_free_bytes=room_for_others(order.folder, order.least_free_bytes))
    state = _state(context.params)
    keep = worth_keeping(tuple(config.words("prefer")), state, scans=state is None)
    recording = _recording(order, should_stop, keep)
    asked = (order.rate_hz, order.segment_seconds)
    cost = Cost(config.number("most_cpu_percent") / 100, asked, *asked)
    stored = _stored(Service(recording, should_stop, cost, _say).segments(seconds))
    if as_json:
        return _listed(order.folder, stored)
    told = f"{counted(len(stored), 'capture')} stored in {shown(order.folder)}"
    return TextAnswer([told, next_line("to see what the ring covers", "ring", order.folder)])


def _state(given: dict[str, Any]) -> bytes | None:
    """Where the agent keeps its history, if there is one."""
    if given["state"] is not None:
        return bytes(given["state"])
    folder = load_config(given["config"], {}).text("state")
    return os.fsencode(folder) if folder and os.path.isdir(folder) else None


def _say(text: str) -> None:
    click.echo(text, file=sys.stderr)


def _record_raw(
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
        _say(f"stored {shown(one.path)}: {one.size_bytes:,} bytes as sampled")
    if as_json:
        return JsonAnswer(_raw_document(stored, recording.symbols))
    return TextAnswer(_raw_summary(stored, recording.symbols, order.folder))


def _raw_document(stored: list[RawSegment], symbols: bytes | Gap) -> Json:
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


def _raw_summary(stored: list[RawSegment], symbols: bytes | Gap, folder: bytes) -> list[str | Next]:
    if not stored:
        return ["no segment stored: nothing was sampled", next_line("to record again", "record", folder)]
    lines: list[str | Next] = [
        f"{counted(len(stored), 'segment')} stored in {shown(folder)}, as sampled: drawing needs a full install"
    ]
    words = ["zombiescope", "profile", "import", os.fsdecode(os.path.basename(stored[-1].path))]
    if isinstance(symbols, Gap):
        lines.append(f"unknown: {symbols.reason} ({symbols.hint})")
    else:
        words += ["--kallsyms", os.fsdecode(os.path.basename(symbols))]
    lines.append("copy that folder to a machine with pip install 'zombiescope[profile]'")
    return [*lines, Next("then, in the copy", shlex.join(words))]
