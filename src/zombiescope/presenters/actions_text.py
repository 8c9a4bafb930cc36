# SPDX-License-Identifier: Apache-2.0
"""What was applied on this host, for a person: newest first, each with what can be taken back and what to type."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.text import Text

from zombiescope.facts.names import zombies_said
from zombiescope.presenters.actions_json import PastAction, freed_by
from zombiescope.presenters.layout import Block, Command

_UNDO = {
    "at-work": "at work now",
    "in-the-middle": "was cut short: neither finished nor taken back",
    "possible": "can be undone",
    "undone": "was undone",
    "nothing": "nothing to undo",
    "unknown": "its journal cannot be read",
}
_OPEN = ("in-the-middle", "possible")
_STYLES = {"in-the-middle": "bold red", "possible": "green"}


def render_actions_text(state: str, total: int, actions: Sequence[PastAction]) -> list[RenderableType]:
    if not actions:
        return [
            Text(f"nothing was applied: no journal in {state}/actions"),
            Command("to see what can be done", "zombiescope plan"),
        ]
    undoable = [action for action in actions if action.undo in _OPEN]
    shown = f", the newest {len(actions):,} shown" if total > len(actions) else ""
    head = f"{total:,} action{'s' if total != 1 else ''} in {state}{shown}: {len(undoable):,} can be undone"
    parts: list[RenderableType] = [Text(head, style="bold")]
    for action in actions:
        parts += [Text(), *_action(action)]
    return [*parts, Text(), _next(actions, undoable)]


def _action(action: PastAction) -> list[RenderableType]:
    line = Text(action.id, style="bold").append(f"   {_when(action.begun_at)}   {_came(action)}   ", style="")
    line.append(_UNDO[action.undo], style=_STYLES.get(action.undo, "dim"))
    rows: list[RenderableType] = [line]
    if action.root:
        rows.append(Text(f"    in the image {action.root}"))
    done = [step for step in action.steps if step.status != "for-people"]
    rows += [Block(f"    {step.status}", [step.title], style="", width=15) for step in done]
    rows += _checked(action)
    if action.gap:
        rows.append(Text(f"    {action.gap}"))
    if action.kept:
        files = f"{len(action.kept):,} deleted file{'s' if len(action.kept) != 1 else ''}"
        rows.append(Text(f"    copies of {files} are kept"))
        rows.append(Command("    to put them back", action.restore_line))
    return rows


_HELD = {"held": ("held", "green"), "not-held": ("did not hold", "bold red"), "inconclusive": ("cannot tell", "yellow")}


def _checked(action: PastAction) -> list[RenderableType]:
    if not action.checks:
        return []
    last = action.checks[-1]
    word, style = _HELD[last["verdict"]]
    line = Text(word, style=style).append(f", checked {_when(last['at'])}: {last['why']}", style="")
    return [Block("    verify", [line], style="", width=15)]


def _came(action: PastAction) -> str:
    done = sum(step.status == "done" for step in action.steps)
    freed = freed_by(action)
    gone = "" if freed is None else f", {zombies_said(freed)} freed"
    return f"{done} step{'s' if done != 1 else ''} done{gone}"


def _when(moment: float | None) -> str:
    return "at an unknown time" if moment is None else f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"


def _next(actions: Sequence[PastAction], undoable: Sequence[PastAction]) -> Command:
    if undoable:
        return Command(f"to take {undoable[0].id} back", undoable[0].undo_line)
    first = actions[0]
    verify = first.undo_line.replace("undo", "verify", 1).replace(" --yes", "", 1)
    return Command(f"to see whether {first.id} holds", verify)
