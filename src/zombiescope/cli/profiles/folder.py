# SPDX-License-Identifier: Apache-2.0
"""Where captures are stored: the option of every profile command, also of the one that works without numpy."""

from __future__ import annotations

import click

captures_option = click.option(
    "--captures",
    type=click.Path(path_type=bytes),
    default="/var/lib/zombiescope/captures",
    show_default=True,
    envvar="ZOMBIESCOPE_CAPTURES",
    metavar="DIR",
    help="Where captures are stored.",
)
