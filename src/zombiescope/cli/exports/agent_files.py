# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export dashboard`: a dashboard for Grafana."""

from __future__ import annotations

import click

from zombiescope.cli.answer import Answer, JsonAnswer, PlainAnswer
from zombiescope.cli.options import config_option
from zombiescope.config import thresholds_for
from zombiescope.presenters.grafana_dashboard import render_dashboard
from zombiescope.presenters.prometheus_rules import RUNBOOK, render_rules
from zombiescope.presenters.systemd_unit import render_unit


@click.command()
def dashboard() -> Answer:
    """A Grafana dashboard (JSON) over the agent's metrics: import it and choose a Prometheus."""
    return JsonAnswer(render_dashboard())


@click.command()
@click.option("--runbook", default=RUNBOOK, show_default=True, metavar="URL", help="Page that the alerts link to.")
@config_option
def rules(*, runbook: str, config: str | None) -> Answer:
    """Recording and alert rules for Prometheus: for the agent, and for fleets that have node_exporter and cAdvisor only.

    They compare with the configured thresholds, as the commands do.
    """
    return PlainAnswer(render_rules(runbook, thresholds_for(config, is_live=True)).rstrip("\n"))


@click.command()
@click.option(
    "--program", default="/usr/local/bin/zombiescope", show_default=True, metavar="FILE", help="What to start."
)
def unit(*, program: str) -> Answer:
    """A systemd unit for the agent: few capabilities, limits on itself, a watchdog, and a start limit that trips."""
    return PlainAnswer(render_unit(program).rstrip("\n"))
