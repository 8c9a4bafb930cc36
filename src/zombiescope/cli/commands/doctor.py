# SPDX-License-Identifier: Apache-2.0
"""`zombiescope doctor`: looks for a short window, then names what is wrong, where it comes from and what could be done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from zombiescope import pipeline, presenters, web
from zombiescope.cli import profiles
from zombiescope.cli.command import (
    Answer,
    JsonAnswer,
    PlainAnswer,
    TextAnswer,
    asking_options,
    config_option,
    examples,
    json_option,
    root_option,
    tell_unfinished,
)
from zombiescope.cli.progress import window_shown
from zombiescope.config import load_config, thresholds_for
from zombiescope.diagnosis.engine import Diagnosis, at_least
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.errors import EXIT_FINDINGS, EXIT_FINE, ObservationError, UsageError, reason_of
from zombiescope.facts.names import shown
from zombiescope.facts.units import parse_time_span
from zombiescope.host.own_folder import write_answer
from zombiescope.pipeline.asking_pods import pod_sources, watch_pods
from zombiescope.pipeline.doctor import Examined, examine
from zombiescope.pipeline.opening import open_host
from zombiescope.presenters.doctor_report import Report, render_doctor_markdown, render_report

if TYPE_CHECKING:
    from zombiescope.facts.gap import Gap
    from zombiescope.host.access import Host
    from zombiescope.pipeline.page_look import Subject

_THEN = "looking at each zombie, judging, making a plan"


@click.command(
    epilog=examples(
        "zombiescope doctor                          watch for 10 seconds",
        "zombiescope doctor --explain                every check with its evidence",
        "zombiescope doctor --html report.html       the same as one page to read, print and send",
        "zombiescope doctor --markdown               the same for a ticket",
        "zombiescope doctor --events failures.txt --since 24h",
        "                                            do failures follow what we blame?",
        "zombiescope doctor --fail-on critical       exit 1 on a critical finding",
        "zombiescope doctor --root node.tar.gz       what was recorded elsewhere",
    )
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, max=86400),
    default=10.0,
    show_default=True,
    help="How many seconds to watch.",
)
@click.option("--html", type=click.Path(path_type=str), metavar="FILE", help="Write a self-contained page to FILE.")
@click.option("--markdown", is_flag=True, help="Markdown on standard output, for a ticket.")
@click.option(
    "--events",
    type=click.Path(path_type=bytes),
    metavar="SOURCE",
    help="Job failures: a FILE (a time and words per line, the journal, Ray's logs, kubectl get events -o json), journal, "
    "kubernetes or kubernetes:NODE (the cluster's events), or a Ray dashboard's address.",
)
@click.option("--since", metavar="AGE", help="Take events and growth from the agent's history too: 90s, 15m, 2h, 3d.")
@click.option("--state", metavar="DIR", help="The agent's state folder; without it the configured one.")
@click.option(
    "--fail-on",
    type=click.Choice([Severity.WARNING.value, Severity.CRITICAL.value]),
    help="Exit with 1 when a finding is at least this severe.",
)
@click.option("--explain", is_flag=True, help="Every check with its evidence, where it came from and when.")
@click.option("--believe-lab", is_flag=True, help="For the lab: believe what user space wrote to the kernel's log.")
@asking_options
@config_option
@json_option
@root_option
def doctor(
    *,
    seconds: float,
    html: str | None,
    markdown: bool,
    events: bytes | None,
    since: str | None,
    state: str | None,
    fail_on: str | None,
    explain: bool,
    believe_lab: bool,
    cri_socket: str | None,
    kube_api: bool,
    config: str | None,
    as_json: bool,
    root: bytes | None,
) -> Answer:
    """Watch this host for a few seconds, then say what is wrong, what causes it, and what can be done.

    Reads only. Exit code 0; 1 with --fail-on; 3 when nothing could be judged.
    """
    if as_json and markdown:
        raise UsageError("cannot write two forms at once", "--json and --markdown were both given", "choose one")
    age = None if since is None else _seconds(since)
    folder = _state(state, config) if age is not None or state is not None else None
    if root is None:
        tell_unfinished(state)
    host = open_host(root)
    thresholds = thresholds_for(config, is_live=host.is_live)
    with window_shown(seconds if host.is_live else 0, "watching this host", _THEN) as progress:
        pods = watch_pods(host, pod_sources(cri_socket, config, kube_api=kube_api))
        examined = examine(host, seconds, progress, folder, believe_lab=believe_lab, thresholds=thresholds, pods=pods)
        report = _report(host, examined, (events, folder, age or 0.0), pods.gaps if pods else ())
    exit_code = _exit_code(examined.diagnosis, fail_on)
    if html is not None:
        usual = None if root is not None else _state(state, config)
        _write(
            html, _html(pipeline.page_look.Subject(host, root, thresholds, folder, seconds), usual, examined, report)
        )
    if as_json:
        return JsonAnswer(render_report(report), exit_code)
    if markdown:
        return PlainAnswer(render_doctor_markdown(report).rstrip("\n"), exit_code)

    place = None if root is None else shown(root)
    asked = presenters.doctor_text.Shown(explain, os.geteuid() == 0 or not host.is_live, place, html)
    return TextAnswer(presenters.doctor_text.render_report_text(report, asked), exit_code)


def _html(subject: Subject, usual: bytes | None, examined: Examined, report: Report) -> str:
    """With the history of this host, or with the one that a recording carries."""
    with pipeline.carrying.opened_places(
        subject.root, pipeline.carrying.Places(subject.state, None), usual, profiles.carrying.lay_down_captures
    ) as found:
        more, day = pipeline.page_look.file_documents(subject._replace(state=found.state), examined, report.plan)
    return web.one_file.doctor_page(report, more, day)


def _report(
    host: Host, examined: Examined, past: tuple[bytes | None, bytes | None, float], gaps: tuple[Gap, ...]
) -> Report:

    told = pipeline.timeline.tell(host, examined.case, pipeline.timeline.Past(*past))
    return Report(
        examined.case,
        examined.diagnosis,
        told.timeline,
        told.correlations,
        pipeline.plan.plan_for(host, examined),
        (*told.gaps, *gaps),
    )


def _state(given: str | None, config: str | None) -> bytes:
    return os.fsencode(given) if given is not None else os.fsencode(load_config(config, {}).text("state"))


def _seconds(age: str) -> float:
    seconds = parse_time_span(age)
    if seconds is None or not 0 < seconds < 1e9:
        raise UsageError(f"cannot read the age {age!r}", "it is not a time such as 90s, 15m, 2h or 3d", "--since 24h")
    return seconds


def _write(file: str, text: str) -> None:
    try:
        write_answer(os.fsencode(file), [text.encode(errors="backslashreplace")])
    except OSError as error:
        raise UsageError(f"cannot write {file}", reason_of(error), "another place: --html report.html") from error


def _exit_code(diagnosis: Diagnosis, fail_on: str | None) -> int:
    present = [finding for finding in diagnosis.findings if finding.verdict is Verdict.PRESENT]
    if fail_on and any(at_least(finding.severity, Severity(fail_on)) for finding in present):
        return EXIT_FINDINGS
    if all(finding.verdict is Verdict.UNKNOWN for finding in diagnosis.findings):
        return ObservationError.exit_code
    return EXIT_FINE
