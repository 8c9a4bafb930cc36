# SPDX-License-Identifier: Apache-2.0
"""`zombiescope record`: a scrubbed support bundle that is also a test machine."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

import click

from zombiescope import presenters
from zombiescope.cli.command import (
    Answer,
    JsonAnswer,
    Next,
    TextAnswer,
    examples,
    json_option,
    root_option,
    standard_output,
)
from zombiescope.cli.profiles.carrying import carried_captures, lay_down_captures
from zombiescope.cli.progress import window_shown
from zombiescope.config import DEFAULT_STATE
from zombiescope.errors import ActionUndoneError, UsageError
from zombiescope.facts.names import shown
from zombiescope.pipeline.carrying import Carried, Carrying, Places, opened_places
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.record import Asked, Recorded
from zombiescope.pipeline.record import record as record_host


@click.command(
    epilog=examples(
        "zombiescope record node.tar.gz                 watch for 10 seconds, keep what was read",
        "zombiescope record --keep-names node.tar.gz    with the names of units and cgroups: who made the zombies",
        "zombiescope record - | ssh desk 'cat > node.tar.gz'    to standard output, where no file can be written",
        "zombiescope doctor --root node.tar.gz          the same answer, on another machine",
        "zombiescope serve --root node.tar.gz           the page about it, with its history and captures",
    )
)
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
@click.option(
    "--history-limit",
    type=click.IntRange(min=0, max=256),
    default=32,
    show_default=True,
    metavar="MIB",
    help="At most this much of the agent's history and of captures, the newest; 0 leaves both out.",
)
@click.option("--state", metavar="DIR", help="The agent's state folder, with its history; without it the usual one.")
@click.option("--captures", metavar="DIR", help="Where profiles are stored; without it `captures` in the state folder.")
@json_option
@root_option
def record(
    *,
    file: str,
    seconds: float,
    force: bool,
    keep_names: bool,
    history_limit: int,
    state: str | None,
    captures: str | None,
    as_json: bool,
    root: bytes | None,
) -> Answer | None:
    """Keep what the reading commands read on this host in FILE, with the agent's history and captures, and without any name:
    hosts, addresses, people, programs, units, cgroups and files have substitutes there.

    Reads only, and writes FILE (- is standard output), or nothing when a name of this host would still be in it. `--root FILE` of
    the reading commands replays it.
    """
    if file == _STANDARD_OUTPUT:
        _check_standard_output(as_json=as_json)
        with TemporaryDirectory() as folder:
            kept = os.path.join(folder, "bundle.tar.gz")
            recorded = _kept(kept, seconds, Asked(keep_names, False, None), history_limit, (state, captures), root)
            lines = _lines("node.tar.gz", recorded, kept_names=keep_names, limit=history_limit)
            _print_file(kept)
        click.echo("\n".join(lines), err=True)
        return None
    _check_place(file, force=force)
    recorded = _kept(file, seconds, Asked(keep_names, force, None), history_limit, (state, captures), root)
    if not as_json:
        last = Next("to replay it", f"zombiescope doctor --root {quote(shown(os.fsencode(file)))}")
        return TextAnswer([*_lines(file, recorded, kept_names=keep_names, limit=history_limit), last])

    body = {
        "file": file,
        "bytes": recorded.size_bytes,
        "answers": recorded.answers,
        "taken_out": recorded.taken_out,
        "kept_names": keep_names,
        "verdict": recorded.verdict,
        "replays": recorded.replays,
        "carried": {name: getattr(recorded.carried, name) for name in _CARRIED},
    }
    return JsonAnswer(presenters.document.document("record/1", recorded.snapshot, body, recorded.carried.gaps))


_STANDARD_OUTPUT = "-"


def _check_place(file: str, *, force: bool) -> None:
    """What is wrong with it is told now, not after the window."""
    if os.path.isdir(file):
        raise UsageError(f"cannot record to {file}", "it is a folder", f"zombiescope record {file}/node.tar.gz")
    if os.path.lexists(file) and not force:
        raise UsageError(f"cannot record to {file}", "it exists already", "another name, or --force")
    if not os.access(os.path.dirname(file) or ".", os.W_OK | os.X_OK):
        why = "its folder is not there, or you cannot write to it"
        raise ActionUndoneError(
            f"cannot record to {file}", why, "choose a folder that has room and that you can write to"
        )


def _check_standard_output(*, as_json: bool) -> None:
    what, hint = "cannot record to standard output", "zombiescope record node.tar.gz"
    if as_json:
        raise UsageError(what, "--json prints its document there", hint)
    if standard_output().isatty():
        raise UsageError(what, "it is a terminal, and a recording is not text", hint)


def _print_file(path: str) -> None:
    with Path(path).open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _kept(
    file: str,
    seconds: float,
    asked: Asked,
    history_limit: int,
    places: tuple[str | None, str | None],
    root: bytes | None,
) -> Recorded:
    host = open_host(root)
    said = Places(*(None if each is None else os.fsencode(each) for each in places))
    with (
        opened_places(root, said, os.fsencode(DEFAULT_STATE), lay_down_captures) as found,
        window_shown(
            seconds if host.is_live else 0, "watching this host", "replacing names, writing, replaying"
        ) as progress,
    ):
        carrying = Carrying(found, history_limit << 20, carried_captures) if history_limit else None
        return record_host(host, file, seconds, progress, asked._replace(carrying=carrying))


_CARRIED = ("hours", "hours_in_all", "captures", "captures_in_all")


def _lines(file: str, recorded: Recorded, *, kept_names: bool, limit: int) -> list[str]:
    replay = (
        "replays to the same answer" if recorded.replays else "does NOT replay to the same answer: please report it"
    )
    kept = "; names of units and cgroups KEPT, as asked" if kept_names else "; no name known to this host is left"
    return [
        f"{file}: {recorded.answers:,} answers, {recorded.size_bytes:,} bytes; {replay}",
        f"scrubbed: {recorded.taken_out:,} names and addresses replaced{kept}; check it before you send it: tar xzOf {file} | less",
        *_carried_lines(recorded.carried, limit),
    ]


def _carried_lines(carried: Carried, limit: int) -> list[str]:
    if not limit:
        return ["history and captures were left out (--history-limit 0)"]
    more = f"; more with --history-limit (now {limit} MiB)" if carried.is_cut else ""
    return [f"{carried.words}{more}", *(f"{gap.fact}: {gap.reason}; {gap.hint}" for gap in carried.gaps)]
