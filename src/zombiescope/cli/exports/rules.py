# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export rules`: recording and alert rules for Prometheus."""

from __future__ import annotations

import click

from zombiescope.cli.answer import Answer, PlainAnswer
from zombiescope.presenters.prometheus_rules import RUNBOOK, render_rules


@click.command()
@click.option("--runbook", default=RUNBOOK, show_default=True, metavar="URL", help="Page that the alerts link to.")
def rules(*, runbook: str) -> Answer:
    """Recording and alert rules for Prometheus: for the agent, and for fleets that have node_exporter and cAdvisor only."""
    return PlainAnswer(render_rules(runbook).rstrip("\n"))
