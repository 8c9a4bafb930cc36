# SPDX-License-Identifier: Apache-2.0
"""`profile serve`."""

from __future__ import annotations

import contextlib
import signal

import click

from zombiescope.cli.answer import Answer
from zombiescope.cli.profiles.options import capture_argument, captures_option
from zombiescope.cli.profiles.recording import span_of
from zombiescope.config import listen_address
from zombiescope.errors import UsageError
from zombiescope.pipeline.profile_events import marks_of
from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.page import STATIC, ProfileApi
from zombiescope.web.guards import read_token
from zombiescope.web.page import PageServer


@click.command()
@capture_argument
@click.option("--port", type=click.IntRange(0, 65_535), default=8098, show_default=True, help="0 takes any free one.")
@click.option(
    "--state", type=click.Path(path_type=bytes), metavar="DIR", help="Mark what the agent of this state folder saw."
)
@click.option(
    "--kernel-log",
    type=click.Path(path_type=bytes),
    metavar="FILE",
    help="Mark resets of network cards; as dmesg prints it.",
)
@click.option("--listen", metavar="unix:PATH", help="A socket that only its owner can open, instead of a port.")
@click.option("--token-file", metavar="FILE", help="Readers must send what it holds: Authorization: Bearer TOKEN.")
@captures_option
def serve(
    *,
    capture: str,
    port: int,
    state: bytes | None,
    kernel_log: bytes | None,
    listen: str | None,
    token_file: str | None,
    captures: bytes,
) -> Answer | None:
    """A page on this machine with the heat map and the flame graph of a capture. Loopback only, read-only. Ends on Ctrl-C.

    Every user of this machine can reach a port on loopback. Where they must not read the capture, use --listen unix:PATH or
    --token-file FILE.
    """
    path = listen_address(listen) if listen else ""
    if not isinstance(path, str):
        raise UsageError(f"cannot listen on {listen}", "it is no path of a socket", "--listen unix:PATH, or --port N")
    token = read_token(token_file) if token_file else ""
    opened = open_capture(captures, capture)
    marks = marks_of(span_of(opened.capture), state, kernel_log)
    api = ProfileApi(opened, {name: [one._asdict() for one in each] for name, each in marks._asdict().items()})
    server = PageServer(port, api.answer, STATIC, path=path, token=token)
    click.echo(server.address)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):  # how it is meant to end
        server.serve()
    return None
