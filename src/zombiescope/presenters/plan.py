# SPDX-License-Identifier: Apache-2.0
"""What could be done, step by step: `zombiescope.plan/1` (`render_plan` is also the `plan` of `zombiescope.doctor/1`), the same for
a person, and the commands to copy, each word quoted for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, shown, zombies_said
from zombiescope.presenters.document import Dated, Json, document, one_per_field
from zombiescope.presenters.figures import size
from zombiescope.presenters.layout import Block, Command, Prose, again, unknown_block
from zombiescope.remedies.plan import (
    Change,
    Expected,
    NamedFile,
    PlaceFile,
    Plan,
    Risk,
    Step,
    Undo,
    details,
    few_names,
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
    options = [("maker", asked.maker), ("below", asked.below), ("zombie", zombie), ("root", asked.root)]
    options += [("consent", name) for name in consents]
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
    expected = None if step.expected is None else _expected(step.expected)
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


def _expected(expected: Expected) -> Json:
    return {
        "zombies_freed": expected.zombies_freed,
        "bytes_freed": expected.bytes_freed,
        "up_to": expected.up_to,
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


_STYLES = {Risk.LOW: "green", Risk.MEDIUM: "yellow", Risk.HIGH: "bold red"}
_UNDO = {
    Undo.EXACT: "can be undone exactly",
    Undo.RESTART: "undone by starting it again",
    Undo.NONE: "cannot be undone",
}
_BESIDE = 13


def render_plan_text(plan: Plan, gaps: Iterable[Gap], asked: Asked = HERE, before: str = "") -> list[RenderableType]:
    """`before`: what the first line begins with."""
    first = f"{before}{headline(plan)}"
    parts: list[RenderableType] = [Prose(first, "bold"), *render_steps(plan)]
    apart = [Prose(line) for line in apart_lines(plan)]
    parts += [Text(), *apart] if apart else []
    return [*parts, *unknown_block(one_per_field(gaps)), Text(), *_last_words(plan, asked)]


def headline(plan: Plan) -> str:
    if not plan.steps and plan.zombies is None:
        return "nothing can be proposed: no zombie could be looked at"
    if not plan.steps:
        about = f" with {zombies_said(plan.zombies)}" if plan.zombies else ""
        return f"nothing to propose{about}"
    people = len(plan.steps) - len(plan.own_steps)
    if not plan.own_steps:
        return f"{counted(people, 'step')} to do by hand, and nothing for apply to do"
    tail = f"; {people} more to do by hand" if people else ""
    return f"{counted(len(plan.own_steps), 'step')}{_freed(plan)}{tail}"


def _freed(plan: Plan) -> str:
    if not plan.zombies:
        return ""
    free = "which frees" if len(plan.own_steps) == 1 else "which free"
    if plan.perhaps and not plan.foreseen:
        return f", {free} at most {plan.perhaps:,} of {zombies_said(plan.zombies)}"
    more = f" and at most {plan.perhaps:,} more" if plan.perhaps else ""
    return f", {free} {plan.foreseen:,} of {zombies_said(plan.zombies)}{more}"


def apart_lines(plan: Plan) -> list[str]:
    """Steps that the line to paste leaves out, each with the reason and what allows it."""
    if not plan.set_apart:
        return []
    lines = [
        f"  {step.title}: {_why_apart(plan, step)}; to allow it, add --consent {shlex.quote(step.name)}"
        for step in plan.set_apart
    ]
    return ["not in the last line; decide on each by itself:", *lines]


def _why_apart(plan: Plan, step: Step) -> str:
    gain = ""
    if step.expected is not None and plan.zombies is not None:
        gain = f"frees at most {step.expected.up_to:,} of {zombies_said(plan.zombies)}"
    whole = "slows down the whole host" if step.touches_whole_host else ""
    return " and ".join(each for each in (gain, whole) if each)


def _last_words(plan: Plan, asked: Asked) -> list[RenderableType]:
    """What to type next."""
    if not plan.own_steps and plan.zombies is None and not asked.is_root:
        return [Command("to see what can be done", "sudo zombiescope plan")]
    if not plan.own_steps:
        return [Command("to look closer", again("doctor", asked.recording or asked.root))]
    if not plan.consents and all(step.needs_consent for step in plan.own_steps):
        every = next_command((), asked)
        return [
            Command(
                f"to do one of them all the same{every.why.removeprefix('to do it')}", f"{every.command} --consent NAME"
            )
        ]
    told = [Prose("each --consent allows one step that needs it", "dim")] if plan.consents else []
    return [*told, next_command(plan.consents, asked)]


def next_command(consents: Sequence[str], asked: Asked) -> Command:
    """Does what was planned, and no more."""
    where = ", on the host that was recorded" if asked.is_elsewhere else ""
    return Command(f"to do it{where}", apply_command(consents, asked, really=True))


def render_steps(plan: Plan) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for step in plan.steps:
        parts += [Text(), _title(step)]
        parts += [_beside(label, text) for label, text in _lines(step)]
    return parts


def consent_lines(step: Step) -> list[str]:
    """What a person is asked to agree to: how many, an example, what it frees, what it risks."""
    rows = [("why", step.why), *details(step.change)]
    if step.expected is not None:
        rows.append(("frees", _frees(step)))
    return [f"{step.title} (risk {step.risk}, {_UNDO[step.undo]})", *(f"    {label:<9}{text}" for label, text in rows)]


def _title(step: Step) -> Block:
    line = Text(step.title, style="bold")
    if step.is_for_people:
        line.append("   you do this by hand", style="not bold dim")
    else:
        line.append("   risk ", style="not bold").append(step.risk, style=_STYLES[step.risk])
        line.append(f", {_UNDO[step.undo]}", style="not bold")
    return Block(f"{step.n:>2}.", [line], width=4)


def _lines(step: Step) -> Iterable[tuple[str, str]]:
    yield "why", step.why
    yield from details(step.change)
    if step.expected is not None:
        yield "frees", _frees(step)
    if step.instead_of:
        yield "instead", f"of {few_names(step.instead_of)}, which is not needed then"
    if step.needs_consent:
        yield "consent", f"--consent {shlex.quote(step.name)}"
    yield "check", step.check


def _frees(step: Step) -> str:
    expected = step.expected
    assert expected is not None
    if expected.zombies_freed is None:
        return f"at most {zombies_said(expected.up_to)}; {expected.why_unknown}"
    beside = f"; {expected.why_unknown}" if expected.why_unknown else ""
    if not expected.up_to:
        return f"none by itself: something else holds the same zombies{beside}"
    much = f", {size(expected.bytes_freed)}" if expected.bytes_freed != 0 else ""
    return f"{zombies_said(expected.zombies_freed)}{much}{beside}"


def _beside(label: str, text: str) -> Block:
    return Block(f"    {label}", [text], style="dim", width=_BESIDE)
