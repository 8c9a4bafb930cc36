# SPDX-License-Identifier: Apache-2.0
"""A plan for a person: what it frees, each step with its reason, cost and check, and the line to paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.text import Text

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, zombies_said
from zombiescope.presenters.document import one_per_field
from zombiescope.presenters.figures import size
from zombiescope.presenters.layout import Block, Command, Prose, again, unknown_block
from zombiescope.presenters.plan_json import HERE, Asked, apply_command
from zombiescope.remedies.plan import (
    Plan,
    Risk,
    Step,
    Undo,
    details,
    few_names,
)

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
        parts += [Block(f"    {label}", [text], style="dim", width=_BESIDE) for label, text in _lines(step)]
    return parts


def consent_lines(step: Step) -> list[str]:
    """What a person is asked to agree to: how many, an example, what it frees, what it risks."""
    rows = [("why", step.why), *details(step.change), *([("frees", _frees(step))] if step.expected is not None else [])]
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
    if not expected.up_to:
        return f"none by itself: {expected.why_unknown or 'something else holds the same zombies'}"
    beside = f"; {expected.why_unknown}" if expected.why_unknown else ""
    much = f", {size(expected.bytes_freed)}" if expected.bytes_freed != 0 else ""
    return f"{zombies_said(expected.zombies_freed)}{much}{beside}"
