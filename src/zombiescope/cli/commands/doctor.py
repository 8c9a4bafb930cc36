# SPDX-License-Identifier: Apache-2.0
"""`zombiescope doctor`: looks for a short window, then names findings with their evidence."""

from __future__ import annotations

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import json_option, root_option
from zombiescope.cli.progress import window_shown
from zombiescope.diagnosis.engine import Diagnosis, at_least
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.errors import EXIT_FINDINGS, EXIT_FINE, ObservationError
from zombiescope.pipeline.doctor import examine
from zombiescope.pipeline.opening import open_host

EPILOG = """\b
Examples:
  zombiescope doctor                      look for 10 seconds
  zombiescope doctor --seconds 60         look longer
  zombiescope doctor --fail-on critical   exit 1 on a critical finding
  zombiescope doctor --root /host --json
"""


@click.command(epilog=EPILOG)
@click.option(
    "--seconds", type=click.FloatRange(min=0, max=86400), default=10.0, show_default=True, help="How long to look."
)
@click.option(
    "--fail-on",
    type=click.Choice([Severity.WARNING.value, Severity.CRITICAL.value]),
    help="Exit with 1 when a finding is at least this severe.",
)
@json_option
@root_option
def doctor(*, seconds: float, fail_on: str | None, as_json: bool, root: bytes | None) -> Answer:
    """Look at this host for a short window and name what is wrong, with evidence.

    Reads only. Exit code 0; 1 with --fail-on; 3 when nothing could be judged.
    """
    host = open_host(root)
    with window_shown(seconds if host.is_live else 0) as progress:
        examined = examine(host, seconds, progress)
    exit_code = _exit_code(examined.diagnosis, fail_on)
    if as_json:
        from zombiescope.presenters.doctor_json import render_doctor  # noqa: PLC0415 (each form loads only what it needs)

        return JsonAnswer(render_doctor(examined.case, examined.diagnosis), exit_code)
    from zombiescope.presenters.doctor_text import render_doctor_text  # noqa: PLC0415

    return TextAnswer(render_doctor_text(examined.case, examined.diagnosis), exit_code)


def _exit_code(diagnosis: Diagnosis, fail_on: str | None) -> int:
    present = [finding for finding in diagnosis.findings if finding.verdict is Verdict.PRESENT]
    if fail_on and any(at_least(finding.severity, Severity(fail_on)) for finding in present):
        return EXIT_FINDINGS
    if all(finding.verdict is Verdict.UNKNOWN for finding in diagnosis.findings):
        return ObservationError.exit_code
    return EXIT_FINE
