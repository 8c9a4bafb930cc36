# SPDX-License-Identifier: Apache-2.0
"""`zombiescope self-check`: what of us works on this host, and why not."""

import click

from zombiescope.cli.command import Answer, JsonAnswer, TextAnswer, examples, json_option
from zombiescope.cli.progress import stage_shown
from zombiescope.config import load_config
from zombiescope.errors import EXIT_FINE, ObservationError
from zombiescope.pipeline.opening import open_host
from zombiescope.pipeline.self_check import check_self
from zombiescope.presenters.self_check_text import render_self_check, render_self_check_text


@click.command(
    "self-check",
    epilog=examples(
        "zombiescope self-check                 before anything else on a host that is new to you",
        "sudo zombiescope self-check            what root adds",
        "zombiescope self-check --json | jq '.parts | map_values(.status)'",
    ),
)
@click.option("--config", metavar="FILE", help="The agent's configuration (TOML) instead of /etc/zombiescope.toml.")
@json_option
def self_check(*, config: str | None, as_json: bool) -> Answer:
    """Try every way in which we look at a host, and say which of them work on this one, how, and why not.

    Reads only: what is tried is closed at once, and nothing is left behind. Exit code 0, or 3 when zombies cannot even be counted
    here.
    """
    configured = load_config(config, {})
    with stage_shown() as progress:
        seen = check_self(open_host(None), configured.text("state"), configured.text("listen"), progress)
    exit_code = ObservationError.exit_code if seen.part("files").by is None else EXIT_FINE
    if as_json:
        return JsonAnswer(render_self_check(seen), exit_code)
    return TextAnswer(render_self_check_text(seen), exit_code)
