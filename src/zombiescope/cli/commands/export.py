# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export`: files for others to use."""

from __future__ import annotations

import click

from zombiescope.cli.exports.dashboard import dashboard
from zombiescope.cli.exports.rules import rules
from zombiescope.cli.exports.unit import unit

EPILOG = """\b
Examples:
  zombiescope export rules > /etc/prometheus/rules/zombiescope.yml
  zombiescope export dashboard > zombiescope.json
  zombiescope export unit > /etc/systemd/system/zombiescope.service
"""


@click.group(epilog=EPILOG)
def export() -> None:
    """Print a file for others to use: rules, a dashboard, a unit."""


for kind in (rules, dashboard, unit):
    export.add_command(kind)
