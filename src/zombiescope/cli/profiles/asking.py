# SPDX-License-Identifier: Apache-2.0
"""`profile heatmap`, `flame`, `diff`, `export`, and `find`: the moments of one capture, or the capture of a moment among all."""

import shutil
from collections.abc import Callable, Sequence
from typing import Any

import click

from zombiescope.cli.command import Answer, JsonAnswer, TextAnswer, examples, json_option, moment_of
from zombiescope.cli.profiles.options import (
    capture_argument,
    captures_option,
    filter_options,
    least_option,
    named_range,
    next_line,
    range_flags,
    range_options,
    selection_of,
    write_pieces,
    wrote,
)
from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.profile_events import cause_words
from zombiescope.profiler import asking as pipeline
from zombiescope.profiler.drawing.documents import render_flame, render_heat_map, render_hits, render_moments
from zombiescope.profiler.drawing.flame_graph import render_flame_graph_svg
from zombiescope.profiler.drawing.heat_map import render_heat_map_png, render_heat_map_svg
from zombiescope.profiler.drawing.text import (
    look_at,
    render_difference_text,
    render_flame_text,
    render_heat_map_text,
    render_hits_text,
    render_moments_text,
)
from zombiescope.profiler.files.store import LATEST
from zombiescope.profiler.stacks.heat_map import HeatMap
from zombiescope.profiler.stacks.searching import Question

svg_option = click.option("--svg", type=click.Path(path_type=bytes), metavar="FILE", help="Write an SVG picture.")
png_option = click.option("--png", type=click.Path(path_type=bytes), metavar="FILE", help="Write a PNG picture.")
_PICTURE_ROWS, _TERMINAL_ROWS, _SIDE_COLUMNS = 50, 10, 8
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)


@click.command(
    epilog=examples(
        "zombiescope profile heatmap                          the latest capture, time in the kernel",
        "zombiescope profile heatmap perf.data --core 1 --svg core1.svg --png core1.png",
    )
)
@capture_argument
@range_options
@filter_options
@click.option("--all", "with_all", is_flag=True, help="Kernel and user code together.")
@click.option("--per-core/--summed", default=True, show_default=True, help="One strip per core, or one for all.")
@click.option("--rows", type=click.IntRange(1, 1000), help="Parts of a column; 50 in pictures, 10 in the terminal.")
@svg_option
@png_option
@captures_option
@json_option
def heatmap(
    *,
    capture: str,
    begin: float | None,
    end: float | None,
    with_all: bool,
    per_core: bool,
    rows: int | None,
    svg: bytes | None,
    png: bytes | None,
    captures: bytes,
    as_json: bool,
    **given: Any,
) -> Answer:
    """Samples by time: one column per second, read upwards, and one strip per core.

    It opens on time in the kernel; --user shows user code, --all both. With --json both are counted unless you choose.

    Idle samples are left out: those whose innermost function is an idle routine. Interrupt work on an idle core stays.
    """
    opened = pipeline.open_capture(captures, capture)
    picture = bool(svg or png or as_json)
    width = 1.0 if picture else _column_seconds((opened.capture.seconds if end is None else end) - (begin or 0.0))
    high = rows or (_PICTURE_ROWS if picture else _TERMINAL_ROWS)

    def ask(which: dict[str, Any]) -> HeatMap:
        return pipeline.ask_heat_map(opened, selection_of(which, begin, end), rows=high, column_seconds=width)

    if as_json and not (svg or png):
        return JsonAnswer(render_heat_map(ask(given), opened.name, opened.capture))
    found, what = _of_interest(ask, given, with_all=with_all)
    cores = _known(given["cores"], found.cpus)
    title = f"{opened.name}{_together(opened, given)}: {what}{_range_text(begin, end)}"
    last = next_line("to see the calls", f"flame{range_flags(begin, end)}", captures, capture)
    if svg or png:
        return TextAnswer([*_pictures(svg, png, found, title, per_core=per_core, cores=cores), last])
    return TextAnswer(
        [
            *render_heat_map_text(found, title, per_core=per_core, cores=cores, gaps=opened.capture.about.gaps),
            last,
        ]
    )


def _of_interest(
    ask: Callable[[dict[str, Any]], HeatMap], given: dict[str, Any], *, with_all: bool
) -> tuple[HeatMap, str]:
    """Time in the kernel, which is what starves a core, unless something else was chosen or there is none."""
    if given["in_user"]:
        return ask(given), "time in user code, by moment"
    if with_all and not given["in_kernel"]:
        return ask(given), "processor time in the kernel and in user code, by moment"
    found = ask({**given, "in_kernel": True})
    if found.counts.any() or given["in_kernel"]:
        return found, "time in the kernel, by moment"
    return ask(given), "processor time, by moment (no sample was taken in the kernel)"


def _known(chosen: Sequence[int], cpus: Sequence[int]) -> tuple[int, ...]:
    if strange := [core for core in chosen if core not in cpus]:
        there = ", ".join(map(str, cpus[:16])) + (f" and {len(cpus) - 16} more" if len(cpus) > 16 else "")
        raise UsageError(f"cannot draw core {strange[0]}", "the capture has no sample of it", f"it has {there}")
    return tuple(chosen)


def _pictures(
    svg: bytes | None, png: bytes | None, found: HeatMap, title: str, *, per_core: bool, cores: tuple[int, ...]
) -> list[str]:
    wrote: list[str] = []
    for path, draw in ((svg, render_heat_map_svg), (png, render_heat_map_png)):
        if path:
            drawn = draw(found, title, per_core=per_core, cores=cores)
            wrote += write_pieces(path, [drawn.encode() if isinstance(drawn, str) else drawn])
    return wrote


def _column_seconds(seconds: float) -> float:
    """So that the whole range fits the terminal."""
    room = max(20, shutil.get_terminal_size().columns - _SIDE_COLUMNS)
    return float(next((step for step in _STEPS if seconds / step <= room), seconds / room))


@click.command(
    epilog=examples(
        "zombiescope profile flame --from 12 --to 14 --core 1 --kernel",
        "zombiescope profile flame latest --svg flame.svg",
    )
)
@capture_argument
@range_options
@filter_options
@least_option
@svg_option
@captures_option
@json_option
def flame(
    *,
    capture: str,
    begin: float | None,
    end: float | None,
    least: float,
    svg: bytes | None,
    captures: bytes,
    as_json: bool,
    **given: Any,
) -> Answer:
    """The stacks of a range: which call takes how much of the time, and through whom."""
    opened = pipeline.open_capture(captures, capture)
    graph, frames = pipeline.ask_flame_graph(opened, selection_of(given, begin, end))
    place = " in the kernel" if given["in_kernel"] else " in user code" if given["in_user"] else ""
    title = f"{opened.name}{_together(opened, given)}: processor time{place} by call{_range_text(begin, end)}"
    last = next_line("to see the moments when a core was held", "find", captures, capture)
    if svg:
        return wrote(svg, [render_flame_graph_svg(graph, frames, title).encode()], last)
    if as_json:
        return JsonAnswer(render_flame(graph, frames, opened.name, opened.capture))
    return TextAnswer(
        [*render_flame_text(graph, frames, title, least=least / 100, gaps=opened.capture.about.gaps), last]
    )


@click.command(
    epilog=examples(
        "zombiescope profile diff latest@0..10 latest@12..14", "zombiescope profile diff monday tuesday --svg diff.svg"
    )
)
@click.argument("before")
@click.argument("after")
@filter_options
@svg_option
@captures_option
@json_option
def diff(*, before: str, after: str, svg: bytes | None, captures: bytes, as_json: bool, **given: Any) -> Answer:
    """What takes a larger or smaller share in AFTER than in BEFORE.

    Each is a CAPTURE, or a range of one: `latest@10..14.5`, `monday@..60`.
    """
    (first_name, *first_range), (second_name, *second_range) = named_range(before), named_range(after)
    first = pipeline.open_capture(captures, first_name)
    second = first if second_name == first_name else pipeline.open_capture(captures, second_name)
    graph, frames = pipeline.ask_difference(
        (first, selection_of(given, *first_range)), (second, selection_of(given, *second_range))
    )
    title = f"{first.name}{_range_text(*first_range)} → {second.name}{_range_text(*second_range)}"
    last = next_line("to see who calls it", f"flame{range_flags(*second_range)}", captures, second_name)
    if svg:
        return wrote(svg, [render_flame_graph_svg(graph, frames, title).encode()], last)
    if as_json:
        return JsonAnswer(render_flame(graph, frames, second.name, second.capture))
    gaps = [*first.capture.about.gaps, *(() if second is first else second.capture.about.gaps)]
    return TextAnswer([*render_difference_text(graph, frames, title, gaps), last])


def _together(opened: pipeline.Opened, given: dict[str, Any]) -> str:
    """Samples of several events are counted together unless one is chosen."""
    events = opened.capture.events
    return f" ({' and '.join(events)} together; --event chooses)" if len(events) > 1 and not given["events"] else ""


def _range_text(begin: float | None, end: float | None) -> str:
    if begin is None and end is None:
        return ""
    return f", {begin or 0:g} s to {'the end' if end is None else f'{end:g} s'}"


@click.command(
    epilog=examples(
        "zombiescope profile export --form speedscope --output out.json",
        "zombiescope profile export monday --form collapsed --from 12 --to 14",
    )
)
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
    last = next_line("to see the same calls here", f"flame{range_flags(begin, end)}", captures, capture)
    return wrote(output, pipeline.write_elsewhere(opened, selection_of(given, begin, end), form), last)


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
    parts = render_moments_text(moments, opened.name, opened.capture.seconds, opened.capture.about.gaps)
    if not moments:
        return TextAnswer([*parts, next_line("to see the whole capture", "heatmap", captures, name)])
    worst = max((each.moment for each in moments), key=lambda moment: moment.end - moment.begin)
    flags = f"flame{range_flags(round(worst.begin, 3), round(worst.end, 3))} --core {worst.cpu} --kernel"
    return TextAnswer([*parts, next_line("to see the calls of the longest", flags, captures, name)])


def _of_all(captures: bytes, asked: dict[str, Any], most: int, *, as_json: bool) -> Answer:
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
