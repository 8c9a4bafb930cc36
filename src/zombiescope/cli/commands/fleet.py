# SPDX-License-Identifier: Apache-2.0
"""`zombiescope fleet`: many nodes, through a metrics server that is there already, or from documents of many nodes."""

from __future__ import annotations

from shlex import quote
from typing import Any

import click

from zombiescope import web
from zombiescope.cli.command import (
    Answer,
    JsonAnswer,
    Next,
    PlainAnswer,
    TextAnswer,
    config_option,
    examples,
    json_option,
    listen_option,
    together,
)
from zombiescope.cli.progress import stage_shown
from zombiescope.cli.serving import serve_page
from zombiescope.config import read_safely, thresholds_for
from zombiescope.diagnosis.fleet_health import SICK_BY
from zombiescope.errors import UsageError
from zombiescope.facts.units import parse_time_span
from zombiescope.fleet.server import MetricsServer
from zombiescope.host.web_server import Access
from zombiescope.pipeline import fleet as many
from zombiescope.pipeline.opening import open_host
from zombiescope.presenters import fleet_json, fleet_text
from zombiescope.presenters.document import document
from zombiescope.presenters.fleet_json import INSTANCE_PAGE, NodeLinks
from zombiescope.remedies.rollout import propose_rollout

EPILOG = """\b
Examples:
  zombiescope fleet doctor --prometheus http://prometheus:9090      is this fleet diagnosable?
  zombiescope fleet nodes --prometheus http://prometheus:9090       the sick ones first
  zombiescope fleet cohorts --prometheus http://prometheus:9090     what the sick ones share, since when
  zombiescope fleet plan --from documents --format ansible          where to begin, as a playbook to review
  zombiescope fleet serve --prometheus http://prometheus:9090       the same on a page: every node a cell

\b
Documents of many nodes, without a server:
  for h in $(cat hosts); do ssh $h sudo zombiescope scan --json; done | zombiescope fleet nodes --from -
  ansible all -b -m command --tree documents/ -a 'zombiescope scan --json ' && zombiescope fleet nodes --from documents/
  kubectl -n zombiescope get pods -o name | xargs -I{} kubectl -n zombiescope exec {} -- \\
    zombiescope scan --root /host --json | zombiescope fleet nodes --from -
"""


_source_options = together(
    click.option("--prometheus", "server", metavar="URL", help="A server with Prometheus' HTTP API."),
    click.option("--from", "files", metavar="DIR", help="Documents: a folder, a file, Parquet, or - (stdin)."),
    click.option("--labels", metavar="FILE", help="With --from: a CSV table of nodes (node,zone,image,...)."),
    click.option("--node-label", metavar="NAME", help="Which label names a node; else the host of `instance`."),
    click.option("--info", "information", multiple=True, metavar="SERIES", help="A series that describes nodes."),
    click.option("--token-file", metavar="FILE", help="A bearer token for the server."),
    click.option("--tenant", metavar="NAME", help="X-Scope-OrgID, as Mimir asks for it."),
    click.option("--ca-file", metavar="FILE", help="Certificates to trust, for https."),
    click.option("--timeout", type=click.FloatRange(1, 3600), default=60.0, show_default=True, help="Seconds."),
)


def _source(*, needs_server: bool = False, **asked: Any) -> many.Source:
    server, files = asked["server"], asked["files"]
    if (server is None) == (files is None):
        why = "neither --prometheus nor --from is given" if server is None else "both --prometheus and --from are given"
        raise UsageError("cannot tell where the nodes are", why, "--prometheus http://HOST:9090, or --from DIR")
    if needs_server and server is None:
        raise UsageError(
            "cannot look at documents", "this asks a server for its series", "--prometheus http://HOST:9090"
        )
    token = None
    if asked["token_file"] is not None:
        token = read_safely(asked["token_file"]).decode("ascii", "replace").strip()
    access = Access(token, asked["tenant"], asked["ca_file"])
    return many.Source(
        server, files, asked["labels"], asked["node_label"], tuple(asked["information"]), access, asked["timeout"]
    )


def _said(asked: dict[str, Any]) -> str:
    """The source again, with all that finds its nodes, for the line to type next."""
    named = ("prometheus", "server"), ("from", "files"), ("labels", "labels"), ("node-label", "node_label")
    words = [f"--{flag} {quote(asked[name])}" for flag, name in named if asked[name]]
    words += [f"--info {quote(series)}" for series in asked["information"]]
    access = ("token-file", "token_file"), ("tenant", "tenant"), ("ca-file", "ca_file")
    words += [f"--{flag} {quote(asked[name])}" for flag, name in access if asked[name]]
    return " ".join(words)


_sick_option = click.option(
    "--sick", "by", default="severity", show_default=True, metavar="RULE", help=f"{', '.join(SICK_BY)}, or a finding."
)
_since_option = click.option(
    "--since", "lookback", default="7d", show_default=True, metavar="AGE", help="How far back to look for the change."
)


@click.group(epilog=EPILOG)
def fleet() -> None:
    """Many nodes: which are sick, what they share, since when, and where to begin.

    Reads only, and adds no storage: it asks the metrics server that is there already, or reads documents of many nodes. Nothing
    is ever changed over the network: `fleet plan` writes a playbook for you to review and run.
    """


@fleet.command(epilog=examples("zombiescope fleet doctor --prometheus http://prometheus:9090"))
@_source_options
@json_option
def doctor(*, as_json: bool, **asked: Any) -> Answer:
    """Is this fleet diagnosable? Which series the server has, of how many nodes, and what would add the missing ones."""
    source = _source(needs_server=True, **asked)
    with stage_shown() as stage:
        seen = many.examine(open_host(None), source, stage)
    if as_json:
        body = fleet_json.render_series(seen.series, fleet_text.series_sentence(seen.series))
        gaps = [*seen.gaps, *fleet_json.null_gaps(body)]
        return JsonAnswer(document("fleet-doctor/1", seen, body, gaps))
    return TextAnswer(fleet_text.render_series_text(seen.series, seen.gaps, _said(asked)))


@fleet.command(
    epilog=examples(
        "zombiescope fleet nodes --prometheus http://prometheus:9090",
        "zombiescope fleet nodes --from documents --csv > nodes.csv",
    )
)
@_source_options
@click.option("--csv", "as_csv", is_flag=True, help="One line per node, every label a column.")
@config_option
@json_option
def nodes(*, as_csv: bool, as_json: bool, config: str | None, **asked: Any) -> Answer:
    """The sick ones first: zombies, growth, forecast, findings, and what is known of each node.

    Works with node_exporter alone (--collector.cgroups); says what it then cannot tell. Exit code 0; 3: no node was found.
    """
    if as_csv and as_json:
        raise UsageError("cannot write two forms at once", "--csv and --json were both given", "choose one")
    found = _gathered(config, asked)
    if as_csv:
        return PlainAnswer(fleet_json.render_csv(found.judged))
    if as_json:
        body = fleet_json.render_nodes(found.judged)
        return JsonAnswer(document("fleet-nodes/1", found, body, [*found.fleet.gaps, *fleet_json.null_gaps(body)]))
    return TextAnswer(fleet_text.render_nodes_text(found.judged, found.fleet.gaps, _said(asked), found.taken_at))


@fleet.command(epilog=examples("zombiescope fleet cohorts --prometheus http://prometheus:9090 --since 30d"))
@_source_options
@_sick_option
@_since_option
@click.option("--limit", type=click.IntRange(0), default=50, show_default=True, help="Cohorts in the document; 0: all.")
@config_option
@json_option
def cohorts(*, by: str, lookback: str, limit: int, as_json: bool, config: str | None, **asked: Any) -> Answer:
    """What sets sick nodes apart: every label and pair of labels, tested; what is bad only through another one; since when."""
    found = _compared(config, by, lookback, asked)
    compared, gaps = found.comparison, [*found.gathered.fleet.gaps, *found.gaps]
    verdict = fleet_json.verdict_of(compared, found.since)
    sick = found.sickness.rule
    if as_json:
        body = fleet_json.render_cohorts(compared, sick, found.since, verdict, limit)
        gaps += fleet_json.null_gaps(body)
        return JsonAnswer(document("fleet-cohorts/1", found.gathered, body, gaps))
    parts = fleet_text.render_cohorts_text(compared, verdict, sick, found.since, gaps)
    why, following = ("to see where to begin", "plan") if compared.sick else ("to see every node", "nodes")
    return TextAnswer([*parts, "", Next(why, f"zombiescope fleet {following} {_said(asked)}")])


@fleet.command(
    epilog=examples(
        "zombiescope fleet plan --from documents",
        "zombiescope fleet plan --from documents --format ansible > rollout.yml",
    )
)
@_source_options
@_sick_option
@click.option(
    "--format", "form", type=click.Choice(("text", "json", "ansible", "kubernetes")), default="text", help="How."
)
@click.option(
    "--window", type=click.FloatRange(0, 86400), default=600.0, show_default=True, help="Seconds to watch a node."
)
@click.option("--image", default="zombiescope:latest", show_default=True, help="For kubernetes: the image of the jobs.")
@config_option
@json_option
def plan(*, by: str, form: str, window: float, image: str, as_json: bool, config: str | None, **asked: Any) -> Answer:
    """Where to begin: the cohort with the cause first, one node, then 5 %, 25 %, all of it. A playbook to review, nothing done."""
    found = _compared(config, by, "7d", asked, dated=False)
    plans = propose_rollout(found.sickness, found.comparison)
    if as_json or form == "json":
        gaps = [*found.gathered.fleet.gaps, *found.gaps]
        return JsonAnswer(document("fleet-plan/1", found.gathered, fleet_text.render_plan(plans), gaps))
    if form == "ansible":
        return PlainAnswer(fleet_text.render_ansible(plans, window))
    if form == "kubernetes":
        return PlainAnswer(fleet_text.render_kubernetes(plans, image, window))
    return TextAnswer(fleet_text.render_plan_text(plans, _said(asked)))


@fleet.command(epilog=examples("zombiescope fleet serve --prometheus http://prometheus:9090"))
@_source_options
@_sick_option
@_since_option
@click.option(
    "--node-page",
    metavar="URL",
    help="Where a node's own page is: {node}, {instance} or any label stands for the node's. "
    "Of a server: http://{instance}/, where its agent is scraped.",
)
@listen_option(8099)
@click.option("--page-token-file", metavar="FILE", help="Readers must show what it holds: Authorization: Bearer TOKEN.")
@config_option
def serve(
    *,
    by: str,
    lookback: str,
    node_page: str | None,
    listen: str,
    page_token_file: str | None,
    config: str | None,
    **asked: Any,
) -> Answer | None:
    """A page about all nodes: every node a cell, what the sick ones share, since when. Ends on Ctrl-C.

    Reads only. The server is asked at most once per minute, and only while somebody looks. Every user of this machine can reach a
    port on loopback; where they must not look, use --listen unix:PATH or --page-token-file FILE.
    """

    source = _source(**asked)
    if source.server is not None:
        MetricsServer(source.server)  # a wrong address is told here, not on the page
    template = node_page or (INSTANCE_PAGE if source.server is not None else None)
    links = NodeLinks(template) if template else None
    about = web.fleet.Asked(
        open_host(None), source, by, _seconds(lookback), thresholds_for(config, is_live=True), links
    )
    next_step = f"to read the same as text: zombiescope fleet cohorts {_said(asked)}"
    serve_page(
        listen,
        page_token_file,
        lambda selector: web.site.Site(web.fleet.ManyNodes(about, selector), web.fleet.DOCUMENTS),
        next_step,
    )
    return None


def _gathered(config: str | None, asked: dict[str, Any]) -> many.Gathered:
    source = _source(**asked)
    with stage_shown() as stage:
        found = many.gather(open_host(None), source, thresholds_for(config, is_live=True), stage)
    many.require_nodes(found, source)
    return found


def _compared(
    config: str | None, by: str, lookback: str, asked: dict[str, Any], *, dated: bool = True
) -> many.Compared:
    seconds = _seconds(lookback)
    found = _gathered(config, asked)
    thresholds = thresholds_for(config, is_live=True)
    with stage_shown() as stage:
        return many.compare_cohorts(found, by, thresholds, seconds if dated else 0.0, stage)


def _seconds(lookback: str) -> float:
    seconds = parse_time_span(lookback)
    if seconds is None or not 60 <= seconds <= 366 * 86400:
        raise UsageError("cannot use --since", f"{lookback!r} is not a time", "--since 30d")
    return seconds
