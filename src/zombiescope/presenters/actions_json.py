# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.actions/1`: what was applied on this host, and what `undo` would do with each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zombiescope.facts.gap import Gap
from zombiescope.presenters.document import Dated, Json, document, null_fields, rfc3339
from zombiescope.presenters.receipt_text import Kept

_REASONS = {
    "actions[].begun_at": "its journal has no beginning, or cannot be read",
    "actions[].ended_at": "it has not ended, or was cut short",
    "actions[].zombies_freed": "no step of it could be counted",
    "actions[].verify": "nobody has checked whether it held, or no check could be kept",
    "actions[].steps[].zombies_freed": "the step frees no zombie by itself, was not done, or the zombies could not be counted",
}


_UNMEASURED = "it could not be measured when it was checked"


class PastStep(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def freed(self) -> int | None: ...
    @property
    def note(self) -> str: ...


class PastAction(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def begun_at(self) -> float | None: ...
    @property
    def ended_at(self) -> float | None: ...
    @property
    def root(self) -> str: ...
    @property
    def steps(self) -> Sequence[PastStep]: ...
    @property
    def undo(self) -> str: ...
    @property
    def undo_line(self) -> str: ...
    @property
    def kept(self) -> Sequence[Kept]: ...
    @property
    def restore_line(self) -> str: ...
    @property
    def journal(self) -> str: ...
    @property
    def gap(self) -> str: ...
    @property
    def checks(self) -> Sequence[Json]: ...


def render_actions(state: str, total: int, actions: Sequence[PastAction], seen: Dated) -> Json:
    body: Json = {"state": state, "total": total, "actions": [_action(each) for each in actions]}
    unread = [Gap(f"actions: {each.id}", each.gap) for each in actions if each.gap]
    missing = (Gap(field, _REASONS.get(field, _UNMEASURED)) for field in null_fields(body))
    return document("actions/1", seen, body, [*unread, *missing])


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


def _check(check: Json) -> Json:
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
