# SPDX-License-Identifier: Apache-2.0
"""What was applied on this host, and what `undo` would do with each: `zombiescope.actions/1`, and for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import zombies_said
from zombiescope.presenters.document import Dated, Json, document, null_gaps, rfc3339
from zombiescope.presenters.layout import Block, Command
from zombiescope.remedies.receipts import PastAction, PastStep

_REASONS = {
    "actions[].begun_at": "its journal has no beginning, or cannot be read",
    "actions[].ended_at": "it has not ended, or was cut short",
    "actions[].zombies_freed": "no step of it could be counted",
    "actions[].verify": "nobody has checked whether it held, or no check could be kept",
    "actions[].steps[].zombies_freed": "the step frees no zombie by itself, was not done, or the zombies could not be counted",
}
_UNMEASURED = "it could not be measured when it was checked"


def render_actions(state: str, total: int, actions: Sequence[PastAction], seen: Dated) -> Json:
    body: Json = {"state": state, "total": total, "actions": [_action(each) for each in actions]}
    unread = [Gap(f"actions: {each.id}", each.gap) for each in actions if each.gap]
    return document("actions/1", seen, body, [*unread, *null_gaps(body, (), _REASONS, _UNMEASURED)])


def freed_by(action: PastAction) -> int | None:
    """Zombies that went; None where no step was counted."""
    counted = [step.freed for step in action.steps if step.freed is not None]
    return sum(counted) if counted else None


def _action(action: PastAction) -> Json:
    return {
        "id": action.id,
        "begun_at": None if action.begun_at is None else rfc3339(action.begun_at),
        "ended_at": None if action.ended_at is None else rfc3339(action.ended_at),
        "root": action.root,
        "zombies_freed": freed_by(action),
        "steps": [_step(step) for step in action.steps],
        "undo": str(action.undo),
        "undo_with": action.undo_line,
        "kept": [{"file": each.path, "copy": each.copy} for each in action.kept],
        "restore_with": action.restore_line,
        "verify": _check(action.checks[-1]) if action.checks else None,
        "checks": [
            {"at": rfc3339(each["at"]), "verdict": each["verdict"], "why": each["why"]} for each in action.checks
        ],
        "journal": action.journal,
    }


def _check(check: Mapping[str, Any]) -> Json:
    """The newest, with its rows."""
    return {**{name: value for name, value in check.items() if name != "action"}, "at": rfc3339(check["at"])}


def _step(step: PastStep) -> Json:
    return {
        "name": step.name,
        "title": step.title,
        "status": step.status,
        "zombies_freed": step.freed,
        "note": step.note,
    }


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
        parts += [Text(), *_action_lines(action)]
    return [*parts, Text(), _next(actions, undoable)]


def _action_lines(action: PastAction) -> list[RenderableType]:
    line = Text(action.id, style="bold").append(f"   {_when(action.begun_at)}   {_came(action)}   ", style="")
    line.append(_UNDO[action.undo], style=_STYLES.get(action.undo, "dim"))
    rows: list[RenderableType] = [line, *([Text(f"    in the image {action.root}")] if action.root else [])]
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
    return [
        Block(
            "    verify",
            [Text(word, style=style).append(f", checked {_when(last['at'])}: {last['why']}", style="")],
            style="",
            width=15,
        )
    ]


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
    return Command(
        f"to see whether {first.id} holds", first.undo_line.replace("undo", "verify", 1).replace(" --yes", "", 1)
    )
