# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export`: files for others to use."""

from __future__ import annotations

import click

from zombiescope.cli.exports.shipped import (
    audit_schedule,
    dashboard,
    fleet_dashboard,
    fleet_rules,
    kubelet,
    npd,
    policy,
    profile_unit,
    reap_unit,
    rules,
    sh,
    slice_,
    stop_hook,
    stream_aggregation,
    unit,
)
from zombiescope.cli.options import Listed

EPILOG = """\b
Examples:
  zombiescope export rules > /etc/prometheus/rules/zombiescope.yml
  zombiescope export dashboard > zombiescope.json
  zombiescope export fleet-rules --by zone --by image > /etc/prometheus/rules/zombiescope-fleet.yml
  zombiescope export unit > /etc/systemd/system/zombiescope.service
  zombiescope export profile-unit > /etc/systemd/system/zombiescope-profile.service
  zombiescope export policy --image disk.raw > AGENTS.md
  zombiescope export npd > /etc/node-problem-detector/zombiescope.json
  zombiescope export sh | ssh node sh
  zombiescope export stop-hook --unit ecs.service
  zombiescope export audit-schedule --for github > .github/workflows/zombiescope-audit.yml
"""


@click.group(cls=Listed, epilog=EPILOG)
def export() -> None:
    """Print a file to use elsewhere: alert rules, a dashboard, units, drop-ins, a policy, a plugin, a kubelet fragment, scripts."""


for kind in (
    rules,
    dashboard,
    fleet_rules,
    fleet_dashboard,
    stream_aggregation,
    unit,
    policy,
    npd,
    kubelet,
    sh,
    slice_,
    stop_hook,
    reap_unit,
    profile_unit,
    audit_schedule,
):
    export.add_command(kind)
