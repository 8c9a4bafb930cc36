# SPDX-License-Identifier: Apache-2.0
"""`zombiescope record`: a scrubbed support bundle that is also a test machine."""

from __future__ import annotations

import os

import click

from zombiescope.cli.answer import Answer, JsonAnswer, PlainAnswer
from zombiescope.cli.options import json_option, root_option
from zombiescope.cli.progress import window_shown
from zombiescope.errors import UsageError
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.record import Asked, Recorded
from zombiescope.pipeline.record import record as record_host

EPILOG = """\b
Examples:
  zombiescope record node.tar.gz                 look for 10 seconds, keep what was read
  zombiescope record --keep-names node.tar.gz    with the names of units and cgroups: who made the zombies
  zombiescope doctor --root node.tar.gz          the same answer, on another machine
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=str))
@click.option(
    "--seconds", type=click.FloatRange(min=0, max=86400), default=10.0, show_default=True, help="How long to look."
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
    with window_shown(seconds if host.is_live else 0) as progress:
        recorded = record_host(host, file, seconds, progress, Asked(keep_names, force))
    if not as_json:
        return PlainAnswer("\n".join(_lines(file, recorded, kept_names=keep_names)))
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
    kept = "; names of units and cgroups KEPT, as asked" if kept_names else "; none that this host knows is left"
    return [
        f"{file}: {recorded.answers:,} answers, {recorded.size_bytes:,} bytes; {replay}",
        f"scrubbed: {recorded.taken_out:,} names and addresses replaced{kept}; look before you send it: tar xzOf {file} | less",
        f"replay:   zombiescope doctor --root {file}",
    ]
