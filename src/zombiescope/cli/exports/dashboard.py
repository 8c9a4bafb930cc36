# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export dashboard`: a dashboard for Grafana."""

from __future__ import annotations

import click

from zombiescope.cli.answer import Answer, JsonAnswer
from zombiescope.presenters.grafana_dashboard import render_dashboard


@click.command()
def dashboard() -> Answer:
    """A Grafana dashboard (JSON) over the agent's metrics: import it and choose a Prometheus."""
    return JsonAnswer(render_dashboard())
