# SPDX-License-Identifier: Apache-2.0
"""`zombiescope serve`: the page about this host without an agent, or about a recording."""

from __future__ import annotations

import os

import click

from zombiescope import pipeline, web
from zombiescope.cli import profiles
from zombiescope.cli.command import Answer, config_option, examples, listen_option, root_option
from zombiescope.cli.serving import serve_page, until_ended
from zombiescope.config import DEFAULT_STATE, thresholds_for


@click.command(
    epilog=examples(
        "zombiescope serve                            this host, on http://127.0.0.1:8097/",
        "zombiescope serve --root node.tar.gz         what was recorded elsewhere, with its history and captures",
        "zombiescope serve --listen unix:/run/user/0/zombiescope.sock     no other user of this machine may look",
    )
)
@listen_option(8097)
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
    host = pipeline.opening.open_host(root)
    said = pipeline.carrying.Places(*(None if each is None else os.fsencode(each) for each in (state, captures)))
    limits = thresholds_for(config, is_live=host.is_live)
    opened_places = pipeline.carrying.opened_places
    with (
        until_ended(),
        opened_places(root, said, os.fsencode(DEFAULT_STATE), profiles.carrying.lay_down_captures) as found,
    ):
        subject = pipeline.page_look.Subject(host, root, limits, found.state, seconds, found.captures)
        keep_on = "to keep watching, and remember: zombiescope agent"
        serve_page(
            listen, token_file, lambda selector: web.site.Site(web.standing.Standing(subject, selector)), keep_on
        )
    return None
