# SPDX-License-Identifier: Apache-2.0
"""`zombiescope export`: files for others to use."""

import re

import click

from zombiescope.cli.command import Answer, JsonAnswer, Listed, PlainAnswer, config_option, examples, root_option
from zombiescope.cli.progress import bytes_shown
from zombiescope.config import thresholds_for
from zombiescope.errors import UsageError
from zombiescope.pipeline import audit as auditing
from zombiescope.pipeline.audit import shipped_text
from zombiescope.presenters.audit_text import render_policy
from zombiescope.presenters.grafana_dashboard import render_dashboard, render_fleet_dashboard
from zombiescope.presenters.prometheus_rules import (
    RUNBOOK,
    USUAL_LABELS,
    render_fleet_rules,
    render_rules,
    render_stream_aggregation,
)
from zombiescope.presenters.quick_audit import with_agents
from zombiescope.presenters.systemd_unit import (
    render_schedule,
    render_slice,
    render_stop_hook,
    render_unit,
)
from zombiescope.watching.services import ServicesWindow


@click.group(
    cls=Listed,
    epilog=examples(
        "zombiescope export rules > /etc/prometheus/rules/zombiescope.yml",
        "zombiescope export dashboard > zombiescope.json",
        "zombiescope export fleet-rules --by zone --by image > /etc/prometheus/rules/zombiescope-fleet.yml",
        "zombiescope export unit > /etc/systemd/system/zombiescope.service",
        "zombiescope export profile-unit > /etc/systemd/system/zombiescope-profile.service",
        "zombiescope export policy --image disk.raw > AGENTS.md",
        "zombiescope export npd > /etc/node-problem-detector/zombiescope.json",
        "zombiescope export sh | ssh node sh",
        "zombiescope export stop-hook --unit ecs.service",
        "zombiescope export audit-schedule --for github > .github/workflows/zombiescope-audit.yml",
    ),
)
def export() -> None:
    """Print a file to use elsewhere: alert rules, a dashboard, units, drop-ins, a policy, a plugin, a kubelet fragment, scripts."""


@export.command(epilog=examples("zombiescope export dashboard > zombiescope.json"))
def dashboard() -> Answer:
    """A Grafana dashboard (JSON) over the agent's metrics: import it and choose a Prometheus."""
    return JsonAnswer(render_dashboard())


@export.command(epilog=examples("zombiescope export rules > /etc/prometheus/rules/zombiescope.yml"))
@click.option("--runbook", default=RUNBOOK, show_default=True, metavar="URL", help="Page that the alerts link to.")
@config_option
def rules(*, runbook: str, config: str | None) -> Answer:
    """Recording and alert rules for Prometheus: for the agent, and for fleets that have node_exporter and cAdvisor only.

    They compare with the configured thresholds, as the commands do.
    """
    return PlainAnswer(render_rules(runbook, thresholds_for(config, is_live=True)).rstrip("\n"))


by_option = click.option(
    "--by",
    "labels",
    multiple=True,
    metavar="LABEL",
    help=f"Compare nodes by this label; as often as you like. Without it: {', '.join(USUAL_LABELS)}.",
)


@export.command(
    "fleet-rules", epilog=examples("zombiescope export fleet-rules > /etc/prometheus/rules/zombiescope-fleet.yml")
)
@by_option
@click.option("--runbook", default=RUNBOOK, show_default=True, metavar="URL", help="Page that the alerts link to.")
@config_option
def fleet_rules(*, labels: tuple[str, ...], runbook: str, config: str | None) -> Answer:
    """Recording and alert rules for fleets: the share of nodes that grow, and cohorts that stand out."""
    return PlainAnswer(render_fleet_rules(labels, runbook, thresholds_for(config, is_live=True)).rstrip("\n"))


@export.command("fleet-dashboard", epilog=examples("zombiescope export fleet-dashboard > zombiescope-fleet.json"))
@by_option
def fleet_dashboard(*, labels: tuple[str, ...]) -> Answer:
    """A Grafana dashboard (JSON) over what `export fleet-rules` records, with the same labels."""
    return JsonAnswer(render_fleet_dashboard(labels))


@export.command("stream-aggregation", epilog=examples("zombiescope export stream-aggregation > aggregation.yml"))
@by_option
@click.option("--interval", default="1m", show_default=True, metavar="AGE", help="How often aggregates are sent.")
def stream_aggregation(*, labels: tuple[str, ...], interval: str) -> Answer:
    """Stream aggregation for vmagent: aggregates of many nodes instead of every series of each."""
    if not re.fullmatch(r"[1-9][0-9]{0,4}[smh]", interval):
        raise UsageError("cannot use --interval", f"{interval!r} is not a time such as 30s or 1m", "--interval 1m")
    return PlainAnswer(render_stream_aggregation(labels, interval).rstrip("\n"))


@export.command(epilog=examples("zombiescope export unit > /etc/systemd/system/zombiescope.service"))
@click.option(
    "--program", default="/usr/local/bin/zombiescope", show_default=True, metavar="FILE", help="What to start."
)
def unit(*, program: str) -> Answer:
    """A systemd unit for the agent: few capabilities, limits on itself, a watchdog, and a start limit that trips."""
    return PlainAnswer(render_unit(program).rstrip("\n"))


@export.command(
    "profile-unit",
    epilog=examples("zombiescope export profile-unit > /etc/systemd/system/zombiescope-profile.service"),
)
@click.option(
    "--program", default="/usr/local/bin/zombiescope", show_default=True, metavar="FILE", help="What to start."
)
def profile_unit(*, program: str) -> Answer:
    """A systemd unit for `zombiescope profile record --service`; off until you enable it."""
    return PlainAnswer(render_unit(program, "recorder").rstrip("\n"))


@export.command(epilog=examples("zombiescope export npd > /etc/node-problem-detector/zombiescope.json"))
def npd() -> Answer:
    """A custom plugin of node-problem-detector: condition ZombieMemcg from `zombiescope check`."""
    return _shipped("npd.json")


@export.command(epilog=examples("zombiescope export kubelet > kubelet-fragment.yaml"))
def kubelet() -> Answer:
    """A fragment of KubeletConfiguration with fields that exist."""
    return _shipped("kubelet.yaml")


@export.command(epilog=examples("zombiescope export sh | ssh node sh"))
def sh() -> Answer:
    """A shell script for hosts without Python: the counts done right and the quick audit, with the agents that we know."""
    return PlainAnswer(with_agents(shipped_text("quick-audit.sh"), auditing.read_knowledge(None)).rstrip("\n"))


def _shipped(name: str) -> Answer:
    return PlainAnswer(shipped_text(name).rstrip("\n"))


@export.command(epilog=examples("zombiescope export policy --image disk.raw > AGENTS.md"))
@click.option("--image", type=click.Path(path_type=bytes), metavar="FILE", help="Of an image instead of this host.")
@click.option(
    "--knowledge", type=click.Path(path_type=bytes), metavar="FILE", help="More agents, or an allow list (TOML)."
)
@root_option
def policy(*, image: bytes | None, knowledge: bytes | None, root: bytes | None) -> Answer:
    """An agent life-cycle policy in Markdown: what runs, why, whose it is, when to look again."""
    base = auditing.read_knowledge(knowledge)
    with bytes_shown("reading the image", shown=image is not None) as reading:
        found = auditing.audit(auditing.Target(root, image), base, ServicesWindow(0, with_zombies=False), reading)
    return PlainAnswer(render_policy(found.audit, found.services.schedules, found.source, auditing.now()))


_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,247}\.service")
unit_option = click.option("--unit", required=True, metavar="NAME", help="The unit that churns: `NAME.service`.")


@export.command("slice", epilog=examples("zombiescope export slice --unit ecs.service"))
@unit_option
def slice_(*, unit: str) -> Answer:
    """A slice of its own for a churning unit: its zombies no longer lie below everybody's parent."""
    return PlainAnswer(render_slice(_checked(unit)).rstrip("\n"))


@export.command("stop-hook", epilog=examples("zombiescope export stop-hook --unit ecs.service"))
@unit_option
@click.option("--sync", is_flag=True, help="Write dirty files first. It writes those of the whole machine.")
def stop_hook(*, unit: str, sync: bool) -> Answer:
    """A drop-in that releases a unit's page cache just before its cgroup is removed."""
    return PlainAnswer(render_stop_hook(_checked(unit), sync=sync).rstrip("\n"))


@export.command(
    "reap-unit", epilog=examples("zombiescope export reap-unit > /etc/systemd/system/zombiescope-reap.service")
)
@click.option(
    "--program", default="/usr/local/bin/zombiescope", show_default=True, metavar="FILE", help="What to start."
)
def reap_unit(*, program: str) -> Answer:
    """A systemd unit for `zombiescope reap --watch`; off until you enable it."""
    return PlainAnswer(render_unit(program, "reaper").rstrip("\n"))


_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]+")


@export.command(
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
