# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export npd|kubelet|sh`: files that ship with the package, printed as they are."""

from __future__ import annotations

import re

import click

from zombiescope.cli.answer import Answer, PlainAnswer
from zombiescope.cli.options import examples, root_option
from zombiescope.cli.progress import bytes_shown
from zombiescope.errors import UsageError
from zombiescope.pipeline import audit as auditing
from zombiescope.pipeline.audit import shipped_text
from zombiescope.presenters.systemd_unit import render_reaper_unit, render_slice, render_stop_hook
from zombiescope.watching.services import ServicesWindow


@click.command(epilog=examples("zombiescope export npd > /etc/node-problem-detector/zombiescope.json"))
def npd() -> Answer:
    """A custom plugin of node-problem-detector: condition ZombieMemcg from `zombiescope check`."""
    return _shipped("npd.json")


@click.command(epilog=examples("zombiescope export kubelet > kubelet-fragment.yaml"))
def kubelet() -> Answer:
    """A fragment of KubeletConfiguration with fields that exist."""
    return _shipped("kubelet.yaml")


@click.command(epilog=examples("zombiescope export sh | ssh node sh"))
def sh() -> Answer:
    """A shell script for hosts without Python: the counts done right and the quick audit, with the agents that we know."""
    from zombiescope.presenters.quick_audit import with_agents  # noqa: PLC0415 (only when it is drawn)

    return PlainAnswer(with_agents(shipped_text("quick-audit.sh"), auditing.read_knowledge(None)).rstrip("\n"))


def _shipped(name: str) -> Answer:
    return PlainAnswer(shipped_text(name).rstrip("\n"))


@click.command(epilog=examples("zombiescope export policy --image disk.raw > AGENTS.md"))
@click.option("--image", type=click.Path(path_type=bytes), metavar="FILE", help="Of an image instead of this host.")
@click.option(
    "--knowledge", type=click.Path(path_type=bytes), metavar="FILE", help="More agents, or an allow list (TOML)."
)
@root_option
def policy(*, image: bytes | None, knowledge: bytes | None, root: bytes | None) -> Answer:
    """An agent life-cycle policy in Markdown: what runs, why, whose it is, when to look again."""
    from zombiescope.presenters.audit_text import render_policy  # noqa: PLC0415 (only when it is drawn)

    base = auditing.read_knowledge(knowledge)
    with bytes_shown("reading the image", shown=image is not None) as reading:
        found = auditing.audit(auditing.Target(root, image), base, ServicesWindow(0, with_zombies=False), reading)
    return PlainAnswer(render_policy(found.audit, found.services.schedules, found.source, auditing.now()))


_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,247}\.service")
unit_option = click.option("--unit", required=True, metavar="NAME", help="The unit that churns: `NAME.service`.")


@click.command("slice", epilog=examples("zombiescope export slice --unit ecs.service"))
@unit_option
def slice_(*, unit: str) -> Answer:
    """A slice of its own for a churning unit: its zombies no longer lie below everybody's parent."""
    return PlainAnswer(render_slice(_checked(unit)).rstrip("\n"))


@click.command("stop-hook", epilog=examples("zombiescope export stop-hook --unit ecs.service"))
@unit_option
@click.option("--sync", is_flag=True, help="Write dirty files first. It writes those of the whole machine.")
def stop_hook(*, unit: str, sync: bool) -> Answer:
    """A drop-in that releases a unit's page cache just before its cgroup is removed."""
    return PlainAnswer(render_stop_hook(_checked(unit), sync=sync).rstrip("\n"))


@click.command(
    "reap-unit", epilog=examples("zombiescope export reap-unit > /etc/systemd/system/zombiescope-reap.service")
)
@click.option(
    "--program", default="/usr/local/bin/zombiescope", show_default=True, metavar="FILE", help="What to start."
)
def reap_unit(*, program: str) -> Answer:
    """A systemd unit for `zombiescope reap --watch`; off until you enable it."""
    return PlainAnswer(render_reaper_unit(program).rstrip("\n"))


_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]+")


@click.command(
    "audit-schedule",
    epilog=examples("zombiescope export audit-schedule --for github > .github/workflows/zombiescope-audit.yml"),
)
@click.option(
    "--for",
    "kind",
    type=click.Choice(("systemd", "github", "gitlab")),
    default="systemd",
    show_default=True,
    help="Who runs it.",
)
@click.option(
    "--program", default="/usr/local/bin/zombiescope", show_default=True, metavar="FILE", help="What to start."
)
@click.option("--accepted", metavar="FILE", help="The audit that was accepted (audit --json).")
@click.option("--config", metavar="FILE", help="Limits, waivers and declared needs of the gate.")
@click.option(
    "--image", default="image.qcow2", show_default=True, metavar="FILE", help="In a pipeline: what is audited."
)
def audit_schedule(*, kind: str, program: str, accepted: str | None, config: str | None, image: str) -> Answer:
    """The quarterly audit without people: a systemd service and timer, or a scheduled job of a pipeline."""
    from zombiescope.presenters.audit_schedule import render_schedule  # noqa: PLC0415 (only when it is drawn)

    folder = "/etc/zombiescope/" if kind == "systemd" else ""
    words = (program, accepted or f"{folder}accepted.json", config or f"{folder}gate.toml", image)
    for word in words:
        if not _PLAIN.fullmatch(word):
            raise UsageError(
                f"cannot write {word!r} into a schedule", "only plain names are taken", "--accepted accepted.json"
            )
    return PlainAnswer(render_schedule(kind, *words).rstrip("\n"))


def _checked(unit: str) -> str:
    if not _UNIT.fullmatch(unit):
        raise UsageError(
            f"cannot write a drop-in for {unit!r}", "it is not the name of a service", "--unit ecs.service"
        )
    return unit
