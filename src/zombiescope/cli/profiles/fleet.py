# SPDX-License-Identifier: Apache-2.0
"""`profile fleet top|flame|diff|find`: questions over an archive of many nodes."""

from __future__ import annotations

import os
from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from zombiescope.analysis.between_nodes import compare_groups, median_range
from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import Decorated, Listed, examples, json_option, moment_of
from zombiescope.cli.profiles.asking import svg_option
from zombiescope.cli.profiles.options import (
    core_option,
    least_option,
    others_options,
    side_of,
    with_options,
    write_pieces,
)
from zombiescope.cli.profiles.shipping import again, endpoint_option, require_package
from zombiescope.errors import UsageError
from zombiescope.facts.names import shown_text
from zombiescope.pipeline.opening import open_host
from zombiescope.presenters.document import rfc3339

if TYPE_CHECKING:
    from zombiescope.presenters.layout import Command
    from zombiescope.profiler.archive.asking import Engine, Question

_EVERY = "all nodes"
_OTHERS = "all other nodes"


def _options(*, compared: bool) -> Callable[[Decorated], Decorated]:
    against = click.option(
        "--against", multiple=True, metavar="TERMS", help="What they are compared with; all other nodes when not given."
    )
    given = (
        click.option("--archive", required=True, metavar="DIR|s3://BUCKET/PREFIX", help="Where profile ship wrote it."),
        click.option(
            "--where", multiple=True, metavar="TERMS", help="Only these nodes: 'zone=c', 'zone=a,b image=ami-1*'."
        ),
        *((against,) if compared else ()),
        click.option("--since", metavar="TIME", help="Only samples from then on: a date and time, or 2h."),
        click.option("--until", metavar="TIME", help="Only samples before."),
        core_option,
        *others_options,
        click.option(
            "--engine",
            type=click.Choice(("duckdb", "ray")),
            default="duckdb",
            show_default=True,
            help="Who counts: this machine, or a Ray cluster that reaches the archive. The answer is the same.",
        ),
        click.option(
            "--ray", "address", default="auto", show_default=True, metavar="ADDRESS", help="Which Ray cluster."
        ),
        endpoint_option,
    )
    return lambda command: with_options(command, given)


most_option = click.option(
    "--most", type=click.IntRange(1, 1000), default=15, show_default=True, help="How many lines to show."
)


@click.group(
    cls=Listed,
    epilog=examples(
        "zombiescope profile fleet top --archive /srv/profiles",
        "zombiescope profile fleet diff --archive /srv/profiles --where zone=c --against zone=a,b",
        "zombiescope profile fleet find --archive /srv/profiles --where zone=c --function shrink_slab",
    ),
)
def fleet() -> None:
    """Ask an archive that `profile ship` wrote about the profiles of many nodes.

    TERMS choose nodes by node, zone, image and kernel: `zone=a,b image=ami-1*`. Every term must hold, by one of its values.
    """


def _asked(given: dict[str, Any]) -> tuple[Question, Engine]:
    for package in ("pyarrow", "duckdb"):
        require_package(package, "ask an archive of profiles")
    from zombiescope.profiler.archive.asking import Question, count_here, ray_engine  # noqa: PLC0415 (an extra)
    from zombiescope.profiler.archive.catalogue import Times, read_terms  # noqa: PLC0415
    from zombiescope.profiler.archive.counting import Asked  # noqa: PLC0415
    from zombiescope.profiler.archive.places import Where  # noqa: PLC0415

    now = open_host(None).wall_clock()
    since, until = (moment_of(given[name], now, f"--{name}") if given[name] else None for name in ("since", "until"))
    if since is not None and until is not None and until <= since:
        raise UsageError("cannot look at that time", "it ends before it begins", "give --since below --until")
    is_folder = "://" not in given["archive"]  # a task elsewhere stands in another folder
    where = Where(os.path.abspath(given["archive"]) if is_folder else given["archive"], given["endpoint"])
    filters = Asked(
        where,
        0,
        0,
        0,
        tuple(given["cores"]),
        tuple(given["cgroups"]),
        tuple(given["events"]),
        side_of(given),
        given["with_idle"],
    )
    terms = [read_terms(given.get(name, ()), f"--{name}") for name in ("where", "against")]
    engine = ray_engine(given["address"]) if given["engine"] == "ray" else count_here
    return Question(where, terms[0], terms[1], Times(since, until), filters), engine


def _nodes(given: dict[str, Any], name: str, otherwise: str) -> str:
    return shown_text(" ".join(given.get(name, ()))) or otherwise


def _next(why: str, verb: str, given: dict[str, Any], *words: str, where: bool = True) -> Command:
    from zombiescope.presenters.layout import Command  # noqa: PLC0415

    same = [f"--where {quote(shown_text(each))}" for each in given["where"]] if where else []
    said = " ".join([verb, again(given["archive"], given["endpoint"]), *same, *words])
    return Command(why, f"zombiescope profile fleet {said}")


@fleet.command(
    epilog=examples(
        "zombiescope profile fleet top --archive /srv/profiles --where zone=c --since 2h",
        "zombiescope profile fleet top --archive s3://bucket/profiles --kernel --by total",
    )
)
@_options(compared=False)
@click.option(
    "--by", type=click.Choice(("self", "total")), default="self", show_default=True, help="Own time, or in all."
)
@most_option
@json_option
def top(*, by: str, most: int, as_json: bool, **given: Any) -> Answer:
    """The functions that take most of the time of these nodes: the mean over nodes, with its range over nodes."""
    question, engine = _asked(given)
    from zombiescope.profiler.archive.asking import ask_top  # noqa: PLC0415

    found = ask_top(question, engine)
    archive = shown_text(given["archive"])
    if as_json:
        from zombiescope.profiler.drawing.fleet import render_fleet_top  # noqa: PLC0415

        return JsonAnswer(render_fleet_top(archive, found, by, most, median_range))
    from zombiescope.profiler.drawing.fleet import render_top_text  # noqa: PLC0415

    parts = render_top_text(found, _nodes(given, "where", _EVERY), by, most, median_range)
    return TextAnswer([*parts, _next("to see who calls it", "flame", given)])


@fleet.command(
    epilog=examples(
        "zombiescope profile fleet flame --archive /srv/profiles --where zone=c",
        "zombiescope profile fleet flame --archive /srv/profiles --where 'node=web-*' --svg flame.svg",
    )
)
@_options(compared=False)
@least_option
@svg_option
@json_option
def flame(*, least: float, svg: bytes | None, as_json: bool, **given: Any) -> Answer:
    """The stacks of all these nodes as one flame graph, by samples."""
    question, engine = _asked(given)
    from zombiescope.profiler.archive.asking import ask_flame  # noqa: PLC0415

    found = ask_flame(question, engine)
    title = f"{_nodes(given, 'where', _EVERY)} ({found.group.nodes:,} nodes): processor time by call"
    last = _next("to compare them with the others", "diff", given)
    if svg:
        from zombiescope.profiler.drawing.flame_graph import render_flame_graph_svg  # noqa: PLC0415

        lines = write_pieces(svg, [render_flame_graph_svg(found.graph, found.frames, title).encode()])
        return TextAnswer([*lines, last] if lines else [])
    if as_json:
        from zombiescope.profiler.drawing.fleet import render_fleet_flame  # noqa: PLC0415

        return JsonAnswer(render_fleet_flame(shown_text(given["archive"]), found))
    from zombiescope.profiler.drawing.text import render_flame_text  # noqa: PLC0415

    parts = render_flame_text(found.graph, found.frames, title, least=least / 100, gaps=found.gaps)
    return TextAnswer([*parts, last])


@fleet.command(
    epilog=examples(
        "zombiescope profile fleet diff --archive /srv/profiles --where zone=c --against zone=a,b",
        "zombiescope profile fleet diff --archive /srv/profiles --where 'image=ami-2*' --svg diff.svg",
    )
)
@_options(compared=True)
@svg_option
@most_option
@json_option
def diff(*, svg: bytes | None, most: int, as_json: bool, **given: Any) -> Answer:
    """Which functions take more or less of the time on these nodes than on the others.

    Nodes are compared, not samples: a node counts once, however often it was sampled. A function is named when chance explains it
    in at most 1 of 100 such findings; a caller that only passes the change on is not. With too few nodes it says so.
    """
    question, engine = _asked(given)
    if not question.where:
        raise UsageError("cannot compare", "it takes two groups of nodes", "name one: --where zone=c")
    from zombiescope.profiler.archive.asking import ask_difference  # noqa: PLC0415

    found = ask_difference(question, engine, compare_groups)
    here, there = _nodes(given, "where", _EVERY), _nodes(given, "against", _OTHERS)
    words = [f"--function {quote(shown_text(found.found[0].key[0]))}"] if found.found else []
    last = _next("to see when" if words else "to see what is hot there", "find" if words else "top", given, *words)
    if svg:
        from zombiescope.profiler.drawing.flame_graph import BETWEEN_NODES, render_flame_graph_svg  # noqa: PLC0415

        drawn = render_flame_graph_svg(found.graph, found.frames, f"{here} against {there}", BETWEEN_NODES)
        lines = write_pieces(svg, [drawn.encode()])
        return TextAnswer([*lines, last] if lines else [])
    if as_json:
        from zombiescope.profiler.drawing.fleet import render_fleet_difference  # noqa: PLC0415

        return JsonAnswer(render_fleet_difference(shown_text(given["archive"]), found))
    from zombiescope.profiler.drawing.fleet import render_fleet_difference_text  # noqa: PLC0415

    return TextAnswer([*render_fleet_difference_text(found, here, there, most), last])


@fleet.command(
    epilog=examples(
        "zombiescope profile fleet find --archive /srv/profiles --where zone=c --function shrink_slab",
        "zombiescope profile fleet find --archive /srv/profiles --since 2h         cores that the kernel held",
    )
)
@_options(compared=False)
@click.option("--function", default="", metavar="GLOB", help="When this function held a core; without it, the kernel.")
@click.option(
    "--window",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How fine to look.",
)
@most_option
@json_option
def find(*, function: str, window: float, most: int, as_json: bool, **given: Any) -> Answer:
    """The moments: on which node, which core and when the function took most of a core."""
    question, engine = _asked(given)
    from zombiescope.profiler.archive.asking import ask_moments  # noqa: PLC0415

    side = question.filters.side if function or question.filters.side != "both" else "kernel"
    filters = question.filters._replace(function=function, window=round(window * 1e6), side=side)
    found = ask_moments(question._replace(filters=filters), engine)
    what = shown_text(function) or {"kernel": "the kernel", "user": "user code"}[side]
    if as_json:
        from zombiescope.profiler.drawing.fleet import render_fleet_moments  # noqa: PLC0415

        return JsonAnswer(render_fleet_moments(shown_text(given["archive"]), what, found, most))
    from zombiescope.profiler.drawing.fleet import render_fleet_moments_text  # noqa: PLC0415

    parts = render_fleet_moments_text(found, what, _nodes(given, "where", _EVERY), most)
    if not found.moments:
        return TextAnswer([*parts, _next("to see what is hot there", "top", given)])
    first = found.moments[0]
    times = [f"--{name} {rfc3339(at / 1e6)}" for name, at in (("since", first.begin), ("until", first.end))]
    words = [f"--where {quote(f'node={first.node}')}", f"--core {first.core}", *times]
    return TextAnswer([*parts, _next("to see the calls of the first", "flame", given, *words, where=False)])
