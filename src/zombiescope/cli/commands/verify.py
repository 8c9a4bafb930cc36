# SPDX-License-Identifier: Apache-2.0
"""`zombiescope verify`: did what was applied, or what somebody changed, hold?"""

import click

from zombiescope.cli.command import (
    Answer,
    JsonAnswer,
    TextAnswer,
    examples,
    json_option,
    moment_of,
    state_option,
    window_option,
)
from zombiescope.cli.progress import window_shown
from zombiescope.errors import EXIT_FINDINGS, EXIT_FINE, ObservationError, UsageError
from zombiescope.execution.journal import undo_line, verify_line
from zombiescope.facts.names import shown
from zombiescope.pipeline.act import now
from zombiescope.pipeline.verify import Asked
from zombiescope.pipeline.verify import verify as look
from zombiescope.presenters.receipt_text import render_verify, render_verify_text
from zombiescope.remedies.receipts import Verified


@click.command(
    epilog=examples(
        "zombiescope verify                           the last apply, for ten minutes",
        "zombiescope verify --window 60",
        "zombiescope verify --since 2h                after a reboot, a new image, a fix by hand",
        "zombiescope verify --events http://127.0.0.1:8265   and the jobs of a Ray cluster",
        "zombiescope verify --events journal:training.service",
        "zombiescope verify --prometheus http://127.0.0.1:9090 --query 'sum(rate(jobs_failed_total[5m]))'",
    )
)
@click.argument("action", required=False)
@window_option
@click.option("--since", metavar="TIME", help="No apply of ours: when it was changed. 2h, 3d, or 2026-01-31T14:02:00Z.")
@click.option(
    "--events",
    multiple=True,
    metavar="SOURCE",
    help="Job failures and successes: a FILE, journal, journal:UNIT, or the address of a Ray dashboard. Repeatable.",
)
@click.option("--prometheus", default="", metavar="URL", help="Ask this Prometheus for --query or --success-query.")
@click.option("--query", default="", metavar="PROMQL", help="A number that should be lower afterwards.")
@click.option("--success-query", default="", metavar="PROMQL", help="A number that should be higher afterwards.")
@state_option
@json_option
def verify(**given: object) -> Answer:
    """Compare before and after: zombies, growth, restarts, sweep, reclaim, pressure, cores, throttling, poll latency, resets, jobs.

    Before is what the agent's history remembers of the hours before the change, else what apply watched before it. Each number is
    judged as a rate with its uncertainty. Changes nothing on the host; the verdict (held, not-held or inconclusive) of an action of
    ours is kept beside its journal, and `actions` and the page show it. Exit code 0; 1: not-held; 3: nothing could be compared.
    """
    asked, as_json = _asked(**given)  # type: ignore[arg-type]
    with window_shown(asked.window, "watching whether it holds") as progress:
        seen = look(asked, progress)
    exit_code = _exit_code(seen)
    if as_json:
        return JsonAnswer(render_verify(seen, seen.gaps), exit_code)
    folder = f"{asked.state}/actions/{seen.action}"
    lines = (undo_line(folder), verify_line(folder)) if seen.action else ("", "")
    return TextAnswer(render_verify_text(seen, lines), exit_code)


def _asked(
    *,
    action: str | None,
    window: float,
    since: str | None,
    events: tuple[str, ...],
    prometheus: str,
    query: str,
    success_query: str,
    state: bytes,
    as_json: bool,
) -> tuple[Asked, bool]:
    if action and since:
        raise UsageError("cannot use --since", f"the action {action} says when it was changed", "one of the two")
    if bool(prometheus) != bool(query or success_query) or (query and success_query):
        raise UsageError(
            "cannot ask a Prometheus",
            "it takes --prometheus and one of --query, --success-query",
            "zombiescope help verify",
        )
    moment = None if since is None else moment_of(since, now().taken_at, "--since")
    wanted = Asked(
        shown(state), action, window, moment, events, prometheus, query or success_query, bool(success_query)
    )
    return wanted, as_json


def _exit_code(seen: Verified) -> int:
    if seen.outcome.verdict == "not-held":
        return EXIT_FINDINGS
    is_counted = seen.after.ours is not None if seen.after else any(row.after.value is not None for row in seen.rows)
    return EXIT_FINE if is_counted else ObservationError.exit_code
