# SPDX-License-Identifier: Apache-2.0
"""`zombiescope apply`: do what the plan says. A dry run unless --yes."""

import sys

import click

from zombiescope.cli.command import (
    THEN,
    WATCHING,
    Answer,
    JsonAnswer,
    TextAnswer,
    asked_of,
    examples,
    json_option,
    root_option,
    scope_of,
    scope_options,
    state_option,
    tell_unfinished,
    window_option,
)
from zombiescope.cli.progress import Stage, folded, stage_shown, tell, window_shown
from zombiescope.errors import EXIT_FINE, ActionFailedError, UsageError
from zombiescope.execution.journal import FILE, restore_line, undo_line, verify_line
from zombiescope.execution.surprise import Attention, InterruptedActionError
from zombiescope.facts.names import shown
from zombiescope.pipeline import act
from zombiescope.pipeline.act import Applied, Order, rehearse
from zombiescope.pipeline.verify import Asked, verify
from zombiescope.presenters.plan_text import consent_lines, render_plan_text
from zombiescope.presenters.receipt_text import (
    render_done_line,
    render_dry_run,
    render_receipt,
    render_receipt_text,
    render_verify_text,
    verify_body,
)
from zombiescope.remedies.plan import Step
from zombiescope.remedies.receipts import Verified


@click.command(
    epilog=examples(
        "zombiescope apply                                   a dry run: what would be done",
        "zombiescope apply --yes                             steps that need no consent",
        "zombiescope apply --yes --consent stop:ecs.service  and this one",
        "zombiescope apply --yes --maker 'unit:ecs*' --window 60",
        "zombiescope apply --yes --root /mnt/image           in an image before it boots",
    )
)
@scope_options
@click.option("--yes", is_flag=True, help="Make the changes; see --before. Without it: a dry run.")
@click.option(
    "--consent", "consents", multiple=True, metavar="NAME", help="Allow one step that needs consent, by name."
)
@click.option("--again", is_flag=True, help="Also do what was done three times within a day and did not hold.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=86400),
    default=5.0,
    show_default=True,
    help="How many seconds to watch services first.",
)
@window_option
@click.option(
    "--before",
    type=click.FloatRange(min=1, max=86400),
    metavar="SECONDS",
    help="How long to watch before anything is changed, where no agent keeps a history; as long as --window without it.",
)
@state_option
@json_option
@root_option
def apply(
    *,
    maker: str | None,
    below: str | None,
    zombie: int | None,
    yes: bool,
    consents: tuple[str, ...],
    again: bool,
    seconds: float,
    window: float,
    before: float | None,
    state: bytes,
    as_json: bool,
    root: bytes | None,
) -> Answer:
    """Stop what makes zombies, free what it left, and check that it holds.

    Without --yes nothing is changed. Every change is in a journal before it is made; it stops at the first surprise and puts
    everything back, as it does on SIGINT, SIGTERM and SIGHUP. Exit code 0; 4: it failed and everything was put back; 5: it
    failed and something was not.
    """
    scope = scope_of(maker, below, zombie)
    order = Order(shown(state), root, scope, seconds, frozenset(consents), again, window if before is None else before)
    return _do(order, window, as_json=as_json) if yes else _dry_run(order, as_json=as_json)


def _dry_run(order: Order, *, as_json: bool) -> Answer:
    if order.root is None:
        tell_unfinished(order.state)
    with window_shown(order.seconds if order.root is None else 0, WATCHING, THEN) as progress:
        planned = rehearse(order, progress)
    if as_json:
        return JsonAnswer(render_dry_run(planned.plan, planned, planned.gaps))
    asked, before = asked_of(order.scope, order.root), "dry run, nothing was changed: "
    return TextAnswer(render_plan_text(planned.plan, planned.gaps, asked, before))


def _do(order: Order, window: float, *, as_json: bool) -> Answer:
    if order.root is not None and not act.is_folder(order.root):
        raise UsageError(
            "cannot apply there",
            "only this host and the root folder of an image can be changed",
            "leave --root out, on the host itself",
        )
    with Attention() as attention:
        with stage_shown() as stage:
            applied = act.apply(order, act.Talk(lambda step: _ask(step, stage), stage, attention, stage.aside))
        if window <= 0 or order.root is not None:
            return _answer(applied, None, EXIT_FINE, as_json=as_json)
        _say_done(applied, f"watching for {window:g} s whether it holds")
        try:
            with window_shown(window, "watching whether it holds") as progress, attention.at_ease():
                verified = verify(Asked(order.state, applied.action, window), progress)
        except InterruptedActionError as interruption:
            _say_done(applied, f"{interruption.what}: whether it holds is not known, and nothing was put back")
            return _answer(applied, None, ActionFailedError.exit_code, as_json=as_json)
    exit_code = ActionFailedError.exit_code if verified.outcome.verdict == "not-held" else EXIT_FINE
    return _answer(applied, verified, exit_code, as_json=as_json)


def _say_done(applied: Applied, then: str) -> None:
    """Before the window, and again when that is cut short: what stands, and how to take it back."""
    tell(f"{render_done_line(applied.receipts)}: action {applied.action}, journal {applied.folder}/{FILE}")
    tell(f"to take it back: {undo_line(applied.folder)}")
    tell(then)


def _ask(step: Step, stage: Stage) -> bool:
    """A person at a terminal is asked; a program must have said so before. A terminal that went away is no consent."""
    if sys.stdin is None or sys.stderr is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    try:
        with stage.silent():
            return click.confirm(folded("\n".join([*consent_lines(step), "Do it?"])), default=False, err=True)
    except (click.Abort, OSError):
        return False


def _answer(applied: Applied, verified: Verified | None, exit_code: int, *, as_json: bool) -> Answer:
    if as_json:
        held = verified and verify_body(verified)
        plan, planned = applied.planned.plan, applied.planned
        return JsonAnswer(render_receipt(applied, plan, planned, planned.gaps, held), exit_code)
    lines = undo_line(applied.folder), restore_line(applied.folder)
    parts = render_receipt_text(applied.action, applied.receipts, lines[0], applied.kept, lines[1])
    if verified:
        parts += ["", *render_verify_text(verified, (lines[0], verify_line(applied.folder)))]
    return TextAnswer(parts, exit_code)
