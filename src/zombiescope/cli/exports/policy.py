# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export policy`: the agents' life-cycle policy of a host or an image."""

from __future__ import annotations

import click

from zombiescope.cli.answer import Answer, PlainAnswer
from zombiescope.cli.options import root_option
from zombiescope.cli.progress import bytes_shown
from zombiescope.pipeline import audit as auditing
from zombiescope.watching.services import ServicesWindow


@click.command()
@click.option("--image", type=click.Path(path_type=bytes), metavar="FILE", help="Of an image instead of this host.")
@click.option(
    "--knowledge", type=click.Path(path_type=bytes), metavar="FILE", help="More agents, or an allow list (TOML)."
)
@root_option
def policy(*, image: bytes | None, knowledge: bytes | None, root: bytes | None) -> Answer:
    """An agent life-cycle policy in Markdown: what runs, why, whose it is, when to look again."""
    from zombiescope.presenters.policy_markdown import render_policy  # noqa: PLC0415 (only when it is drawn)

    base = auditing.read_knowledge(knowledge)
    with bytes_shown("reading", shown=image is not None) as reading:
        found = auditing.audit(auditing.Target(root, image), base, ServicesWindow(0, with_zombies=False), reading)
    return PlainAnswer(render_policy(found.audit, found.services.schedules, found.source, auditing.now()))
