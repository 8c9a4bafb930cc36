# SPDX-License-Identifier: Apache-2.0
"""`zombiescope lab incident`: the published incident from cause to cure, here or in a throw-away machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import examples, json_option
from zombiescope.cli.progress import stage_shown
from zombiescope.errors import ActionFailedError, UsageError
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted
from zombiescope.host.own_folder import write_answer
from zombiescope.lab.cleaning import Cleaned, Seen, list_kinds, list_runs
from zombiescope.lab.truth import stamp

_UNTOLD = "the run ended before it wrote down what it made, or is still working"


@click.command("list", epilog=examples("zombiescope lab list"))
@json_option
def list_command(*, as_json: bool) -> Answer:
    """List the runs that are there, and the kinds of zombies that can be made.

    Changes nothing. Runs are listed for root only; the kinds for everybody. Exit code 0.
    """
    runs, kinds = list_runs(), list_kinds()
    if as_json:
        return JsonAnswer(_document(runs, kinds))
    from zombiescope.presenters.layout import Command  # noqa: PLC0415 (drawing is loaded only when it is needed)

    return TextAnswer([*_run_lines(runs), "", *_kind_lines(kinds), "", Command(*_next(runs))])


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


def _kind_lines(kinds: Sequence[dict[str, str]]) -> Iterator[str]:
    yield "kinds that `lab zombies --pin KIND` makes:"
    yield from (f"  {each['kind']:<13}{each['what']}" for each in kinds)


def _next(runs: list[Seen] | Gap) -> tuple[str, str]:
    if isinstance(runs, Gap):
        return "to see the runs", runs.hint
    if runs:
        return "to remove them", "zombiescope lab clean"
    return "to make some", "zombiescope lab zombies --count 50 --pin tmpfs"


if TYPE_CHECKING:
    from zombiescope.lab.incident import IncidentOrder
    from zombiescope.lab.truth import Setting, Stage


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


EPILOG = """\b
Examples:
  zombiescope lab incident --count 5000
  zombiescope lab incident --account incident.md
  zombiescope lab incident --vm --count 400              a machine of its own, with systemd
  zombiescope lab incident --vm --cell 6.1-v1 --count 400
"""


@click.command(epilog=EPILOG)
@click.option("--count", type=click.IntRange(100, 60_000), default=20_000, show_default=True, help="How many zombies.")
@click.option("--seconds", type=click.FloatRange(1, 600), default=4.0, show_default=True, help="Of each measurement.")
@click.option("--window", type=click.FloatRange(10, 86_400), default=10.0, show_default=True, help="Of `verify`.")
@click.option("--account", metavar="FILE", help="Write the run as a Markdown document.")
@click.option("--unit", is_flag=True, help="Let a real systemd unit crash-loop; needs systemd.")
@click.option("--vm", is_flag=True, help="In a throw-away machine under QEMU, with a real unit; needs no root.")
@click.option("--cell", metavar="NAME", help="Which machine (6.1-v2): the cells of tests/vm.")
@click.option("--name", metavar="ID", help="Name of the run; without it one is made up.")
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
    stages = document["stages"]
    if account:
        _write(account, document)
    if as_json:
        return JsonAnswer(document)
    total = sum(stage["seconds"] for stage in stages)
    from zombiescope.presenters.layout import Command  # noqa: PLC0415 (drawing is loaded only when it is needed)

    last = Command("to treat a sick node the same way", "zombiescope explain runbook")
    return TextAnswer([f"the cure held, and nothing of the lab is left: {total:.1f} s in all", last])


def _here(asked: dict[str, Any], account: str | None, *, as_json: bool) -> dict[str, Any]:
    from zombiescope.lab import runs  # noqa: PLC0415
    from zombiescope.lab.incident import Incident, IncidentOrder  # noqa: PLC0415
    from zombiescope.lab.truth import Setting  # noqa: PLC0415

    order = IncidentOrder(asked["count"], asked["seconds"], asked["window"], asked["unit"])
    load = os.getloadavg()[0]
    run = runs.begin(asked["name"])
    told: list[Stage] = []

    def say(stage: Stage) -> None:
        told.append(stage)
        click.echo(_line(stage.seconds, stage.name, stage.told), err=as_json)

    def work() -> Setting:
        with stage_shown() as doing:
            played = Incident(run, order, say)
            played.play(doing)
        kernel = stamp()["host"]["kernel"]
        cpus = len(os.sched_getaffinity(0))
        return Setting(_typed(order, account), kernel, run.hierarchy.version, cpus, round(load, 2), played.scene.told)

    setting = runs.guarded(run, work)
    complain(run.undo())
    body = {"action": "incident", "run": run.name, "count": order.zombies, "held": True, "setting": setting._asdict()}
    return {**stamp(), **body, "stages": [stage._asdict() for stage in told], "made": []}


def _in_machine(cell: str | None, asked: dict[str, Any], *, as_json: bool) -> dict[str, Any]:
    from zombiescope.lab.incident import CELL, MachineOrder, run_in_machine  # noqa: PLC0415

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


def _line(seconds: float, name: str, told: str) -> str:
    return f"{seconds:7.1f} s  {name}: {told}"


def _typed(order: IncidentOrder, account: str | None) -> str:
    words = ["zombiescope lab incident", f"--count {order.zombies}"]
    return " ".join([*words, *(["--unit"] if order.real_unit else []), *([f"--account {account}"] if account else [])])


def _write(path: str, document: dict[str, Any]) -> None:
    from zombiescope.lab.truth import Setting, Stage, account_of  # noqa: PLC0415

    text = account_of(Setting(**document["setting"]), [Stage(**stage) for stage in document["stages"]])
    try:
        write_answer(os.fsencode(path), [text.encode()])
    except OSError as error:
        raise UsageError(
            f"cannot write the account ({path})", (error.strerror or str(error)).lower(), "--account FILE elsewhere"
        ) from error
