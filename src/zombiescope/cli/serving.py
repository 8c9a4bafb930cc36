# SPDX-License-Identifier: Apache-2.0
"""A page until Ctrl-C: the address it is told, its token, and how it ends."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from selectors import BaseSelector
from typing import TYPE_CHECKING

import click

from zombiescope import web
from zombiescope.cli.progress import tell
from zombiescope.config import listen_address
from zombiescope.errors import UsageError

if TYPE_CHECKING:
    from zombiescope.web.site import PageLooks


def serve_page(
    listen: str, token_file: str | None, open_site: Callable[[BaseSelector], PageLooks], next_step: str
) -> None:
    """Prints where it is, serves it, and says in the end what to type next."""
    where = listen_address(listen)
    if where is None:
        raise UsageError("cannot serve nowhere", "--listen is empty", "--listen 127.0.0.1:0 takes any free port")
    token = web.guards.read_token(token_file) if token_file else ""
    server = web.site.PageServer(where, open_site, token=token)
    click.echo(server.address)
    tell("open it in a browser; Ctrl-C ends it", only_watched=True)
    with until_ended():
        server.serve()
    tell(f"\nended; {next_step}", only_watched=True)


@contextlib.contextmanager
def until_ended() -> Iterator[None]:
    """Ctrl-C and SIGTERM are how a page is meant to end; what was unpacked for it goes with it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        yield
