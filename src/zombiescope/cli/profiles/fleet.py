# SPDX-License-Identifier: Apache-2.0
"""`profile ship`: captures of this node into an archive of many; nothing ships by itself: a person or a timer runs it. And
`profile fleet top|flame|diff|find`: questions over such an archive."""

from __future__ import annotations

import os
from dataclasses import replace as replaced
from importlib.util import find_spec
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from zombiescope.analysis.exact_test import compare_groups, median_range
from zombiescope.cli.command import (
    Answer,
    Decorated,
    JsonAnswer,
    Listed,
    Next,
    TextAnswer,
    examples,
    json_option,
    moment_of,
    together,
)
from zombiescope.cli.profiles.asking import svg_option
from zombiescope.cli.profiles.options import (
    captures_option,
    core_option,
    least_option,
    others_options,
    side_of,
    wrote,
)
from zombiescope.errors import UsageError, absent_part
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown_text
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.profile_events import labels_here
from zombiescope.presenters.document import rfc3339
from zombiescope.profiler import archive
from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.drawing.flame_graph import BETWEEN_NODES, render_flame_graph_svg
from zombiescope.profiler.drawing.fleet import (
    render_fleet_difference,
    render_fleet_difference_text,
    render_fleet_flame,
    render_fleet_moments,
    render_fleet_moments_text,
    render_fleet_top,
    render_shipped,
    render_shipped_text,
    render_top_text,
)
from zombiescope.profiler.drawing.text import render_flame_text
from zombiescope.profiler.files import store
from zombiescope.profiler.stacks.capture import Capture, Clock

if TYPE_CHECKING:
    from zombiescope.profiler.archive.asking import Engine, Question

endpoint_option = click.option(
    "--endpoint", default="", metavar="URL", help="Of an S3-compatible store that is not Amazon's: https://HOST:PORT."
)


def require_package(package: str, what: str) -> None:
    if find_spec(package) is None:
        instead = "zombiescope profile export here, or ship from a machine with Python 3.11 or newer"
        raise absent_part(f"cannot {what}", package, "archive", instead)


@click.command(
    epilog=examples(
        "zombiescope profile ship latest --to /srv/profiles",
        "zombiescope profile ship --all --to s3://bucket/profiles --zone eu-1a",
        "zombiescope profile ship perf.data --to /srv/profiles --node web-17 --image ami-1 --at 2026-01-31T14:02",
    )
)
@click.argument("captures_given", metavar="[CAPTURE]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every stored capture; those that are there already are left alone.")
@click.option("--to", "target", required=True, metavar="DIR|s3://BUCKET/PREFIX", help="The archive; made if missing.")
@click.option("--node", metavar="NAME", help="Of the node; the capture's own host when not given.")
@click.option("--zone", metavar="NAME", help="Where it is; from cloud-init on the node itself.")
@click.option(
    "--image", metavar="NAME", help="What it was installed from; from cloud-init or os-release on the node itself."
)
@click.option("--kernel", metavar="RELEASE", help="Its kernel; the capture's own when not given.")
@click.option("--at", metavar="TIME", help="When it began, if the capture does not say: a date and time, or 2h.")
@click.option("--replace", is_flag=True, help="Write again what is there, such as after a wrong --zone.")
@endpoint_option
@captures_option
@json_option
def ship(
    *,
    captures_given: tuple[str, ...],
    every: bool,
    target: str,
    at: str | None,
    replace: bool,
    endpoint: str,
    captures: bytes,
    as_json: bool,
    **given: str | None,
) -> Answer:
    """Write captures into an archive of many nodes: Parquet files in a folder or an S3 bucket, one capture after the other.

    What is there already is left alone, and what a kill leaves behind does not count: run it again. Function names, thread names
    and cgroup paths go along as they are. Nothing is ever shipped unless you run this.
    """
    require_package("pyarrow", "ship profiles")

    if bool(captures_given) == every:
        raise UsageError(
            "cannot tell what to ship", "name captures, or give --all, not both", "profile ship latest --to DIR"
        )
    place = archive.places.place_at(archive.places.Where(target, endpoint))
    names = captures_given or [os.fsdecode(each.path) for each in store.entries(captures) if each.about is not None]
    began = None if at is None else moment_of(at, open_host(None).wall_clock())
    shipped, gaps = [], []
    for name in names:
        try:
            opened = open_capture(captures, name)
            capture = _dated(opened.capture, began)
            shipped.append(
                archive.places.ship(
                    place,
                    capture,
                    opened.name,
                    archive.schema.Labels(*_labels(capture, given)),
                    replace=replace,
                )
            )
        except UsageError as error:
            if not every:
                raise
            gaps.append(Gap("captures", f"{error.what}: {error.why}", error.hint))
    if as_json:
        return JsonAnswer(render_shipped(place.name, shipped, gaps))
    parts = render_shipped_text(shipped, place.name, gaps)
    return TextAnswer(
        [*parts, Next("to see what is hot in it", f"zombiescope profile fleet top {again(target, endpoint)}")]
    )


def _dated(capture: Capture, began: float | None) -> Capture:
    """With the time that was given, where it has none of its own."""
    about = capture.about
    if began is None or about.clock is not None or not len(capture):
        return capture
    return replaced(capture, about=about._replace(clock=Clock(round(began * 1e9), int(capture.time[0]))))


def again(target: str, endpoint: str) -> str:
    return f"--archive {quote(shown_text(target))}" + (f" --endpoint {quote(endpoint)}" if endpoint else "")


def _labels(capture: Capture, given: dict[str, str | None]) -> tuple[str, str, str, str]:
    """As given; else as the capture says; zone and image of this machine only if the capture was taken here."""
    here, node = labels_here(), given["node"] or capture.about.host or ""
    if not node:
        raise UsageError(
            "cannot ship a capture of nobody", "it does not say on which node it was taken", "give --node NAME"
        )
    zone, image, kernel = (here.zone, here.image, here.kernel) if capture.about.host == here.node else ("", "", "")
    kernel = given["kernel"] or capture.about.kernel or kernel
    return node, given["zone"] or zone, given["image"] or image, kernel


_EVERY, _OTHERS = "all nodes", "all other nodes"


def _options(*, compared: bool) -> Decorated:
    against = click.option(
        "--against", multiple=True, metavar="TERMS", help="What they are compared with; all other nodes when not given."
    )
    return together(
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

    now = open_host(None).wall_clock()
    since, until = (moment_of(given[name], now, f"--{name}") if given[name] else None for name in ("since", "until"))
    if since is not None and until is not None and until <= since:
        raise UsageError("cannot look at that time", "it ends before it begins", "give --since below --until")
    is_folder = "://" not in given["archive"]  # a task elsewhere stands in another folder
    where = archive.places.Where(
        os.path.abspath(given["archive"]) if is_folder else given["archive"], given["endpoint"]
    )
    filters = archive.counting.Asked(
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
    terms = [archive.catalogue.read_terms(given.get(name, ()), f"--{name}") for name in ("where", "against")]
    engine = archive.asking.ray_engine(given["address"]) if given["engine"] == "ray" else archive.asking.count_here
    return archive.asking.Question(where, terms[0], terms[1], archive.catalogue.Times(since, until), filters), engine


def _nodes(given: dict[str, Any], name: str, otherwise: str) -> str:
    return shown_text(" ".join(given.get(name, ()))) or otherwise


def _next(why: str, verb: str, given: dict[str, Any], *words: str, where: bool = True) -> Next:
    same = [f"--where {quote(shown_text(each))}" for each in given["where"]] if where else []
    archive = again(given["archive"], given["endpoint"])
    return Next(why, " ".join(["zombiescope profile fleet", verb, archive, *same, *words]))


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
    if as_json:
        return JsonAnswer(render_fleet_top(shown_text(given["archive"]), found, by, most, median_range))
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

    found = archive.asking.ask_flame(question, engine)
    title = f"{_nodes(given, 'where', _EVERY)} ({found.group.nodes:,} nodes): processor time by call"
    last = _next("to compare them with the others", "diff", given)
    if svg:
        return wrote(svg, [render_flame_graph_svg(found.graph, found.frames, title).encode()], last)
    if as_json:
        return JsonAnswer(render_fleet_flame(shown_text(given["archive"]), found))
    return TextAnswer([*render_flame_text(found.graph, found.frames, title, least=least / 100, gaps=found.gaps), last])


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

    found = archive.asking.ask_difference(question, engine, compare_groups)
    here, there = _nodes(given, "where", _EVERY), _nodes(given, "against", _OTHERS)
    words = [f"--function {quote(shown_text(found.found[0].key[0]))}"] if found.found else []
    last = _next("to see when" if words else "to see what is hot there", "find" if words else "top", given, *words)
    if svg:
        drawn = render_flame_graph_svg(found.graph, found.frames, f"{here} against {there}", BETWEEN_NODES)
        return wrote(svg, [drawn.encode()], last)
    if as_json:
        return JsonAnswer(render_fleet_difference(shown_text(given["archive"]), found))
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

    side = question.filters.side if function or question.filters.side != "both" else "kernel"
    filters = question.filters._replace(function=function, window=round(window * 1e6), side=side)
    found = archive.asking.ask_moments(question._replace(filters=filters), engine)
    what = shown_text(function) or {"kernel": "the kernel", "user": "user code"}[side]
    if as_json:
        return JsonAnswer(render_fleet_moments(shown_text(given["archive"]), what, found, most))
    parts = render_fleet_moments_text(found, what, _nodes(given, "where", _EVERY), most)
    if not found.moments:
        return TextAnswer([*parts, _next("to see what is hot there", "top", given)])
    first = found.moments[0]
    times = [f"--{name} {rfc3339(at / 1e6)}" for name, at in (("since", first.begin), ("until", first.end))]
    words = [f"--where {quote(f'node={first.node}')}", f"--core {first.core}", *times]
    return TextAnswer([*parts, _next("to see the calls of the first", "flame", given, *words, where=False)])
