# SPDX-License-Identifier: Apache-2.0
"""Options that `plan` and `apply` share: which zombies they are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from zombiescope.facts.names import unshown
from zombiescope.pipeline.plan import Scope


def scope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option(
        "--below", metavar="PATH", help="Only zombies whose nearest live parent is this cgroup or lies below it."
    )(command)
    return click.option("--maker", metavar="GLOB", help="Only zombies of makers that match, such as 'unit:ecs*'.")(
        command
    )


def scope_of(maker: str | None, below: str | None) -> Scope:
    return Scope(maker, None if below is None else unshown(below))


state_option = click.option(
    "--state",
    type=click.Path(path_type=bytes, readable=False),
    default=b"/var/lib/zombiescope",
    show_default="/var/lib/zombiescope",
    metavar="DIR",
    help="Where journals of actions are kept.",
)
window_option = click.option(
    "--window",
    type=click.FloatRange(min=0, max=86400),
    default=600.0,
    show_default=True,
    help="How many seconds to watch afterwards.",
)
