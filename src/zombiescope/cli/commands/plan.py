# SPDX-License-Identifier: Apache-2.0
"""`zombiescope plan`: remedies as data. Reads only."""

from __future__ import annotations

import click

from zombiescope import pipeline, presenters
from zombiescope.cli.command import (
    THEN,
    WATCHING,
    Answer,
    JsonAnswer,
    TextAnswer,
    asked_of,
    asking_options,
    config_option,
    examples,
    json_option,
    root_option,
    scope_of,
    scope_options,
    tell_unfinished,
)
from zombiescope.cli.progress import window_shown
from zombiescope.errors import EXIT_FINE, ObservationError


@click.command(
    epilog=examples(
        "zombiescope plan                          what would help here, and what each step frees",
        "zombiescope plan --maker 'unit:ecs*'      only for what one maker left",
        "zombiescope plan --zombie 6245670         what frees this one",
        "zombiescope plan --root /mnt/image        what to change in an image before it boots",
        "zombiescope plan --json | jq '.steps[] | {name, risk, undo}'",
    )
)
@scope_options
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=86400),
    default=5.0,
    show_default=True,
    help="How many seconds to watch services on a live host.",
)
@asking_options
@config_option
@json_option
@root_option
def plan(
    *,
    maker: str | None,
    below: str | None,
    zombie: int | None,
    seconds: float,
    cri_socket: str | None,
    kube_api: bool,
    config: str | None,
    as_json: bool,
    root: bytes | None,
) -> Answer:
    """What can be done, in order: stop what makes zombies, then free what it left, least harm first.

    Reads only: `zombiescope apply` does it. Each step says why, what it frees, what it risks and how it is undone. Exit code 0,
    or 3 when nothing could be looked at.
    """

    if root is None:
        tell_unfinished()
    scope = scope_of(maker, below, zombie)
    with window_shown(seconds if root is None else 0, WATCHING, THEN) as progress:
        planned = pipeline.plan.make_plan(
            root,
            scope,
            seconds,
            progress,
            config=config,
            sources=pipeline.asking_pods.pod_sources(cri_socket, config, kube_api=kube_api),
        )
    exit_code = ObservationError.exit_code if planned.saw_nothing else EXIT_FINE
    if as_json:
        return JsonAnswer(presenters.plan_json.render_plan_document(planned.plan, planned, planned.gaps), exit_code)

    return TextAnswer(
        presenters.plan_text.render_plan_text(planned.plan, planned.gaps, asked_of(scope, root)), exit_code
    )
