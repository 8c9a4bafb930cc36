# SPDX-License-Identifier: Apache-2.0
"""`profile find`: the moments of one capture, or the capture of a moment among all that are stored."""

from __future__ import annotations

from typing import Any

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import examples, json_option, moment_of
from zombiescope.cli.profiles.folder import captures_option, next_line
from zombiescope.cli.profiles.options import range_flags
from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.profile_events import cause_words
from zombiescope.profiler import asking as pipeline
from zombiescope.profiler.drawing.documents import render_hits, render_moments
from zombiescope.profiler.files.store import LATEST
from zombiescope.profiler.stacks.searching import Question

_ASKED = ("function", "cause", "comm", "cgroup", "core", "at", "since", "until")


@click.command(
    epilog=examples(
        "zombiescope profile find",
        "zombiescope profile find perf.data --json",
        "zombiescope profile find --ring                         what stands out in all captures",
        "zombiescope profile find --cause reclaim --since 12h",
    )
)
@click.argument("capture", required=False)
@click.option("--ring", "all_captures", is_flag=True, help="Search all stored captures; the other options imply it.")
@click.option("--function", metavar="GLOB", help="Captures in which this function took most.")
@click.option("--cause", metavar="NAME", help="What the kernel worked for, such as reclaim, statistics or softirq.")
@click.option("--comm", metavar="GLOB", help="What a thread of this name did.")
@click.option("--cgroup", metavar="GLOB", help="What a cgroup did.")
@click.option("--core", type=click.IntRange(0, 65_534), help="What this core did in the kernel.")
@click.option("--at", metavar="TIME", help="The capture of that moment, or of 2h ago.")
@click.option("--since", metavar="TIME", help="None that ended before.")
@click.option("--until", metavar="TIME", help="None that began after.")
@click.option("--most", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many to show.")
@captures_option
@json_option
def find(*, capture: str | None, all_captures: bool, most: int, captures: bytes, as_json: bool, **given: Any) -> Answer:
    """The moments when one core left its own quiet baseline for kernel work, the stack of each, what differs from before.

    Without a question those of CAPTURE, or of the latest. With --ring or a question, of all stored captures the ones that stand
    out most of what is usual there come first.
    """
    asked = {name: given[name] for name in _ASKED if given[name] is not None}
    if not asked and not all_captures:
        return _of_one(captures, capture or LATEST, as_json=as_json)
    if capture is not None:
        raise UsageError(
            f"cannot search all captures and {capture} alone", "a question goes to all of them", "leave one out"
        )
    return _of_all(captures, asked, most, as_json=as_json)


def _of_one(captures: bytes, name: str, *, as_json: bool) -> Answer:
    opened = pipeline.open_capture(captures, name)
    moments = pipeline.ask_moments(opened)
    if as_json:
        return JsonAnswer(render_moments(moments, opened.name, opened.capture))
    from zombiescope.profiler.drawing.text import render_moments_text  # noqa: PLC0415

    parts = render_moments_text(moments, opened.name, opened.capture.seconds, opened.capture.about.gaps)
    if not moments:
        return TextAnswer([*parts, next_line("to see the whole capture", "heatmap", captures, name)])
    worst = max((each.moment for each in moments), key=lambda moment: moment.end - moment.begin)
    flags = f"flame{range_flags(round(worst.begin, 3), round(worst.end, 3))} --core {worst.cpu} --kernel"
    return TextAnswer([*parts, next_line("to see the calls of the longest", flags, captures, name)])


def _of_all(captures: bytes, asked: dict[str, Any], most: int, *, as_json: bool) -> Answer:
    from zombiescope.profiler.drawing.text import look_at, render_hits_text  # noqa: PLC0415
    from zombiescope.profiler.finding import find_in_folder  # noqa: PLC0415

    now = open_host(None).wall_clock()
    times = {name: moment_of(asked[name], now, f"--{name}") for name in ("at", "since", "until") if name in asked}
    cause_of, words = cause_words()
    question = Question(
        asked.get("function", ""),
        asked.get("cause", ""),
        asked.get("comm", ""),
        asked.get("cgroup", ""),
        str(asked.get("core", "")),
        times.get("at", times.get("since")),
        times.get("at", times.get("until")),
    )
    found = find_in_folder(captures, question, cause_of)
    if as_json:
        return JsonAnswer(render_hits(found.hits[:most], found.reasons, found.captures, found.gaps))
    parts = render_hits_text(found.hits[:most], found.reasons, found.captures, found.gaps, words, shown(captures))
    if not found.hits:
        return TextAnswer([*parts, next_line("to see what the ring covers", "ring", captures)])
    first = found.hits[0]
    return TextAnswer(
        [*parts, next_line("to look at the first", look_at(first, times.get("at")), captures, first.name)]
    )
