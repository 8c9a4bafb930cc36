# SPDX-License-Identifier: Apache-2.0
"""Where captures are stored: the option of every profile command, also of the one that works without numpy."""

from __future__ import annotations

import os

import click

from zombiescope.cli.answer import Next

captures_option = click.option(
    "--captures",
    type=click.Path(path_type=bytes),
    default="/var/lib/zombiescope/captures",
    show_default=True,
    envvar="ZOMBIESCOPE_CAPTURES",
    metavar="DIR",
    help="Where captures are stored.",
)


def next_line(why: str, words: str, captures: bytes, capture: str = "") -> Next:
    """What to type next about a capture, or about all that are stored."""
    from shlex import quote  # noqa: PLC0415 (only for who is told something)

    given = [quote(capture)] if capture else []
    came_from = click.get_current_context().get_parameter_source("captures")
    if came_from is click.core.ParameterSource.COMMANDLINE and not os.path.exists(capture):
        given += ["--captures", quote(os.fsdecode(captures))]
    return Next(why, " ".join(["zombiescope profile", words, *given]))
