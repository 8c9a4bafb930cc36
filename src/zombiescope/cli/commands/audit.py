# SPDX-License-Identifier: Apache-2.0
"""`zombiescope audit`: services and agents of a host, a folder or an image."""

from __future__ import annotations

from typing import Any

import click

from zombiescope import presenters
from zombiescope.cli.command import (
    Answer,
    JsonAnswer,
    TextAnswer,
    examples,
    json_option,
    manifests_option,
    root_option,
    same_place,
)
from zombiescope.cli.progress import bytes_shown, window_shown
from zombiescope.diagnosis.audit_findings import AuditChanges, compare
from zombiescope.pipeline import audit as auditing
from zombiescope.watching.services import ServicesWindow


@click.command(
    epilog=examples(
        "zombiescope audit                       this host: what loops, what nothing needs",
        "zombiescope audit --root /mnt           the root of another system, from its files only",
        "zombiescope audit --image disk.qcow2    an image: tar, docker save, OCI, ext4; with libguestfs XFS, LVM, qcow2, VMDK …",
        "zombiescope audit --image /dev/nvme1n1  a disk that is attached, such as an EBS snapshot",
        "zombiescope audit --image docker://registry.example/node:2   in a registry, through skopeo",
        "zombiescope audit --manifests deploy/       DaemonSets, sidecars and compose files: what restarts for ever",
        "zombiescope audit --knowledge ours.toml --json",
        "zombiescope audit --against accepted.json   what changed since an audit that was accepted",
    )
)
@click.option(
    "--image",
    type=click.Path(path_type=bytes),
    metavar="FILE",
    help="Audit an image, a disk or docker://NAME; nothing in it is run or mounted here.",
)
@click.option(
    "--knowledge", type=click.Path(path_type=bytes), metavar="FILE", help="More agents, or an allow list (TOML)."
)
@manifests_option
@click.option("--all", "every", is_flag=True, help="Also units that nothing starts.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=86400),
    default=5.0,
    show_default=True,
    help="How many seconds to watch a live host.",
)
@click.option(
    "--against",
    type=click.Path(path_type=bytes),
    metavar="FILE",
    help="An earlier document (--json) that was accepted: say what changed since; exit code 1 if for the worse.",
)
@json_option
@root_option
def audit(*, every: bool, as_json: bool, **asked: Any) -> Answer:
    """Which services can loop for ever, which make cgroups, and which nothing needs: on this host, in a folder, in an image.

    Reads only. Exit code 0, or 3 when nobody can tell what starts, or 1 with --against; `zombiescope check` is the gate that fails.
    """
    found, changes = _audit(**asked)
    code = 1 if changes and changes.worse else 0
    if found.audit.cannot_tell and found.audit.subject != "host":
        code = 3
    if as_json:
        services = found.services
        body: dict[str, Any] = {
            "subject": found.audit.subject,
            "source": found.source,
            **presenters.audit_json.render_audit(
                found.audit, found.findings, services.schedules, services.containers, every=every
            ),
        }
        if changes is not None:
            body |= {"against": presenters.audit_json.render_changes(changes)}
        return JsonAnswer(
            presenters.document.document(
                "audit/1", found, body, (*found.gaps, *presenters.audit_json.workload_gaps(found.audit))
            ),
            code,
        )

    parts = presenters.audit_text.render_audit_text(found.audit, found.findings, found.source, found.gaps, every=every)
    against = presenters.audit_text.render_changes_text(changes) if changes else []
    return TextAnswer(
        [
            *parts,
            *against,
            *presenters.audit_text.audit_next(found.findings, same_place(asked["root"], asked["image"])),
        ],
        code,
    )


def _audit(
    *,
    image: bytes | None,
    knowledge: bytes | None,
    manifests: bytes | None,
    seconds: float,
    against: bytes | None,
    root: bytes | None,
) -> tuple[auditing.Audited, AuditChanges | None]:
    base = auditing.read_knowledge(knowledge)
    accepted = None if against is None else auditing.accepted_audit(against)
    target = auditing.Target(root, image, manifests)
    is_watched = root is None and image is None and manifests is None
    with (
        window_shown(seconds if is_watched else 0, "watching services", "reading unit files") as window,
        bytes_shown("reading the image", shown=image is not None) as reading,
    ):
        found = auditing.audit(target, base, ServicesWindow(seconds, window), reading)
    return found, None if accepted is None else compare(accepted, found.audit)
