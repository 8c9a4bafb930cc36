# SPDX-License-Identifier: Apache-2.0
"""`zombiescope verify`: did what was applied hold?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import json_option
from zombiescope.cli.planning import state_option, window_option
from zombiescope.cli.progress import window_shown
from zombiescope.errors import EXIT_FINDINGS, EXIT_FINE, ObservationError
from zombiescope.facts.names import shown

if TYPE_CHECKING:
    from zombiescope.pipeline.act import Verified

EPILOG = """\b
Examples:
  zombiescope verify                  the last apply, for ten minutes
  zombiescope verify --window 60
"""


@click.command(epilog=EPILOG)
@click.argument("action", required=False)
@window_option
@state_option
@json_option
def verify(*, action: str | None, window: float, state: bytes, as_json: bool) -> Answer:
    """Watch for a while and compare with before: the plan's zombies and their growth, restarts, sweep, cores, throttling.

    Reads only. The verdict is held, not-held or inconclusive. Exit code 0; 1: not-held; 3: nothing could be compared.
    """
    from zombiescope.pipeline import act  # noqa: PLC0415 (--help does not pay for it)

    with window_shown(window, "watching whether it holds") as progress:
        seen = act.verify(shown(state), action, window, progress)
    exit_code = _exit_code(seen)
    if as_json:
        from zombiescope.presenters.receipt_json import render_verify  # noqa: PLC0415

        return JsonAnswer(render_verify(seen.action, seen.outcome, seen.before, seen.after, seen), exit_code)
    from zombiescope.execution.journal import undo_line, verify_line  # noqa: PLC0415
    from zombiescope.presenters.receipt_text import render_verify_text  # noqa: PLC0415

    folder = f"{shown(state)}/actions/{seen.action}"
    lines = undo_line(folder), verify_line(folder)
    return TextAnswer(render_verify_text(seen.action, seen.outcome, seen.before, seen.after, lines), exit_code)


def _exit_code(seen: Verified) -> int:
    if seen.outcome.verdict == "not-held":
        return EXIT_FINDINGS
    return ObservationError.exit_code if seen.after.ours is None else EXIT_FINE
