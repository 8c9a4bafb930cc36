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
from zombiescope.pipeline.record import Recorded
from zombiescope.pipeline.record import record as record_host

EPILOG = """\b
Examples:
  zombiescope record node.tar.gz                 look for 10 seconds, keep what was read
  zombiescope doctor --root node.tar.gz          the same answer, on another machine
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=str))
@click.option(
    "--seconds", type=click.FloatRange(min=0, max=86400), default=10.0, show_default=True, help="How long to look."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@json_option
@root_option
def record(*, file: str, seconds: float, force: bool, as_json: bool, root: bytes | None) -> Answer:
    """Keep what the reading commands read on this host in FILE, without host names, addresses, user names and command lines.

    Reads only, and writes FILE. `--root FILE` of the reading commands replays it.
    """
    if os.path.isdir(file):
        raise UsageError(f"cannot record to {file}", "it is a folder", f"zombiescope record {file}/node.tar.gz")
    if os.path.lexists(file) and not force:
        raise UsageError(f"cannot record to {file}", "it exists already", "another name, or --force")
    host = open_host(root)
    with window_shown(seconds if host.is_live else 0) as progress:
        recorded = record_host(host, file, seconds, progress)
    if not as_json:
        return PlainAnswer("\n".join(_lines(file, recorded)))
    from zombiescope.presenters.document import document  # noqa: PLC0415 (each form loads only what it needs)

    body = {
        "file": file,
        "bytes": recorded.size_bytes,
        "answers": recorded.answers,
        "taken_out": recorded.taken_out,
        "verdict": recorded.verdict,
        "replays": recorded.replays,
    }
    return JsonAnswer(document("record/1", recorded.snapshot, body, ()))


def _lines(file: str, recorded: Recorded) -> list[str]:
    replay = (
        "replays to the same answer" if recorded.replays else "does NOT replay to the same answer: please report it"
    )
    return [
        f"{file}: {recorded.answers:,} answers, {recorded.size_bytes:,} bytes; {replay}",
        f"scrubbed: {recorded.taken_out:,} names and addresses replaced; look before you send it: tar xzOf {file} | less",
        f"replay:   zombiescope doctor --root {file}",
    ]
