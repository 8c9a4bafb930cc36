# SPDX-License-Identifier: Apache-2.0
"""`zombiescope scan`: at a glance."""

from __future__ import annotations

import click

from zombiescope import presenters
from zombiescope.cli.command import Answer, JsonAnswer, TextAnswer, config_option, examples, json_option, root_option
from zombiescope.cli.progress import stage_shown
from zombiescope.config import thresholds_for
from zombiescope.errors import EXIT_FINE, ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.pipeline import scan as pipeline
from zombiescope.pipeline.opening import open_host


@click.command(
    epilog=examples(
        "zombiescope                     the same as zombiescope scan",
        "zombiescope scan --no-bytes     counts only: quickest",
        "zombiescope scan --exact        counts by parent on cgroup v1 too",
        "zombiescope scan --explain      how each number was obtained",
        "zombiescope scan --watch 10     what one pass of reclaim takes, if one runs in ten seconds (root)",
        "zombiescope scan --json | jq .memcg.zombies",
        "zombiescope scan --root /host   a host mounted at /host, or a recorded one",
    )
)
@click.option("--no-bytes", is_flag=True, help="Leave out the bytes that zombies hold: counts only.")
@click.option(
    "--exact", is_flag=True, help="Walk the kernel's own tree, so that cgroup v1 too has counts by parent (root)."
)
@click.option("--explain", is_flag=True, help="Say how each number was obtained, and the formula of each estimate.")
@click.option(
    "--watch",
    type=click.FloatRange(min=0.1, max=3600),
    metavar="SECONDS",
    help="Wait this many seconds for reclaim to run, and say how long one pass takes (root).",
)
@click.option(
    "--state",
    type=click.Path(path_type=bytes, readable=False),
    default=b"/var/lib/zombiescope",
    metavar="DIR",
    help="Where an agent keeps its history, for the growth.",
)
@config_option
@json_option
@root_option
def scan(
    *,
    no_bytes: bool,
    exact: bool,
    explain: bool,
    watch: float | None,
    state: bytes,
    config: str | None,
    as_json: bool,
    root: bytes | None,
) -> Answer:
    """How many zombie memory cgroups there are, below which live parents, how many bytes of which kind they hold, what they
    cost and how bad that is.

    Reads only. Works without root as far as the kernel allows, and says what root would add. Exit code 0, or 3 when the
    number of zombies is not available.
    """
    host = open_host(root)
    thresholds = thresholds_for(config, is_live=host.is_live)
    with stage_shown() as progress:
        seen = pipeline.scan(
            host,
            with_bytes=not no_bytes,
            exact=exact,
            state=state,
            watch_seconds=watch or 0.0,
            progress=progress,
            thresholds=thresholds,
        )
    exit_code = ObservationError.exit_code if isinstance(seen.observation.scan.population, Gap) else EXIT_FINE
    if as_json:
        return JsonAnswer(
            presenters.scan_json.render_scan(seen.observation, seen.diagnosis, seen.growth, seen.reclaim), exit_code
        )

    place = None if root is None else shown(root)
    return TextAnswer(
        presenters.scan_text.render_scan_text(
            seen.observation, seen.diagnosis, seen.reclaim, explain=explain, root=place
        ),
        exit_code,
    )
