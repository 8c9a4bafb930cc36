# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.plan/1`: what could be done, step by step; and the commands to copy, each word quoted for a shell. `render_plan` is
also the `plan` of `zombiescope.doctor/1`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.presenters.document import Dated, Json, document
from zombiescope.remedies.plan import (
    Change,
    NamedFile,
    PlaceFile,
    Plan,
    Step,
    kind_of,
)


class Asked(NamedTuple):
    """How the plan was asked for: what does it must be asked for in the same way."""

    maker: str | None = None
    below: str | None = None
    root: str | None = None
    """The root folder of an image."""
    is_elsewhere: bool = False
    """It was made from a recording: it is to be done on the host that was recorded."""
    zombie: int | None = None
    is_root: bool = True
    recording: str | None = None
    """The one it was made from."""


HERE = Asked()


def apply_command(consents: Iterable[str], asked: Asked = HERE, *, really: bool) -> str:
    """Without `really` it is a dry run."""
    zombie = None if asked.zombie is None else str(asked.zombie)
    options = [
        ("maker", asked.maker),
        ("below", asked.below),
        ("zombie", zombie),
        ("root", asked.root),
        *(("consent", name) for name in consents),
    ]
    given = "".join(f" --{option} {shlex.quote(value)}" for option, value in options if value is not None)
    return f"zombiescope apply{' --yes' if really else ''}{given}"


_NOT_OF_ZOMBIES = Gap(
    "steps[].expected",
    "this step frees no zombie by itself, stands in for a later one, or is done by hand: nothing is predicted",
)
_UNSEEN = Gap(
    "zombies",
    "the zombies could not be seen one by one",
    "run as root; zombiescope autopsy says which view was available and why",
)


def render_plan_document(plan: Plan, seen: Dated, gaps: Iterable[Gap]) -> Json:
    return document("plan/1", seen, render_plan(plan), [*gaps, *plan_gaps(plan)])


def plan_gaps(plan: Plan, prefix: str = "") -> list[Gap]:
    found = []
    if plan.zombies is None:
        found += [_UNSEEN.about(f"{prefix}{name}") for name in ("zombies", "out_of_reach")]
    unknown = [step.expected for step in plan.steps if step.expected and step.expected.zombies_freed is None]
    for expected in unknown[:1]:
        found += [
            Gap(f"{prefix}steps[].expected.{name}", expected.why_unknown) for name in ("zombies_freed", "bytes_freed")
        ]
    if any(step.expected is None or step.instead_of for step in plan.steps):
        found.append(_NOT_OF_ZOMBIES.about(f"{prefix}{_NOT_OF_ZOMBIES.fact}"))
    return found


def render_plan(plan: Plan) -> Json:
    return {
        "id": plan.id,
        "findings": list(plan.findings),
        "zombies": plan.zombies,
        "out_of_reach": plan.out_of_reach,
        "makers": list(plan.makers),
        "steps": [render_step(step) for step in plan.steps],
    }


def render_step(step: Step) -> Json:
    """What is freed is predicted once: a step that stands in for a later one says apart what it frees in its place."""
    known = step.expected
    expected = known and {name: getattr(known, name) for name in ("zombies_freed", "bytes_freed", "up_to")}
    return {
        "n": step.n,
        "name": step.name,
        "recipe": step.recipe,
        "title": step.title,
        "change": render_change(step.change),
        "why": step.why,
        "finding": step.finding,
        "risk": step.risk,
        "undo": step.undo,
        "check": step.check,
        "expected": None if step.instead_of else expected,
        "needs_consent": step.needs_consent,
        "instead_of": list(step.instead_of),
        **({"expected_instead": expected} if step.instead_of else {}),
    }


def render_change(change: Change) -> Json:
    if isinstance(change, PlaceFile):  # a file's content keeps its lines
        return {"kind": "place_file", "path": shown(change.path), "content": change.content.decode("utf-8", "replace")}
    return {"kind": kind_of(change), **{name: _plain(value) for name, value in change._asdict().items()}}


def _plain(value: object) -> object:
    match value:
        case NamedFile(path=path):
            return shown(path)
        case bytes():
            return shown(value)
        case tuple():
            return [_plain(inner) for inner in value]
        case _:
            return value
