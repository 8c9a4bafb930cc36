# SPDX-License-Identifier: Apache-2.0
"""`zombiescope lab list`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import examples, json_option
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted
from zombiescope.lab.listing import Seen, list_kinds, list_runs
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
