# SPDX-License-Identifier: Apache-2.0
"""`zombiescope lab`: makes real zombies in a subtree of its own, says exactly what it made, and removes it again."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.labs.incident import complain, incident, list_command, signals_interrupt
from zombiescope.cli.options import Listed, examples, json_option
from zombiescope.cli.progress import count_shown, window_shown
from zombiescope.errors import EXIT_FINE, ActionFailedError
from zombiescope.facts.names import counted
from zombiescope.lab import runs
from zombiescope.lab.cleaning import Cleaned
from zombiescope.lab.pins.catalogue import KINDS
from zombiescope.lab.runs import LEAKING_PINS, STYLES, LeakOrder, checked_maker
from zombiescope.lab.runs import churn as churn_run
from zombiescope.lab.runs import leak as leak_run
from zombiescope.lab.truth import Truth, stamp, truth_document

if TYPE_CHECKING:
    from rich.console import RenderableType

EPILOG = """\b
Examples:
  zombiescope lab zombies --count 50 --pin tmpfs
  zombiescope lab zombies --count 2000 --pin memfd --hold
  zombiescope lab churn --rate 200 --seconds 10
  zombiescope lab leak --maker crashy-agent --per-minute 60 --seconds 120
  zombiescope lab incident --count 5000
  zombiescope lab incident --vm --count 400
  zombiescope lab list
  zombiescope lab clean
"""
_NOUNS = {"processes": ("process", "processes"), "cgroups": ("cgroup",), "files": ("file",), "segments": ("segment",)}
name_option = click.option("--name", metavar="ID", help="Name of the run; without it one is made up.")


@click.group(cls=Listed, epilog=EPILOG)
def lab() -> None:
    """Make real zombies, to see what they look like and to test against. Needs root.

    Everything is made below the cgroup /zombiescope-lab and in folders of the same name, is announced in a journal first, and
    is removed by `lab clean`, whatever ended the command that made it.
    """


@lab.command(
    epilog=examples(
        "zombiescope lab zombies --count 50 --pin tmpfs", "zombiescope lab zombies --count 2000 --pin memfd --hold"
    )
)
@click.option("--count", type=click.IntRange(1, 1_000_000), default=50, show_default=True, help="How many.")
@click.option("--pin", "kind", type=click.Choice(KINDS), required=True, metavar="KIND", help="What keeps them.")
@click.option("--hold", is_flag=True, help="Keep them until Enter or a signal, then clean.")
@name_option
@json_option
def zombies(*, count: int, kind: str, hold: bool, name: str | None, as_json: bool) -> Answer | None:
    """Make COUNT zombies pinned by KIND and print what was made. They stay until `lab clean`; `lab list` names the kinds."""
    with signals_interrupt():
        run = runs.begin(name)

        def work() -> Truth:
            with count_shown("making zombies", count) as advance:
                return runs.make_zombies(run, kind, count, advance)

        truth = runs.guarded(run, work)
        return _finish(run, truth, as_json=as_json, hold=hold)


@lab.command(epilog=examples("zombiescope lab churn --rate 200 --seconds 10"))
@click.option(
    "--rate", type=click.FloatRange(0.01, 100_000), default=100.0, show_default=True, help="Births per second."
)
@click.option("--seconds", type=click.FloatRange(0.1, 86_400), default=10.0, show_default=True, help="For how long.")
@name_option
@json_option
def churn(*, rate: float, seconds: float, name: str | None, as_json: bool) -> Answer:
    """Births and deaths of cgroups that leave nothing behind."""
    with signals_interrupt():
        run = runs.begin(name)

        def work() -> Truth:
            with window_shown(seconds, "making and removing cgroups") as progress:
                return churn_run(run, rate, seconds, progress)

        truth = runs.guarded(run, work)
        complain(run.undo())
    figures = truth.more["churn"]
    if as_json:
        return JsonAnswer(truth_document(truth))
    rate_line = f"{figures['achieved_per_second']:,.1f} per second"
    flows = f"{counted(figures['births'], 'birth')} and {counted(figures['deaths'], 'death')}"
    return _told(
        [f"{flows} in {truth.seconds:.1f} s: {rate_line}"], "to see that no zombie is left", "zombiescope scan"
    )


@lab.command(epilog=examples("zombiescope lab leak --maker crashy-agent --per-minute 60 --seconds 120"))
@click.option("--maker", required=True, metavar="NAME", help="Who will appear to have made them.")
@click.option("--per-minute", type=click.FloatRange(0.01, 60_000), required=True, help="How many per minute.")
@click.option("--seconds", type=click.FloatRange(0.1, 864_000), help="For how long; then they stay until `lab clean`.")
@click.option("--style", type=click.Choice(STYLES), default="service", show_default=True, help="Shape of the path.")
@click.option(
    "--pin", "kind", type=click.Choice(LEAKING_PINS), default="tmpfs", show_default=True, help="What keeps them."
)
@name_option
@json_option
def leak(*, name: str | None, as_json: bool, **order: Any) -> Answer | None:
    """Leak zombies at a steady pace under a believable path, until a signal (then it cleans) or for SECONDS."""
    asked = LeakOrder(**order)
    checked_maker(asked.maker)
    with signals_interrupt():
        run = runs.begin(name)

        def work() -> Truth:
            with count_shown(f"leaking as {asked.maker}", asked.expected) as advance:
                return leak_run(run, asked, advance)

        try:
            truth = runs.guarded(run, work)
        except KeyboardInterrupt:
            if asked.expected is not None:
                raise
            document = {**stamp(), "action": "leak", "run": run.name, "stopped": True, "made": []}
            if as_json:
                return JsonAnswer(document)
            return _told(
                [f"stopped; run {run.name} is removed"], "to see what is left of the lab", "zombiescope lab list"
            )
        return _finish(run, truth, as_json=as_json, hold=False)


@lab.command(epilog=examples("zombiescope lab clean", "zombiescope lab clean --name mine"))
@click.option("--name", metavar="ID", help="Only this run. Without it: every run that no command is working on.")
@json_option
def clean(*, name: str | None, as_json: bool) -> Answer:
    """Remove everything the lab made: processes, files, segments, cgroups. Safe to repeat.

    Exit code 0 when nothing is left; 5 when something is, with the reason.
    """
    cleaned, note = runs.clean(name)
    is_left = any(each.left and not each.in_use for each in cleaned)
    exit_code = ActionFailedError.exit_code if is_left else EXIT_FINE
    if as_json:
        body: dict[str, Any] = {"action": "clean", "note": note or None}
        body["runs"] = [each.as_document() for each in cleaned]
        return JsonAnswer({**stamp(), **body}, exit_code)
    lines = [*_clean_lines(cleaned), *([f"note: {note}"] if note else [])] or ["no run of the lab is here"]
    why, line = ("to try again", "clean") if is_left else ("to see what is left of the lab", "list")
    return _told(lines, why, f"zombiescope lab {line}", exit_code)


def _told(lines: Iterable[str], why: str, line: str, exit_code: int = EXIT_FINE) -> TextAnswer:
    """What happened, and what to type next."""
    from zombiescope.presenters.layout import Command  # noqa: PLC0415 (drawing is loaded only when it is needed)

    parts: list[RenderableType] = [*lines, Command(why, line)]
    return TextAnswer(parts, exit_code)


def _finish(run: runs.Run, truth: Truth, *, as_json: bool, hold: bool) -> Answer | None:
    document = truth_document(truth)
    run.journal.keep_truth(json.dumps(document))
    lines = [*_truth_lines(truth, document["counts"]), "to look at them: zombiescope autopsy"]
    if not hold:
        run.end()
        if as_json:
            return JsonAnswer(document)
        return _told(lines, "to remove them", f"zombiescope lab clean --name {truth.run}")
    try:
        click.echo(json.dumps(document, indent=2) if as_json else "\n".join([*lines, "to remove them: press Enter"]))
        _wait_for_the_end()
    finally:
        complain(run.undo())
    return None


def _truth_lines(truth: Truth, counts: dict[str, Any]) -> Iterator[str]:
    from zombiescope.presenters.figures import duration  # noqa: PLC0415 (drawing is loaded only when it is needed)

    nouns = ("directory left behind", "directories left behind") if truth.visible else ("zombie", "")
    by_pin = ", ".join(f"{number:,} {kind}" for kind, number in counts["by_pin"].items())
    yield f"{counted(counts['made'], *nouns)} made in {duration(truth.seconds)} below {truth.subtree} ({by_pin})"
    if truth.note:
        yield f"note: {truth.note}"


def _clean_lines(cleaned: list[Cleaned]) -> Iterator[str]:
    for each in cleaned:
        removed = each.as_document()["removed"]
        went = ", ".join(counted(number, *_NOUNS[what]) for what, number in removed.items() if number)
        yield f"run {each.run}: removed {went or 'nothing'}"
        yield from (f"  left: {what}: {why}" for what, why in each.left)


def _wait_for_the_end() -> None:
    """Enter or a signal; an end of input, or one that cannot be read (a terminal that is gone), is no Enter."""
    try:
        with suppress(OSError):
            if sys.stdin is not None and sys.stdin.readline():
                return
        while True:
            signal.pause()
    except KeyboardInterrupt:
        return


lab.add_command(incident)
lab.add_command(list_command)
