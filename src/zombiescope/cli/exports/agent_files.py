# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export`: rules, dashboards and units for the agent, for one node and for fleets."""

from __future__ import annotations

import re

import click

from zombiescope.cli.answer import Answer, JsonAnswer, PlainAnswer
from zombiescope.cli.options import config_option, examples
from zombiescope.config import thresholds_for
from zombiescope.errors import UsageError
from zombiescope.presenters.fleet_rules import (
    USUAL_LABELS,
    render_fleet_dashboard,
    render_fleet_rules,
    render_stream_aggregation,
)
from zombiescope.presenters.grafana_dashboard import render_dashboard
from zombiescope.presenters.prometheus_rules import RUNBOOK, render_rules
from zombiescope.presenters.systemd_unit import render_recorder_unit, render_unit


@click.command(epilog=examples("zombiescope export dashboard > zombiescope.json"))
def dashboard() -> Answer:
    """A Grafana dashboard (JSON) over the agent's metrics: import it and choose a Prometheus."""
    return JsonAnswer(render_dashboard())


@click.command(epilog=examples("zombiescope export rules > /etc/prometheus/rules/zombiescope.yml"))
@click.option("--runbook", default=RUNBOOK, show_default=True, metavar="URL", help="Page that the alerts link to.")
@config_option
def rules(*, runbook: str, config: str | None) -> Answer:
    """Recording and alert rules for Prometheus: for the agent, and for fleets that have node_exporter and cAdvisor only.

    They compare with the configured thresholds, as the commands do.
    """
    return PlainAnswer(render_rules(runbook, thresholds_for(config, is_live=True)).rstrip("\n"))


by_option = click.option(
    "--by",
    "labels",
    multiple=True,
    metavar="LABEL",
    help=f"Compare nodes by this label; as often as you like. Without it: {', '.join(USUAL_LABELS)}.",
)


@click.command(
    "fleet-rules", epilog=examples("zombiescope export fleet-rules > /etc/prometheus/rules/zombiescope-fleet.yml")
)
@by_option
@click.option("--runbook", default=RUNBOOK, show_default=True, metavar="URL", help="Page that the alerts link to.")
@config_option
def fleet_rules(*, labels: tuple[str, ...], runbook: str, config: str | None) -> Answer:
    """Recording and alert rules for fleets: the share of nodes that grow, and cohorts that stand out."""
    return PlainAnswer(render_fleet_rules(labels, runbook, thresholds_for(config, is_live=True)).rstrip("\n"))


@click.command("fleet-dashboard", epilog=examples("zombiescope export fleet-dashboard > zombiescope-fleet.json"))
@by_option
def fleet_dashboard(*, labels: tuple[str, ...]) -> Answer:
    """A Grafana dashboard (JSON) over what `export fleet-rules` records, with the same labels."""
    return JsonAnswer(render_fleet_dashboard(labels))


@click.command("stream-aggregation", epilog=examples("zombiescope export stream-aggregation > aggregation.yml"))
@by_option
@click.option("--interval", default="1m", show_default=True, metavar="AGE", help="How often aggregates are sent.")
def stream_aggregation(*, labels: tuple[str, ...], interval: str) -> Answer:
    """Stream aggregation for vmagent: aggregates of many nodes instead of every series of each."""
    if not re.fullmatch(r"[1-9][0-9]{0,4}[smh]", interval):
        raise UsageError("cannot use --interval", f"{interval!r} is not a time such as 30s or 1m", "--interval 1m")
    return PlainAnswer(render_stream_aggregation(labels, interval).rstrip("\n"))


@click.command(epilog=examples("zombiescope export unit > /etc/systemd/system/zombiescope.service"))
@click.option(
    "--program", default="/usr/local/bin/zombiescope", show_default=True, metavar="FILE", help="What to start."
)
def unit(*, program: str) -> Answer:
    """A systemd unit for the agent: few capabilities, limits on itself, a watchdog, and a start limit that trips."""
    return PlainAnswer(render_unit(program).rstrip("\n"))


@click.command(
    "profile-unit",
    epilog=examples("zombiescope export profile-unit > /etc/systemd/system/zombiescope-profile.service"),
)
@click.option(
    "--program", default="/usr/local/bin/zombiescope", show_default=True, metavar="FILE", help="What to start."
)
def profile_unit(*, program: str) -> Answer:
    """A systemd unit for `zombiescope profile record --service`; off until you enable it."""
    return PlainAnswer(render_recorder_unit(program).rstrip("\n"))
