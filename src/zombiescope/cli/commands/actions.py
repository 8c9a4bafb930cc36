# SPDX-License-Identifier: Apache-2.0
"""`zombiescope actions`: what was applied here, and what can be undone. Reads only."""

from __future__ import annotations

import click

from zombiescope import pipeline, presenters
from zombiescope.cli.command import Answer, JsonAnswer, TextAnswer, examples, json_option, state_option
from zombiescope.facts.names import shown


@click.command(
    epilog=examples(
        "zombiescope actions",
        "zombiescope actions --limit 0           all of them",
        "zombiescope actions --json | jq '.actions[] | {id, undo}'",
    )
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="How many to list, newest first; 0 lists all.",
)
@state_option
@json_option
def actions(*, limit: int, state: bytes, as_json: bool) -> Answer:
    """List what was applied on this host, newest first: when, which steps, and whether it can be undone.

    Reads the journals in the state folder and nothing else. Exit code 0, or 3 when they cannot be read.
    """

    found = pipeline.past_actions.past_actions(shown(state), limit)
    if as_json:
        return JsonAnswer(presenters.actions.render_actions(found.state, found.total, found.actions, found))

    return TextAnswer(presenters.actions.render_actions_text(found.state, found.total, found.actions))
