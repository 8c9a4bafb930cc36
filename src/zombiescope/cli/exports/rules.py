# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export rules`: recording and alert rules for Prometheus."""

from __future__ import annotations

import click

from zombiescope.cli.answer import Answer, PlainAnswer
from zombiescope.cli.options import config_option
from zombiescope.config import thresholds_for
from zombiescope.presenters.prometheus_rules import RUNBOOK, render_rules


@click.command()
@click.option("--runbook", default=RUNBOOK, show_default=True, metavar="URL", help="Page that the alerts link to.")
@config_option
def rules(*, runbook: str, config: str | None) -> Answer:
    """Recording and alert rules for Prometheus: for the agent, and for fleets that have node_exporter and cAdvisor only.

    They compare with the configured thresholds, as the commands do.
    """
    return PlainAnswer(render_rules(runbook, thresholds_for(config, is_live=True)).rstrip("\n"))
