# SPDX-License-Identifier: Apache-2.0
"""`profile ring` and `profile keep`: what the recorder that is always on has, and what it must not lose."""

import os
import shlex
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from zombiescope.cli.command import Answer, JsonAnswer, TextAnswer, config_option, examples, json_option, moment_of
from zombiescope.cli.profiles.options import captures_option, next_line
from zombiescope.config import load_profile_config
from zombiescope.errors import ObservationError
from zombiescope.facts.names import counted, shown
from zombiescope.pipeline.opening import open_host
from zombiescope.profiler.files.beside import add_reasons, ask_to_keep, read_notes
from zombiescope.profiler.files.ring import Held, cover, held
from zombiescope.profiler.files.rolling import raw_files
from zombiescope.profiler.stacks.about import RawFiles, Reason

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST_WORDS = 200


@click.command(
    epilog=examples(
        "zombiescope profile ring", "zombiescope profile ring --hours 48 --cores 96     what that would need"
    )
)
@click.option("--hours", type=click.FloatRange(0.1, 100_000), default=12.0, show_default=True, help="To reckon for.")
@click.option("--cores", type=click.IntRange(1, 65_535), help="To reckon for; without it, those of this machine.")
@config_option
@captures_option
@json_option
def ring(*, hours: float, cores: int | None, config: str | None, captures: bytes, as_json: bool) -> Answer:
    """What the ring of captures covers: from when to when, every hole in it and why, its size, and what more time would need.

    Reads only. Exit code 0, also where nothing was recorded yet.
    """
    from zombiescope.profiler.drawing.ring import Wish, render_raw_text, render_ring, render_ring_text  # noqa: PLC0415

    configured = load_profile_config(config, {})
    rings: dict[str, list[str]] = {}
    every = held(captures)
    for one in every:
        rings.setdefault(one.span.ring, []).append(one.name)
    mark = max(every, key=lambda one: one.written_at).span.ring if every else None
    found = cover([one for one in every if one.span.ring == mark], read_notes(captures))
    wish = Wish(
        hours,
        cores or os.cpu_count() or 1,
        configured.number("rate_hz"),
        configured.number("keep_megabytes") * 1e6,
        configured.number("keep_days") * 86_400,
    )
    raw = None if every else raw_files(captures)
    if as_json:
        return JsonAnswer(render_ring(found, wish, read_notes(captures), raw))
    if raw is not None:
        return TextAnswer([*render_raw_text(raw, shown(captures)), _reading(raw, captures)])
    parts = render_ring_text(found, wish, read_notes(captures), shown(captures), len(rings) - 1)
    if not found.captures:
        return TextAnswer([*parts, next_line("to record all the time", "record --service", captures)])
    return TextAnswer([*parts, next_line("to see what stands out in it", "find --ring", captures)])


def _reading(raw: RawFiles, folder: bytes) -> "RenderableType":
    from zombiescope.presenters.layout import Command  # noqa: PLC0415 (drawing is loaded only when it is needed)

    words = ["zombiescope", "profile", "import", os.fsdecode(os.path.join(folder, raw.latest))]
    if raw.symbols is not None:
        words += ["--kallsyms", os.fsdecode(os.path.join(folder, raw.symbols))]
    what = "to read the latest" if find_spec("numpy") else "to read the latest, copied to a full install"
    return Command(what, shlex.join(words))


@click.command(
    epilog=examples(
        "zombiescope profile keep", "zombiescope profile keep --at 10m --around 300 --why 'checkout was slow'"
    )
)
@click.option("--at", "moment", metavar="TIME", default="0s", help="That moment, or 2m: so long ago; without it, now.")
@click.option("--why", default="asked for", show_default=True, metavar="WORDS", help="Shown beside the capture.")
@click.option(
    "--around",
    type=click.FloatRange(0, 86_400),
    metavar="SECONDS",
    help="How long before and after the moment; without it around_seconds of the configuration.",
)
@config_option
@captures_option
def keep(*, moment: str, why: str, around: float | None, config: str | None, captures: bytes) -> Answer:
    """Keep the captures around a moment: what the ring has of it already, and what it records of it next.

    For a person, an alert's receiver or a hook of a service. The recorder gives such moments its room last.
    """
    at = moment_of(moment, open_host(None).wall_clock())
    reason = Reason("asked", at, shown(why.encode("utf-8", "surrogateescape"))[:_MOST_WORDS], around)
    if not ask_to_keep(captures, reason):
        raise ObservationError(
            f"cannot ask for captures to be kept (in {shown(captures)})",
            "nothing can be written there",
            "run as the recorder's user; zombiescope profile record makes the folder",
        )
    reach = load_profile_config(config, {}).number("around_seconds") if around is None else around
    there = [one for one in held(captures) if _is_near(one, at, reach)]
    for one in there:
        add_reasons(one.path, [reason])
    if not there:
        told = "noted: the recorder keeps what it stores around that moment"
        return TextAnswer([told, next_line("to see whether one is running", "ring", captures)])
    first, last = there[0].name, there[-1].name
    told = f"kept {first}" if len(there) == 1 else f"kept {counted(len(there), 'capture')}, {first} to {last}"
    middle = next((one.name for one in there if _is_near(one, at, 0.0)), last)
    return TextAnswer([told, next_line("to look at it", "heatmap", captures, middle)])


def _is_near(one: Held, at: float, seconds: float) -> bool:
    begin = one.span.begin
    return begin is not None and begin - seconds <= at <= (one.span.end or begin) + seconds
