# SPDX-License-Identifier: Apache-2.0
"""`zombiescope serve`: the page about this host without an agent, or about a recording."""

from __future__ import annotations

import contextlib
import os
import signal

import click

from zombiescope.cli.answer import Answer
from zombiescope.cli.options import config_option, root_option
from zombiescope.config import DEFAULT_STATE, listen_address, thresholds_for
from zombiescope.errors import UsageError

EPILOG = """\b
Examples:
  zombiescope serve                            this host, on http://127.0.0.1:8097/
  zombiescope serve --root node.tar.gz         what was recorded elsewhere
  zombiescope serve --listen unix:/run/user/0/zombiescope.sock
                                               where no other user of this machine may look
"""


@click.command(epilog=EPILOG)
@click.option(
    "--listen",
    default="127.0.0.1:8097",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where to serve; port 0 takes any free one. unix:PATH is a socket that only its owner can open.",
)
@click.option("--token-file", metavar="FILE", help="Readers must show what it holds: Authorization: Bearer TOKEN.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=120),
    default=10.0,
    show_default=True,
    help="How long each look at a live host watches.",
)
@click.option("--state", metavar="DIR", help="The agent's state folder, with its history; without it the usual one.")
@click.option("--captures", metavar="DIR", help="Where profiles are stored; without it `captures` in the state folder.")
@config_option
@root_option
def serve(
    *,
    listen: str,
    token_file: str | None,
    seconds: float,
    state: str | None,
    captures: str | None,
    config: str | None,
    root: bytes | None,
) -> Answer | None:
    """A page about this host: what is wrong, every zombie, time, cores, profiles, services, remedies. Ends on Ctrl-C.

    Reads only: it gives the command to copy and never changes the host. Every user of this machine can reach a port on loopback;
    where they must not look, use --listen unix:PATH or --token-file FILE. An agent serves the same page at / of its own port.
    """
    from zombiescope.pipeline.opening import open_host  # noqa: PLC0415 (--help does not pay for them)
    from zombiescope.pipeline.page_look import Subject, places  # noqa: PLC0415
    from zombiescope.web.guards import read_token  # noqa: PLC0415
    from zombiescope.web.page import PageServer  # noqa: PLC0415
    from zombiescope.web.site import Site  # noqa: PLC0415
    from zombiescope.web.standing import Standing  # noqa: PLC0415

    where = listen_address(listen)
    if where is None:
        raise UsageError("cannot serve nowhere", "--listen is empty", "--listen 127.0.0.1:0 takes any free port")
    token = read_token(token_file) if token_file else ""
    host = open_host(root)
    default = os.fsencode(DEFAULT_STATE) if root is None else None
    found = places(root, None if state is None else os.fsencode(state), captures and os.fsencode(captures), default)
    subject = Subject(host, root, thresholds_for(config, is_live=host.is_live), found.state, seconds, found.captures)
    server = PageServer(where, lambda selector: Site(Standing(subject, selector)), token=token)
    click.echo(server.address)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):  # how it is meant to end
        server.serve()
    return None
