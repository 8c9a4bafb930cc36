# SPDX-License-Identifier: Apache-2.0
"""`zombiescope record`: a scrubbed support bundle that is also a test machine."""

from __future__ import annotations

import os
from shlex import quote

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import json_option, root_option
from zombiescope.cli.progress import window_shown
from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.record import Asked, Recorded
from zombiescope.pipeline.record import record as record_host

EPILOG = """\b
Examples:
  zombiescope record node.tar.gz                 watch for 10 seconds, keep what was read
  zombiescope record --keep-names node.tar.gz    with the names of units and cgroups: who made the zombies
  zombiescope doctor --root node.tar.gz          the same answer, on another machine
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=str))
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=86400),
    default=10.0,
    show_default=True,
    help="How many seconds to watch.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--keep-names", is_flag=True, help="Leave names of units, containers and cgroups as they are.")
@json_option
@root_option
def record(*, file: str, seconds: float, force: bool, keep_names: bool, as_json: bool, root: bytes | None) -> Answer:
    """Keep what the reading commands read on this host in FILE, without any name: hosts, addresses, people, programs, units,
    cgroups and files have substitutes there.

    Reads only, and writes FILE, or nothing when a name of this host would still be in it. `--root FILE` of the reading
    commands replays it.
    """
    if os.path.isdir(file):
        raise UsageError(f"cannot record to {file}", "it is a folder", f"zombiescope record {file}/node.tar.gz")
    if os.path.lexists(file) and not force:
        raise UsageError(f"cannot record to {file}", "it exists already", "another name, or --force")
    host = open_host(root)
    with window_shown(
        seconds if host.is_live else 0, "watching this host", "replacing names, writing, replaying"
    ) as progress:
        recorded = record_host(host, file, seconds, progress, Asked(keep_names, force))
    if not as_json:
        from zombiescope.presenters.layout import Command  # noqa: PLC0415

        last = Command("to replay it", f"zombiescope doctor --root {quote(shown(os.fsencode(file)))}")
        return TextAnswer([*_lines(file, recorded, kept_names=keep_names), last])
    from zombiescope.presenters.document import document  # noqa: PLC0415 (each form loads only what it needs)

    body = {
        "file": file,
        "bytes": recorded.size_bytes,
        "answers": recorded.answers,
        "taken_out": recorded.taken_out,
        "kept_names": keep_names,
        "verdict": recorded.verdict,
        "replays": recorded.replays,
    }
    return JsonAnswer(document("record/1", recorded.snapshot, body, ()))


def _lines(file: str, recorded: Recorded, *, kept_names: bool) -> list[str]:
    replay = (
        "replays to the same answer" if recorded.replays else "does NOT replay to the same answer: please report it"
    )
    kept = "; names of units and cgroups KEPT, as asked" if kept_names else "; no name known to this host is left"
    return [
        f"{file}: {recorded.answers:,} answers, {recorded.size_bytes:,} bytes; {replay}",
        f"scrubbed: {recorded.taken_out:,} names and addresses replaced{kept}; check it before you send it: tar xzOf {file} | less",
    ]
