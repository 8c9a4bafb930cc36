# SPDX-License-Identifier: Apache-2.0
"""Options that commands share: which zombies a plan is about, where journals are kept, how long to watch, a moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from zombiescope.cli.progress import tell
from zombiescope.facts.names import shown, unshown
from zombiescope.pipeline.plan import Scope

if TYPE_CHECKING:
    from zombiescope.presenters.plan_json import Asked


WATCHING = "watching services and zombies"
THEN = "looking at each zombie, choosing steps"


def scope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option(
        "--zombie", type=click.IntRange(min=0), metavar="ID", help="Only this one, by its id in autopsy or on the page."
    )(command)
    command = click.option(
        "--below", metavar="PATH", help="Only zombies whose nearest live parent is this cgroup or lies below it."
    )(command)
    return click.option("--maker", metavar="GLOB", help="Only zombies of makers that match, such as 'unit:ecs*'.")(
        command
    )


def scope_of(maker: str | None, below: str | None, zombie: int | None = None) -> Scope:
    return Scope(maker, None if below is None else unshown(below), zombie)


def asked_of(scope: Scope, root: bytes | None) -> Asked:
    """What a plan's last line repeats, so that what is done is what was planned."""
    from zombiescope.pipeline.act import is_folder  # noqa: PLC0415 (--help does not pay for it)
    from zombiescope.presenters.plan_json import Asked  # noqa: PLC0415

    below = None if scope.below is None else shown(scope.below)
    if root is None or is_folder(root):
        is_root = os.geteuid() == 0
        return Asked(scope.maker, below, None if root is None else shown(root), zombie=scope.zombie, is_root=is_root)
    return Asked(scope.maker, below, is_elsewhere=True, zombie=scope.zombie, recording=shown(root))


def tell_unfinished(state: bytes | str | None = None) -> None:
    """On standard error, of this host alone."""
    from zombiescope.pipeline.act import unfinished  # noqa: PLC0415

    folder = shown(state) if isinstance(state, bytes) else state
    for undo in unfinished(folder or "/var/lib/zombiescope"):
        tell(f"an earlier apply ended in the middle; to put back what it had changed: {undo}")


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
