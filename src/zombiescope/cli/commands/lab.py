# SPDX-License-Identifier: Apache-2.0
"""`zombiescope lab`: makes real zombies in a subtree of its own, says exactly what it made, and removes it again. And the published
incident from cause to cure, here or in a throw-away machine."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import click

from zombiescope.cli.command import Answer, JsonAnswer, Listed, Next, TextAnswer, examples, json_option
from zombiescope.cli.progress import count_shown, stage_shown, window_shown
from zombiescope.errors import EXIT_FINE, ActionFailedError, UsageError, reason_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted
from zombiescope.host.own_folder import write_answer
from zombiescope.lab import runs
from zombiescope.lab.cleaning import Cleaned, Seen, list_runs
from zombiescope.lab.incident import CELL, Incident, IncidentOrder, MachineOrder, run_in_machine
from zombiescope.lab.runs import KINDS, LEAKING_PINS, STYLES, LeakOrder, checked_maker, list_kinds
from zombiescope.lab.runs import churn as churn_run
from zombiescope.lab.runs import leak as leak_run
from zombiescope.lab.truth import Setting, Stage, Truth, account_of, stamp, truth_document
from zombiescope.presenters.figures import duration

_UNTOLD = "the run ended before it wrote down what it made, or is still working"
_NOUNS = {"processes": ("process", "processes"), "cgroups": ("cgroup",), "files": ("file",), "segments": ("segment",)}
name_option = click.option("--name", metavar="ID", help="Name of the run; without it one is made up.")


@click.group(
    cls=Listed,
    epilog=examples(
        "zombiescope lab zombies --count 50 --pin tmpfs",
        "zombiescope lab zombies --count 2000 --pin memfd --hold",
        "zombiescope lab churn --rate 200 --seconds 10",
        "zombiescope lab leak --maker crashy-agent --per-minute 60 --seconds 120",
        "zombiescope lab incident --count 5000",
        "zombiescope lab incident --vm --count 400",
        "zombiescope lab list",
        "zombiescope lab clean",
    ),
)
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
        with runs.guarded(run), count_shown("making zombies", count) as advance:
            truth = runs.make_zombies(run, kind, count, advance)
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
        with runs.guarded(run), window_shown(seconds, "making and removing cgroups") as progress:
            truth = churn_run(run, rate, seconds, progress)
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
        try:
            with runs.guarded(run), count_shown(f"leaking as {asked.maker}", asked.expected) as advance:
                truth = leak_run(run, asked, advance)
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
        body: dict[str, Any] = {
            "action": "clean",
            "note": note or None,
            "runs": [each.as_document() for each in cleaned],
        }
        return JsonAnswer({**stamp(), **body}, exit_code)
    lines = [*_clean_lines(cleaned), *([f"note: {note}"] if note else [])] or ["no run of the lab is here"]
    why, line = ("to try again", "clean") if is_left else ("to see what is left of the lab", "list")
    return _told(lines, why, f"zombiescope lab {line}", exit_code)


def _told(lines: Iterable[str], why: str, line: str, exit_code: int = EXIT_FINE) -> TextAnswer:
    """What happened, and what to type next."""
    return TextAnswer([*lines, Next(why, line)], exit_code)


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


@lab.command("list", epilog=examples("zombiescope lab list"))
@json_option
def list_command(*, as_json: bool) -> Answer:
    """List the runs that are there, and the kinds of zombies that can be made.

    Changes nothing. Runs are listed for root only; the kinds for everybody. Exit code 0.
    """
    runs, kinds = list_runs(), list_kinds()
    if as_json:
        return JsonAnswer(_document(runs, kinds))
    told = (f"  {each['kind']:<13}{each['what']}" for each in kinds)
    return _told([*_run_lines(runs), "", "kinds that `lab zombies --pin KIND` makes:", *told, ""], *_next(runs))


def _document(runs: list[Seen] | Gap, kinds: Sequence[dict[str, str]]) -> dict[str, Any]:
    found = [] if isinstance(runs, Gap) else runs
    gaps = [runs] if isinstance(runs, Gap) else []
    if any(each.action is None for each in found):
        gaps += [Gap("runs[].action", _UNTOLD)]
    if any(each.made is None for each in found):
        gaps += [Gap("runs[].made", _UNTOLD)]
    return {**stamp(gaps), "action": "list", "runs": [each._asdict() for each in found], "kinds": list(kinds)}


def _run_lines(runs: list[Seen] | Gap) -> Iterator[str]:
    if isinstance(runs, Gap):
        yield f"runs: unknown: {runs.reason}"
        return
    yield f"{counted(len(runs), 'run')} of the lab on this host" if runs else "no run of the lab is here"
    for each in runs:
        made = "unknown how many were made" if each.made is None else f"{each.made:,} made"
        by_pin = ", ".join(f"{number:,} {kind}" for kind, number in each.by_pin.items())
        at_work = "   a command is working on it" if each.at_work else ""
        yield f"  {each.run}   {each.action or 'unknown'}: {made}{f' ({by_pin})' if by_pin else ''}{at_work}"


def _next(runs: list[Seen] | Gap) -> tuple[str, str]:
    if isinstance(runs, Gap):
        return "to see the runs", runs.hint
    if runs:
        return "to remove them", "zombiescope lab clean"
    return "to make some", "zombiescope lab zombies --count 50 --pin tmpfs"


def complain(cleaned: Cleaned) -> None:
    if cleaned.left:
        left = "; ".join(f"{what} ({why})" for what, why in cleaned.left)
        raise ActionFailedError(
            f"cannot remove all of the lab run {cleaned.run}", left, f"zombiescope lab clean --name {cleaned.run}"
        )


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP mean what Ctrl-C means: stop and clean."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before: dict[int, Any] = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@lab.command(
    epilog=examples(
        "zombiescope lab incident --count 5000",
        "zombiescope lab incident --account incident.md",
        "zombiescope lab incident --vm --count 400              a machine of its own, with systemd",
        "zombiescope lab incident --vm --cell 6.1-v1 --count 400",
    )
)
@click.option("--count", type=click.IntRange(100, 60_000), default=20_000, show_default=True, help="How many zombies.")
@click.option("--seconds", type=click.FloatRange(1, 600), default=4.0, show_default=True, help="Of each measurement.")
@click.option("--window", type=click.FloatRange(10, 86_400), default=10.0, show_default=True, help="Of `verify`.")
@click.option("--account", metavar="FILE", help="Write the run as a Markdown document.")
@click.option("--unit", is_flag=True, help="Let a real systemd unit crash-loop; needs systemd.")
@click.option("--vm", is_flag=True, help="In a throw-away machine under QEMU, with a real unit; needs no root.")
@click.option("--cell", metavar="NAME", help="Which machine (6.1-v2): the cells of tests/vm.")
@name_option
@json_option
def incident(*, vm: bool, cell: str | None, account: str | None, as_json: bool, **asked: Any) -> Answer:
    """The published incident from cause to cure: crash loop, starving neighbour, doctor, apply, verify; then everything is removed.

    Everything happens in the lab's own subtree. Each stage is checked; exit code 4 when one failed.
    """
    if account and not os.access(os.path.dirname(account) or ".", os.W_OK):
        raise UsageError(
            f"cannot write the account ({account})",
            "its folder is missing or cannot be written to",
            "--account incident.md",
        )
    if cell and not vm:
        raise UsageError("cannot choose a machine", "--cell needs --vm", "add --vm")
    with signals_interrupt():
        document = _in_machine(cell, asked, as_json=as_json) if vm else _here(asked, account, as_json=as_json)
    if account:
        _write(account, document)
    if as_json:
        return JsonAnswer(document)
    total = sum(stage["seconds"] for stage in document["stages"])
    held = f"the cure held, and nothing of the lab is left: {total:.1f} s in all"
    return _told([held], "to treat a sick node the same way", "zombiescope explain runbook")


def _here(asked: dict[str, Any], account: str | None, *, as_json: bool) -> dict[str, Any]:

    order = IncidentOrder(asked["count"], asked["seconds"], asked["window"], asked["unit"])
    load = os.getloadavg()[0]
    run = runs.begin(asked["name"])
    told: list[Stage] = []

    def say(stage: Stage) -> None:
        told.append(stage)
        click.echo(f"{stage.seconds:7.1f} s  {stage.name}: {stage.told}", err=as_json)

    with runs.guarded(run):
        with stage_shown() as doing:
            played = Incident(run, order, say)
            played.play(doing)
        kernel, cpus = stamp()["host"]["kernel"], len(os.sched_getaffinity(0))
        who, version = played.scene.told, run.hierarchy.version
        setting = Setting(_typed(order, account), kernel, version, cpus, round(load, 2), who)
    complain(run.undo())
    body = {"action": "incident", "run": run.name, "count": order.zombies, "held": True, "setting": setting._asdict()}
    return {**stamp(), **body, "stages": [stage._asdict() for stage in told], "made": []}


def _in_machine(cell: str | None, asked: dict[str, Any], *, as_json: bool) -> dict[str, Any]:

    if asked["name"]:
        raise UsageError(
            "cannot name a run in a throw-away machine", "it has one run, and ends with it", "leave --name out"
        )
    chosen = cell or CELL
    figures = [f"--{word}={asked[word]}" for word in ("count", "seconds", "window")]
    words = ("lab", "incident", "--unit", *figures)
    order = MachineOrder(chosen, words, 400 + 0.4 * asked["count"] + 20 * asked["seconds"] + 3 * asked["window"])
    with stage_shown() as tick:
        document = run_in_machine(order, lambda line: click.echo(line, err=as_json), tick)
    where = f"a throw-away machine ({chosen}) under emulation: its times compare only with each other"
    typed = f"zombiescope lab incident --vm --cell {chosen} --count {asked['count']}"
    document["setting"] = {**document["setting"], "where": where, "command": typed}
    return document


def _typed(order: IncidentOrder, account: str | None) -> str:
    return " ".join(
        [
            "zombiescope lab incident",
            f"--count {order.zombies}",
            *(["--unit"] if order.real_unit else []),
            *([f"--account {account}"] if account else []),
        ]
    )


def _write(path: str, document: dict[str, Any]) -> None:

    text = account_of(Setting(**document["setting"]), [Stage(**stage) for stage in document["stages"]])
    try:
        write_answer(os.fsencode(path), [text.encode()])
    except OSError as error:
        raise UsageError(f"cannot write the account ({path})", reason_of(error), "--account FILE elsewhere") from error
