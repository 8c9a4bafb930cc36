# SPDX-License-Identifier: Apache-2.0
"""`zombiescope undo`: take back what an apply changed. A dry run unless --yes."""

from __future__ import annotations

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import json_option
from zombiescope.cli.planning import state_option
from zombiescope.facts.names import shown

EPILOG = """\b
Examples:
  zombiescope undo                 what would be taken back of the last apply
  zombiescope undo --yes           take it back
  zombiescope undo 20261116T010203-a1b2c3 --yes
"""


@click.command(epilog=EPILOG)
@click.argument("action", required=False)
@click.option("--yes", is_flag=True, help="Really do it.")
@state_option
@json_option
def undo(*, action: str | None, yes: bool, state: bytes, as_json: bool) -> Answer:
    """Take back what an apply changed, newest first, from its journal alone; also after that apply was killed.

    What is declared *exact* comes back byte for byte; a stopped unit is started again; what was deleted is listed. Exit code 0, or
    5 when something could not be put back.
    """
    from zombiescope.execution.attention import Attention  # noqa: PLC0415 (--help does not pay for it)
    from zombiescope.execution.undo import describe  # noqa: PLC0415
    from zombiescope.pipeline import act  # noqa: PLC0415

    with Attention() as attention:
        done = act.undo(shown(state), action, do=yes, attention=attention)
    todo = [describe(entry) for entry in done.todo]
    if as_json:
        from zombiescope.presenters.receipt_json import render_undo  # noqa: PLC0415

        taken = [{"what": each.what, "outcome": each.outcome, "why": each.why} for each in done.taken]
        return JsonAnswer(render_undo(done.action, taken, todo, act.now(), dry_run=not yes))
    from rich.text import Text  # noqa: PLC0415

    if not yes:
        head = Text(f"dry run: nothing was changed; of {done.action} would be taken back", style="yellow")
        lines = [f"  {line}" for line in todo] or ["  nothing"]
        return TextAnswer([head, *map(Text, lines), Text(), Text(f"to do it: zombiescope undo {done.action} --yes")])
    head = Text(f"{done.action} was taken back", style="green")
    return TextAnswer([head, *(Text(f"  {each.outcome:<17}{each.what}   {each.why}".rstrip()) for each in done.taken)])
