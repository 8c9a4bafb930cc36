# SPDX-License-Identifier: Apache-2.0
"""`zombiescope cores`: what each core did over a window, and who burnt the saturated ones."""

from __future__ import annotations

import click

from zombiescope import presenters
from zombiescope.cli.command import Answer, JsonAnswer, TextAnswer, examples, json_option, root_option
from zombiescope.cli.progress import window_shown
from zombiescope.errors import EXIT_FINE, ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.pipeline.cores import watch_cores
from zombiescope.pipeline.opening import open_host


@click.command(
    epilog=examples(
        "zombiescope cores                    watch every core for 10 seconds, ten times per second",
        "zombiescope cores --seconds 60       watch longer",
        "zombiescope cores --no-blame         without sampling call chains (that needs root)",
        "zombiescope cores --json | jq '.stretches[] | {core, seconds, mode}'",
    )
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.2, max=3600),
    default=10.0,
    show_default=True,
    help="How many seconds to watch.",
)
@click.option("--no-blame", is_flag=True, help="Do not sample which kernel functions keep a saturated core busy.")
@json_option
@root_option
def cores(*, seconds: float, no_blame: bool, as_json: bool, root: bytes | None) -> Answer:
    """A strip per core over a window: user, kernel, softirq, steal. Saturated stretches (a core that has time only for the kernel,
    for half a second or longer) with core, beginning and length, and the kernel functions and processes that kept it busy.

    Reads only. Exit code 0, or 3 when the cores could not be watched.
    """
    host = open_host(root)
    with window_shown(seconds if host.is_live else 0, "watching every core") as progress:
        answer = watch_cores(host, seconds, progress, with_blame=not no_blame)
    exit_code = ObservationError.exit_code if isinstance(answer.seen, Gap) else EXIT_FINE
    if as_json:
        return JsonAnswer(presenters.cores.render_cores(answer, answer.seen), exit_code)

    return TextAnswer(presenters.cores.render_cores_text(answer.seen, None if root is None else shown(root)), exit_code)
