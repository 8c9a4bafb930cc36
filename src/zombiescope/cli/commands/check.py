# SPDX-License-Identifier: Apache-2.0
"""`zombiescope check`: the gate. Verdict and exit code are the same in every format."""

from __future__ import annotations

from typing import Any

import click

from zombiescope import __version__, presenters
from zombiescope.cli.command import (
    Answer,
    JsonAnswer,
    PlainAnswer,
    TextAnswer,
    examples,
    manifests_option,
    root_option,
    same_place,
)
from zombiescope.cli.progress import bytes_shown, window_shown
from zombiescope.diagnosis.limits import NAMES
from zombiescope.errors import UsageError
from zombiescope.facts.units import parse_time_span
from zombiescope.host.boot import Given, own_program
from zombiescope.host.live import choose_host
from zombiescope.pipeline import audit as auditing
from zombiescope.pipeline import check as gating
from zombiescope.pipeline.boot import BootTest
from zombiescope.presenters.document import document

_BOOT_SECONDS = 90.0
_FORMATS = ("text", "json", "junit", "sarif", "nagios", "npd", "prometheus", "github")


class GateUsageError(UsageError):
    """By the convention of monitoring plugins a wrong command line is UNKNOWN."""

    exit_code = 3


class _Gate(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            hint = "zombiescope check --help"
            raise GateUsageError("cannot use the command line", error.format_message(), hint) from error


@click.command(
    cls=_Gate,
    epilog=examples(
        "zombiescope check                               this host: OK, WARNING, CRITICAL or UNKNOWN",
        "zombiescope check --image disk.raw              before an image is published",
        "zombiescope check --for 10m                     a booted candidate must stay below the limits",
        "zombiescope check --boot disk.qcow2 --for 2m    boot it in QEMU, watch it from inside: what it would leak per day",
        "zombiescope check --limit zombies_warning=500 --format nagios",
        "zombiescope check --config gate.toml            limits, waivers (what, reason, expires) and declared needs",
        "zombiescope check --image disk.raw --format github      annotations of GitHub Actions",
    ),
)
@click.option("--image", type=click.Path(path_type=bytes), metavar="FILE", help="Check an image instead of a host.")
@manifests_option
@click.option(
    "--boot",
    type=click.Path(path_type=bytes),
    metavar="IMAGE",
    help="Boot an image in QEMU, without a network, and watch it from inside; then judge its files as --image does.",
)
@click.option(
    "--program",
    type=click.Path(path_type=bytes),
    metavar="FILE",
    help="With --boot: the one-file build that watches inside; this file, if it is one.",
)
@click.option(
    "--kernel", type=click.Path(path_type=bytes), metavar="FILE", help="With --boot: instead of the image's own."
)
@click.option("--initrd", type=click.Path(path_type=bytes), metavar="FILE", help="With --boot: for that kernel.")
@click.option(
    "--accel",
    type=click.Choice(("tcg", "kvm")),
    default="tcg",
    show_default=True,
    help="With --boot: software emulation, which works everywhere, or KVM.",
)
@click.option("--for", "duration", default="0", metavar="TIME", help="Watch a booted candidate for so long (10m, 1h).")
@click.option(
    "--state",
    type=click.Path(path_type=bytes, readable=False),
    default=b"/var/lib/zombiescope",
    metavar="DIR",
    help="Where an agent keeps its history, for the growth.",
)
@click.option(
    "--config",
    type=click.Path(path_type=bytes),
    metavar="FILE",
    help="Thresholds, limits and waivers (TOML) instead of /etc/zombiescope.toml.",
)
@click.option(
    "--knowledge", type=click.Path(path_type=bytes), metavar="FILE", help="More agents, or an allow list (TOML)."
)
@click.option("--limit", "limits", multiple=True, metavar="NAME=N", help=f"One of {', '.join(NAMES)}.")
@click.option("--format", "form", type=click.Choice(_FORMATS), default="text", show_default=True, help="Output format.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@root_option
def check(*, form: str, as_json: bool, **asked: Any) -> Answer:
    """One verdict from zombies, ratio, growth, looping units and the audit: for a pipeline, a monitor, a person.

    Reads only. Exit code 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (could not look, or a wrong command line).
    """
    try:
        checked = _check(**asked)
    except UsageError as error:
        raise GateUsageError(error.what, error.why, error.hint) from error
    return _answer(
        checked,
        "json" if as_json else form,
        same_place(asked["root"], asked["image"]),
        is_image=asked["image"] is not None,
    )


def _check(
    *,
    image: bytes | None,
    manifests: bytes | None,
    boot: bytes | None,
    program: bytes | None,
    kernel: bytes | None,
    initrd: bytes | None,
    accel: str,
    duration: str,
    state: bytes,
    config: bytes | None,
    knowledge: bytes | None,
    limits: tuple[str, ...],
    root: bytes | None,
) -> gating.Checked:
    seconds = parse_time_span(duration)
    if seconds is None or not 0 <= seconds <= 7 * 86400:
        raise UsageError("cannot use --for", f"{duration!r} is not a time", "--for 10m")
    test = None
    if boot is not None:
        if image is not None or root is not None:
            raise UsageError(
                "cannot check two things at once", "--boot names the image itself", "leave --image and --root out"
            )
        program = program or own_program()
        if program is None:
            hint = "--program zombiescope-x86_64 (make onefile)"
            raise UsageError("cannot boot an image", "inside it the one-file build watches, and this is not one", hint)
        test = BootTest(boot, Given(program, kernel, initrd), seconds or _BOOT_SECONDS, accel)
        image, seconds = boot, test.seconds
    is_live = image is None and (root is None or choose_host(root).is_live)
    settings = gating.read_settings(config, dict(_limit(text) for text in limits), is_live=is_live)
    base = auditing.read_knowledge(knowledge)
    with (
        window_shown(seconds, "watching growth") as window,
        bytes_shown("reading the image", shown=image is not None) as reading,
    ):
        progress = gating.Progress(window, reading)
        watching = gating.Watching(seconds, state)
        return gating.check(
            auditing.Target(root, image, manifests), base, settings, watching=watching, progress=progress, boot=test
        )


def _limit(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError as error:
        raise UsageError("cannot use --limit", f"{text!r} is not NAME=NUMBER", "--limit zombies_warning=500") from error


def _answer(checked: gating.Checked, form: str, where: str, *, is_image: bool) -> Answer:

    gate, code = checked.gate, checked.gate.verdict.exit_code
    match form:
        case "json":
            gaps = [*presenters.gate_json.check_gaps(gate), *checked.gaps]
            return JsonAnswer(document("check/1", checked, presenters.gate_json.render_check(gate), gaps), code)
        case "sarif":
            return JsonAnswer(presenters.gate_json.render_sarif(gate, checked.source, __version__), code)
        case "junit":
            return PlainAnswer(presenters.gate_json.render_junit(gate, checked.source, checked.taken_at), code)
        case "nagios":
            return PlainAnswer(presenters.gate_json.render_nagios(gate, checked.limits), code)
        case "npd":
            return PlainAnswer(presenters.gate_json.render_npd(gate), code)
        case "prometheus":
            return PlainAnswer(presenters.gate_json.render_prometheus(gate, checked.limits, checked.taken_at), code)
        case "github":
            return PlainAnswer(presenters.gate_json.render_github(gate, checked.source), code)
        case _:
            return TextAnswer(
                presenters.gate_json.render_check_text(gate, checked.source, where, is_image=is_image), code
            )
