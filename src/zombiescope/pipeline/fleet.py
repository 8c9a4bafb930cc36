# SPDX-License-Identifier: Apache-2.0
"""Many nodes: where they come from, how each is, what the sick ones share, since when. `fleet`."""

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from zombiescope.analysis.cohorts import Cohort, Comparison, Labels, compare
from zombiescope.analysis.trend import derive_change
from zombiescope.diagnosis.fleet_health import JudgedNode, Sickness, choose_sick, judge_nodes
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import ObservationError, ZombiescopeError
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.fleet import Fleet, FleetNode, SeriesSeen
from zombiescope.facts.gap import Gap
from zombiescope.fleet import documents
from zombiescope.fleet import server as pulling
from zombiescope.fleet.server import MetricsServer
from zombiescope.host.access import Host
from zombiescope.host.web_server import Access
from zombiescope.pipeline.opening import Progress, open_host
from zombiescope.pipeline.scan import observe
from zombiescope.probes.readers.node import read_identity

_MOST_DATED = 8
_LEAST_DATED = 3


class Source(NamedTuple):
    """A server or documents: exactly one of the two."""

    server: str | None = None
    files: str | None = None
    labels: str | None = None
    node_label: str | None = None
    information: tuple[str, ...] = ()
    access: Access = Access()
    timeout_seconds: float = 60.0


class Gathered(NamedTuple):
    taken_at: float
    identity: Identity
    fleet: Fleet
    judged: list[JudgedNode]
    server: MetricsServer | None


class Compared(NamedTuple):
    gathered: Gathered
    sickness: Sickness
    comparison: Comparison
    since: dict[Labels, float]
    gaps: tuple[Gap, ...]
    lines: Mapping[Labels, Sequence[tuple[float, float]]] = MappingProxyType({})
    """Of a server: the mean of the sick nodes of a cohort over time, as far as it was asked for."""


class Examined(NamedTuple):
    taken_at: float
    identity: Identity
    source: str
    series: list[SeriesSeen]
    gaps: tuple[Gap, ...]


def gather(host: Host, source: Source, thresholds: Thresholds, progress: Progress = lambda _: None) -> Gathered:
    now = host.wall_clock()
    server = None
    if source.server is not None:
        server = MetricsServer(source.server, source.access, source.timeout_seconds)
        fleet = pulling.pull(
            server, now, node_label=source.node_label, information=source.information, progress=progress
        )
    else:
        fleet = _sent(source, now, progress)
    return Gathered(now, read_identity(host), fleet, judge_nodes(fleet, thresholds), server)


def require_nodes(found: Gathered, source: Source) -> None:
    if found.fleet.nodes:
        return
    why, hint = "the server has none of our series and no node_cgroups", "zombiescope fleet doctor"
    if source.files is not None:
        why, hint = "; ".join(gap.reason for gap in found.fleet.gaps) or "nothing was sent", "zombiescope scan --json"
    raise ObservationError("no node was found", why, hint)


def _sent(source: Source, now: float, progress: Progress) -> Fleet:
    assert source.files is not None
    if source.files.endswith(".parquet"):
        progress("reading the table")
        return documents.read_table(source.files, now)
    labels = documents.read_labels(source.labels) if source.labels else {}
    progress("reading the documents")
    sent = documents.read_documents(source.files)
    recorded = []
    for path in sent.recordings:
        progress(f"looking at {os.path.basename(path)}")
        recorded.append(_recorded(path))
    return documents.fleet_of(source.files, sent, recorded, labels, now)


def _recorded(path: str) -> FleetNode:
    """A recording's host, called as its file: names inside are scrubbed."""
    name = os.path.basename(path).partition(".")[0]
    try:
        seen = observe(open_host(os.fsencode(path)), with_bytes=False)
    except ZombiescopeError as error:
        return FleetNode(name, {}, gaps=(Gap("zombies", f"its recording cannot be read: {error.why}", error.hint),))
    population, snapshot = seen.scan.population, seen.snapshot
    version = {} if isinstance(snapshot.hierarchy, Gap) else {"hierarchy": str(snapshot.hierarchy.version)}
    labels = {**version, **({"kernel": snapshot.identity.kernel} if snapshot.identity.kernel else {})}
    if isinstance(population, Gap):
        return FleetNode(name, labels, gaps=(population.about("zombies"),))
    return FleetNode(name, labels, population.zombies, population.live, population.counted)


def examine(host: Host, source: Source, progress: Progress = lambda _: None) -> Examined:
    assert source.server is not None
    now = host.wall_clock()
    server = MetricsServer(source.server, source.access, source.timeout_seconds)
    series = pulling.look_at_series(server, now, source.node_label, progress)
    return Examined(now, read_identity(host), server.name, series, tuple(server.gaps))


def compare_cohorts(
    gathered: Gathered, by: str, thresholds: Thresholds, lookback_seconds: float, progress: Progress = lambda _: None
) -> Compared:
    sickness = choose_sick(gathered.judged, by, thresholds)
    progress(f"comparing {len(sickness.nodes):,} nodes")
    comparison = compare([node.labels for node in sickness.nodes], sickness.is_sick)
    since, lines, gaps = _since(gathered, sickness, comparison, lookback_seconds, progress)
    if sickness.untold:
        why = f"{sickness.untold:,} nodes could not be judged and are left out"
        gaps = (*gaps, Gap("cohorts", why, "zombiescope fleet nodes"))
    return Compared(gathered, sickness, comparison, since, gaps, lines)


def _since(
    gathered: Gathered, sickness: Sickness, comparison: Comparison, lookback: float, progress: Progress
) -> tuple[dict[Labels, float], dict[Labels, list[tuple[float, float]]], tuple[Gap, ...]]:
    """When each cohort went bad: of a server by its sick members' mean, of documents by when each was first seen sick."""
    found: dict[Labels, float] = {}
    lines: dict[Labels, list[tuple[float, float]]] = {}
    told = [cause.cohort for cause in comparison.causes]
    told += [each.cohort for each in comparison.explained if len(each.cohort.labels) == 1][:_MOST_DATED]
    if not lookback:
        return found, lines, ()
    for cohort in told:
        members = _sick_members(sickness, cohort)
        if gathered.server is not None:
            progress("asking since when")
            matchers = [gathered.fleet.matchers[node.name] for node in members if node.name in gathered.fleet.matchers]
            line = pulling.history_of(gathered.server, matchers, gathered.taken_at - lookback, gathered.taken_at)
            at = derive_change(line)
            lines[cohort.labels] = line
        else:
            at = _first_seen(members)
        if at is not None:
            found[cohort.labels] = at
    if len(found) == len(told):
        return found, lines, ()
    why = "no moment of change can be told" if gathered.server else "one document per node does not tell since when"
    hint = "look back further: --since 30d" if gathered.server else "send documents of several days"
    return found, lines, (Gap("cohorts[].since", why, hint),)


def _sick_members(sickness: Sickness, cohort: Cohort) -> list[FleetNode]:
    pairs = enumerate(zip(sickness.nodes, sickness.is_sick, strict=True))
    return [node for number, (node, is_sick) in pairs if is_sick and cohort.members >> number & 1]


def _first_seen(members: Sequence[FleetNode]) -> float | None:
    times = sorted(node.sick_since for node in members if node.sick_since is not None)
    return times[0] if len(times) >= min(_LEAST_DATED, len(members)) > 0 else None
