# SPDX-License-Identifier: Apache-2.0
"""`zombiescope history`: what the agent remembers."""

from __future__ import annotations

import os

import click

from zombiescope import presenters
from zombiescope.cli.command import (
    Answer,
    JsonAnswer,
    PlainAnswer,
    TextAnswer,
    age_of,
    config_option,
    examples,
    json_option,
    moment_of,
    root_option,
)
from zombiescope.cli.profiles.carrying import captures_between, captures_of, lay_down_captures
from zombiescope.config import load_config
from zombiescope.errors import ObservationError, UsageError
from zombiescope.pipeline.carrying import Places, opened_places
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.recall import recall
from zombiescope.presenters.history_json import render_history, render_history_csv


@click.command(
    epilog=examples(
        "zombiescope history                       the last day: series, growth, forecast, events",
        "zombiescope history --last 30d            how it came to this, over reboots",
        "zombiescope history --at 2026-01-31T14:02 as it was then (UTC, or with +01:00)",
        "zombiescope history --csv > zombies.csv",
        "zombiescope history --root node.tar.gz    what a recording carries of it",
    )
)
@click.option("--state", metavar="DIR", help="The agent's state folder; without it the configured one.")
@click.option("--last", default="24h", show_default=True, metavar="AGE", help="How far back: 90s, 15m, 2h, 3d, all.")
@click.option("--at", "moment", metavar="TIME", help="That moment, or an age (2h), by the last sample before it.")
@click.option("--csv", "as_csv", is_flag=True, help="One line per sample, for a spreadsheet.")
@config_option
@json_option
@root_option
def history(
    *,
    state: str | None,
    last: str,
    moment: str | None,
    as_csv: bool,
    config: str | None,
    as_json: bool,
    root: bytes | None,
) -> Answer:
    """Series, events, growth and forecast from the history that the agent keeps; any past moment.

    Reads only, also while the agent runs. Exit code 0, or 3 when there is no history.
    """
    if as_csv and as_json:
        raise UsageError("cannot write two forms at once", "--csv and --json were both given", "choose one")
    configured, host = load_config(config, {}), open_host(root)
    at = None if moment is None else moment_of(moment, host.wall_clock())
    said, usual = None if state is None else os.fsencode(state), os.fsencode(configured.text("state"))
    with opened_places(root, Places(said, None), usual, lay_down_captures) as places:
        if places.state is None:
            raise ObservationError("cannot read a history", "there is none in what --root names", _NO_HISTORY)
        seconds = _seconds(last)
        found = recall(host, places.state, seconds, at, configured.thresholds)
        until = host.wall_clock() if at is None else at
        since = 0.0 if seconds is None else until - seconds
        kept = captures_between(places.captures or captures_of(config, state), since, until)
    if as_json:
        return JsonAnswer(
            render_history(found.snapshot, found.recall, found.happenings, found.moment, found.gaps, kept)
        )
    if as_csv:
        return PlainAnswer(render_history_csv(found.samples))

    return TextAnswer(
        presenters.history_text.render_history_text(
            found.recall, found.happenings, found.moment, found.gaps, kept, at=at
        )
    )


_NO_HISTORY = "record again on a host where the agent keeps one: zombiescope record FILE"


def _seconds(age: str) -> float | None:
    return None if age == "all" else age_of(age, "it is not a number with s, m, h or d, nor all", "such as --last 2h")
