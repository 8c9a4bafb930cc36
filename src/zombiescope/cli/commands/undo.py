# SPDX-License-Identifier: Apache-2.0
"""`zombiescope undo`: take back what an apply changed. A dry run unless --yes."""

import click

from zombiescope.cli.command import Answer, JsonAnswer, TextAnswer, examples, json_option, state_option
from zombiescope.errors import EXIT_FINE, ActionFailedError
from zombiescope.execution.surprise import Attention
from zombiescope.execution.undo import cannot_be_undone, describe
from zombiescope.facts.names import shown
from zombiescope.pipeline import act, past_actions
from zombiescope.presenters.receipt_text import render_undo, render_undo_dry_run, render_undo_text


@click.command(
    epilog=examples(
        "zombiescope undo                 what would be taken back of the last apply",
        "zombiescope undo --yes           take it back",
        "zombiescope undo --restore --yes put deleted files back, too, as far as copies were kept",
        "zombiescope undo 20261116T010203-a1b2c3 --yes",
    )
)
@click.argument("action", required=False)
@click.option("--yes", is_flag=True, help="Make the changes. Without it: a dry run.")
@click.option("--restore", is_flag=True, help="Also restore deleted files of which a copy was kept.")
@state_option
@json_option
def undo(*, action: str | None, yes: bool, restore: bool, state: bytes, as_json: bool) -> Answer:
    """Undo what an apply changed, newest first, from its journal alone; this also works after that apply was killed.

    What is declared *exact* comes back byte for byte; a stopped unit is started again. Deleted files come back with --restore, as
    far as copies were kept (files of up to 64 KiB); what has no copy is listed. `zombiescope actions` lists what was applied. Exit
    code 0, or 5 when something could not be put back.
    """
    with Attention() as attention:
        done = past_actions.undo(shown(state), action, do=yes, restore=restore, attention=attention)
    todo = [describe(entry) for entry in done.todo]
    exit_code = ActionFailedError.exit_code if done.lost else EXIT_FINE
    if as_json:
        taken = [{"what": each.what, "outcome": each.outcome, "why": each.why} for each in done.taken]
        return JsonAnswer(render_undo(done.action, taken, todo, done.kept, act.now(), dry_run=not yes), exit_code)
    if not yes:
        lost = [describe(entry) for entry in done.todo if cannot_be_undone(entry)]
        undone = [describe(entry) for entry in done.todo if not cannot_be_undone(entry)]
        lines = (done.restore, done.again)
        return TextAnswer(render_undo_dry_run(done.action, undone, lost, done.kept, lines, also_files=restore))
    return TextAnswer(render_undo_text(done.action, done.taken, done.kept, done.restore), exit_code)
