# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export slice|stop-hook|reap-unit`: systemd files that keep zombies away, or away from others."""

from __future__ import annotations

import re

import click

from zombiescope.cli.answer import Answer, PlainAnswer
from zombiescope.errors import UsageError
from zombiescope.presenters.systemd_unit import render_reaper_unit
from zombiescope.presenters.unit_prevention import render_slice, render_stop_hook

_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,247}\.service")
unit_option = click.option("--unit", required=True, metavar="NAME", help="The unit that churns: `NAME.service`.")


@click.command("slice")
@unit_option
def slice_(*, unit: str) -> Answer:
    """A slice of its own for a churning unit: its zombies no longer lie below everybody's parent."""
    return PlainAnswer(render_slice(_checked(unit)).rstrip("\n"))


@click.command("stop-hook")
@unit_option
@click.option("--sync", is_flag=True, help="Write dirty files first. It writes those of the whole machine.")
def stop_hook(*, unit: str, sync: bool) -> Answer:
    """A drop-in that lets a unit's page cache go just before its cgroup is removed."""
    return PlainAnswer(render_stop_hook(_checked(unit), sync=sync).rstrip("\n"))


@click.command("reap-unit")
@click.option(
    "--program", default="/usr/local/bin/zombiescope", show_default=True, metavar="FILE", help="What to start."
)
def reap_unit(*, program: str) -> Answer:
    """A systemd unit for `zombiescope reap --watch`; off until somebody enables it."""
    return PlainAnswer(render_reaper_unit(program).rstrip("\n"))


def _checked(unit: str) -> str:
    if not _UNIT.fullmatch(unit):
        raise UsageError(
            f"cannot write a drop-in for {unit!r}", "it is not the name of a service", "--unit ecs.service"
        )
    return unit
