# SPDX-License-Identifier: Apache-2.0
"""Job failures and successes from wherever a person points: a file, the journal of this host, the dashboard of a Ray cluster."""

from __future__ import annotations

import math
import urllib.parse
from collections.abc import Sequence
from typing import Any

from zombiescope.analysis.cluster_events import cluster_marks, is_of_cluster
from zombiescope.analysis.event_file import parse_events, ray_marks
from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Mark
from zombiescope.facts.names import shown, unshown
from zombiescope.host.programs import ask_program
from zombiescope.host.safe_open import read_named
from zombiescope.host.web_address import fetch_json, is_address

JOURNAL = "journal"
KUBERNETES = "kubernetes"
_BY_FILE = "journalctl -o json > FILE there, and --events FILE here"


def read_jobs(sources: Sequence[str]) -> tuple[tuple[Mark, ...], tuple[Gap, ...]]:
    """By time. What cannot be reached is a gap; a file that is none of events is an error."""
    marks: list[Mark] = []
    gaps: list[Gap] = []
    for source in sources:
        try:
            marks += read_source(source)
        except ObservationError as error:
            gaps.append(Gap("events", f"{source}: {error.why}", error.hint))
    return tuple(sorted(marks)), tuple(gaps)


def read_source(source: str) -> tuple[Mark, ...]:
    """A file, `journal` or `journal:UNIT`, `kubernetes` or `kubernetes:NODE`, or the address of a Ray dashboard."""
    if source == JOURNAL or source.startswith(f"{JOURNAL}:"):
        return parse_events(_journal(source.partition(":")[2]), source)
    if source == KUBERNETES or source.startswith(f"{KUBERNETES}:"):
        return _cluster(source.partition(":")[2])
    if is_address(source):
        return _ray(source.rstrip("/"))
    return parse_events(read_named(unshown(source)), shown(unshown(source)))


_MOST_STEPS = 600
_LEAST_STEP = 15.0


def read_query(address: str, query: str, begin: float, end: float) -> list[tuple[float, float]]:
    """What a Prometheus says over that time, all series of the answer added up. Raises ObservationError."""
    step = max((end - begin) / _MOST_STEPS, _LEAST_STEP)
    asked = urllib.parse.urlencode({"query": query, "start": begin, "end": end, "step": step})
    answer = fetch_json(f"{address.rstrip('/')}/api/v1/query_range?{asked}")
    what = f"cannot use the answer of {address}"
    try:
        if answer["status"] != "success":
            raise ObservationError(what, str(answer.get("error", "it failed"))[:200], "try the query there")
        total: dict[float, float] = {}
        for series in answer["data"]["result"]:
            for at, value in series["values"]:
                if math.isfinite(float(value)):
                    total[float(at)] = total.get(float(at), 0.0) + float(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ObservationError(what, "it is not in a form we know", "is it a Prometheus?") from None
    return sorted(total.items())


def _cluster(node: str) -> tuple[Mark, ...]:
    """Of the cluster that the configuration names, or that this pod runs in; of one node, as far as an event says where."""
    from zombiescope.config import load_config  # noqa: PLC0415 (only where it is asked for)
    from zombiescope.host.cluster_api import Api, fetch  # noqa: PLC0415

    config = load_config(None, {})
    api = Api(config.text("kubernetes_api"), config.text("kubernetes_account"))
    where = node or config.text("kubernetes_node")
    found = cluster_marks(_listed(fetch(api, "/api/v1/events?limit=5000")), where)
    try:
        pods = cluster_marks(_listed(fetch(api, "/api/v1/pods?limit=5000")), where)
    except ObservationError:
        pods = ()  # an account may list events alone
    return tuple(sorted({*found, *pods}))


def _listed(said: Any) -> Any:
    if is_of_cluster(said):
        return said
    raise ObservationError(
        "cannot use the answer of the cluster's API server", "it is no list", "is the address right?"
    )


def _ray(address: str) -> tuple[Mark, ...]:
    jobs = ray_marks(fetch_json(f"{address}/api/jobs/"))
    try:
        actors = ray_marks(fetch_json(f"{address}/logical/actors"))
    except ObservationError:
        actors = ()  # an older or a newer dashboard: jobs are the heart of it
    return tuple(sorted((*jobs, *actors)))


def _journal(unit: str) -> bytes:
    """Of systemd's own messages, or with a unit of that one's too."""
    what = "cannot read the journal"
    only = [f"--unit={unit}"] if unit else ["_PID=1"]
    try:
        ran = ask_program("journalctl", "--output=json", "--no-pager", "--quiet", "--since=-7d", *only)
    except OSError as error:
        raise ObservationError(what, (error.strerror or str(error)).lower(), _BY_FILE) from error
    if ran is None:
        raise ObservationError(what, "journalctl is not installed", _BY_FILE)
    if ran.status and not ran.output:
        raise ObservationError(what, shown(ran.complaint[:200].encode()) or f"status {ran.status}", "run as root")
    return ran.output
