# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export unit`: a hardened systemd unit for the agent."""

from __future__ import annotations

import click

from zombiescope.cli.answer import Answer, PlainAnswer
from zombiescope.presenters.systemd_unit import render_unit


@click.command()
@click.option(
    "--program", default="/usr/local/bin/zombiescope", show_default=True, metavar="FILE", help="What to start."
)
def unit(*, program: str) -> Answer:
    """A systemd unit for the agent: few capabilities, limits on itself, a watchdog, and a start limit that trips."""
    return PlainAnswer(render_unit(program).rstrip("\n"))
