# SPDX-License-Identifier: Apache-2.0
"""`profile ship`: captures of this node into an archive of many. Nothing ships by itself: a person or a timer runs it."""

from __future__ import annotations

import os
from dataclasses import replace as replaced
from importlib.util import find_spec

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import examples, json_option, moment_of
from zombiescope.cli.profiles.folder import captures_option
from zombiescope.errors import UsageError, absent_part
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown_text
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.profile_events import labels_here
from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.files import store
from zombiescope.profiler.stacks.capture import Capture, Clock

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
    from zombiescope.profiler.archive.places import Where, place_at  # noqa: PLC0415 (an extra)
    from zombiescope.profiler.archive.places import ship as ship_one  # noqa: PLC0415
    from zombiescope.profiler.archive.schema import Labels  # noqa: PLC0415

    if bool(captures_given) == every:
        raise UsageError(
            "cannot tell what to ship", "name captures, or give --all, not both", "profile ship latest --to DIR"
        )
    place = place_at(Where(target, endpoint))
    names = captures_given or [os.fsdecode(each.path) for each in store.entries(captures) if each.about is not None]
    began = None if at is None else moment_of(at, open_host(None).wall_clock())
    shipped, gaps = [], []
    for name in names:
        try:
            opened = open_capture(captures, name)
            capture = _dated(opened.capture, began)
            shipped.append(ship_one(place, capture, opened.name, Labels(*_labels(capture, given)), replace=replace))
        except UsageError as error:
            if not every:
                raise
            gaps.append(Gap("captures", f"{error.what}: {error.why}", error.hint))
    if as_json:
        from zombiescope.profiler.drawing.fleet import render_shipped  # noqa: PLC0415

        return JsonAnswer(render_shipped(place.name, shipped, gaps))
    from zombiescope.presenters.layout import Command  # noqa: PLC0415
    from zombiescope.profiler.drawing.fleet import render_shipped_text  # noqa: PLC0415

    parts = render_shipped_text(shipped, place.name, gaps)
    return TextAnswer(
        [*parts, Command("to see what is hot in it", f"zombiescope profile fleet top {again(target, endpoint)}")]
    )


def _dated(capture: Capture, began: float | None) -> Capture:
    """With the time that was given, where it has none of its own."""
    about = capture.about
    if began is None or about.clock is not None or not len(capture):
        return capture
    return replaced(capture, about=about._replace(clock=Clock(round(began * 1e9), int(capture.time[0]))))


def again(target: str, endpoint: str) -> str:
    from shlex import quote  # noqa: PLC0415

    return f"--archive {quote(shown_text(target))}" + (f" --endpoint {quote(endpoint)}" if endpoint else "")


def _labels(capture: Capture, given: dict[str, str | None]) -> tuple[str, str, str, str]:
    """As given; else as the capture says; zone and image of this machine only if the capture was taken here."""
    here = labels_here()
    node = given["node"] or capture.about.host or ""
    if not node:
        raise UsageError(
            "cannot ship a capture of nobody", "it does not say on which node it was taken", "give --node NAME"
        )
    is_here = capture.about.host == here.node
    zone, image = (here.zone, here.image) if is_here else ("", "")
    kernel = given["kernel"] or capture.about.kernel or (here.kernel if is_here else "")
    return node, given["zone"] or zone, given["image"] or image, kernel
