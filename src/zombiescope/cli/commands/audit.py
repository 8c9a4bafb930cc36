# SPDX-License-Identifier: Apache-2.0
"""`zombiescope audit`: services and agents of a host, a folder or an image."""

from __future__ import annotations

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.options import json_option, root_option
from zombiescope.cli.progress import bytes_shown, window_shown
from zombiescope.pipeline import audit as auditing
from zombiescope.watching.services import ServicesWindow

EPILOG = """\b
Examples:
  zombiescope audit                       this host: what loops, what nothing needs
  zombiescope audit --root /mnt           the root of another system, from its files alone
  zombiescope audit --image disk.raw      an image: tar, OCI layout, docker save, raw ext4
  zombiescope audit --knowledge ours.toml --json
"""


@click.command(epilog=EPILOG)
@click.option(
    "--image", type=click.Path(path_type=bytes), metavar="FILE", help="Audit an image; nothing in it is run or mounted."
)
@click.option(
    "--knowledge", type=click.Path(path_type=bytes), metavar="FILE", help="More agents, or an allow list (TOML)."
)
@click.option("--all", "every", is_flag=True, help="Also units that nothing starts.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=86400),
    default=5.0,
    show_default=True,
    help="How long to watch a live host.",
)
@json_option
@root_option
def audit(
    *, image: bytes | None, knowledge: bytes | None, every: bool, seconds: float, as_json: bool, root: bytes | None
) -> Answer:
    """Which services can loop for ever, which make cgroups, and which nothing needs: on this host, in a folder, in an image.

    Reads only. Exit code 0, or 3 when nothing could be looked at; `zombiescope check` is the gate that fails.
    """
    base = auditing.read_knowledge(knowledge)
    is_watched = root is None and image is None
    with (
        window_shown(seconds if is_watched else 0) as window,
        bytes_shown("reading", shown=image is not None) as reading,
    ):
        found = auditing.audit(auditing.Target(root, image), base, ServicesWindow(seconds, window), reading)
    if as_json:
        from zombiescope.presenters.audit_json import render_audit  # noqa: PLC0415 (each form loads only what it needs)
        from zombiescope.presenters.document import document  # noqa: PLC0415

        services = found.services
        body = {"subject": found.audit.subject, "source": found.source}
        body |= render_audit(found.audit, found.findings, services.schedules, services.containers, every=every)
        return JsonAnswer(document("audit/1", found, body, found.gaps))
    from zombiescope.presenters.audit_text import render_audit_text  # noqa: PLC0415

    return TextAnswer(render_audit_text(found.audit, found.findings, found.source, found.gaps, every=every))
