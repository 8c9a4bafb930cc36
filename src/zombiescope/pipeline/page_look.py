# SPDX-License-Identifier: Apache-2.0
"""One look for the page: examined, dissected, planned and audited, and every document that is made of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from zombiescope import history, pipeline, presenters
from zombiescope.analysis.day import SATURATED, ZOMBIES, Day, day_of
from zombiescope.diagnosis.audit import Audit
from zombiescope.diagnosis.audit_findings import judge_audit
from zombiescope.diagnosis.case import NO_HISTORY
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import ObservationError, UsageError, ZombiescopeError, reason_of
from zombiescope.facts.cgroups import LiveTree
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.pipeline.audit import Target, audit, has_files, read_knowledge
from zombiescope.pipeline.autopsy import Dissected, dissect
from zombiescope.pipeline.doctor import Examined, examine
from zombiescope.pipeline.plan import is_this_host, plan_seen
from zombiescope.pipeline.scan import growth_of
from zombiescope.presenters.cores import render_cores
from zombiescope.presenters.document import Json, document
from zombiescope.presenters.now_json import Now, render_now
from zombiescope.presenters.plan_json import Asked
from zombiescope.presenters.remedies_json import render_remedies, render_services
from zombiescope.presenters.zombies_json import Seen, render_stories, render_tree, render_zombies, told_how
from zombiescope.probes.readers.cgroup_census import read_live_tree
from zombiescope.remedies.plan import Plan
from zombiescope.watching.services import ServicesWindow

_DAY = 86_400.0
_MOST_ACTIONS = 50
_MOST_IN_A_FILE = 2_000
_NO_UNITS = Gap("units", "a recording does not keep unit files: no unit is judged", "zombiescope audit, on the host")
_NOT_AUDITED = Gap("units", "the services of this host could not be looked at", "zombiescope audit, as root")


class Subject(NamedTuple):
    """What a page is about."""

    host: Host
    root: bytes | None
    thresholds: Thresholds
    state: bytes | None
    """A folder with a history and with what was applied; None: there is none."""
    seconds: float = 10.0
    """How long a live host is watched."""
    captures: bytes | None = None


class Looked(NamedTuple):
    examined: Examined
    dissected: Dissected | Gap
    plan: Plan | Gap
    audit: Audit | Gap
    live: LiveTree | Gap
    day: Day | Gap


def look(subject: Subject) -> Looked:
    host = subject.host
    state = subject.state if host.is_live else None
    examined = examine(host, subject.seconds, state=state, thresholds=subject.thresholds)
    if state is None and subject.state is not None and isinstance(examined.case.growth, Gap):
        # The history of a recording lies beside it, and has its time.
        examined = examined._replace(
            case=examined.case._replace(growth=growth_of(host, subject.state, subject.thresholds))
        )
    dissected = _dissected(host, examined)
    plan = plan_seen(host, examined, None if isinstance(dissected, Gap) else dissected.autopsy)
    return _looked(subject, examined, dissected, plan)


def _looked(subject: Subject, examined: Examined, dissected: Dissected | Gap, plan: Plan | Gap) -> Looked:
    host, hierarchy = subject.host, examined.case.last.snapshot.hierarchy
    live = hierarchy if isinstance(hierarchy, Gap) else read_live_tree(host, hierarchy)
    day = read_day(subject.state, host.wall_clock())
    return Looked(examined, dissected, plan, _audit(subject, examined), live, day)


def _dissected(host: Host, examined: Examined) -> Dissected | Gap:
    """Once: the examination has done it where it could."""
    if examined.dissected is not None:
        return examined.dissected
    try:
        return dissect(host)
    except ObservationError as error:
        return Gap("zombies", error.why, error.hint)


def read_day(state: bytes | None, now: float) -> Day | Gap:
    """What the small pictures show of the last day."""
    if state is None:
        return NO_HISTORY.about("numbers[].day")

    try:
        past = history.reader.Past(state, now - _DAY, now + 1.0, frozenset({ZOMBIES, SATURATED}))
        day = day_of(past.samples(), ())
        for each in past.happenings:
            day.happened(each.at, each.what, each.detail)
        return day
    except ObservationError as error:
        return Gap("numbers[].day", error.why, error.hint)


def _audit(subject: Subject, examined: Examined) -> Audit | Gap:
    if examined.judged is not None:
        return examined.judged[0]
    if not has_files(subject.host):
        return _NO_UNITS
    try:
        found = audit(Target(subject.root), read_knowledge(None), ServicesWindow(0.0, lambda _: None))
    except (ObservationError, UsageError) as error:
        return _NOT_AUDITED._replace(reason=error.why, hint=error.hint)
    return found.audit


def file_documents(subject: Subject, examined: Examined, plan: Plan | Gap) -> tuple[dict[str, Json], Day | Gap]:
    """For a file that is sent around: of very many zombies the first ones, and each of these with its story."""
    looked = _looked(subject, examined, _dissected(subject.host, examined), plan)
    found = documents(subject, looked, _MOST_IN_A_FILE)
    del found["now"]
    for _, some in islice(stories(looked), 1):
        found |= {f"zombie?id={story['id']}": story for story in some}
    return found, looked.day


def documents(subject: Subject, looked: Looked, limit: int = 0) -> dict[str, Json]:
    """By the last part of their address. `limit`: of the zombies, at most so many by name; 0 for all."""
    case, diagnosis = looked.examined.case, looked.examined.diagnosis
    snapshot = case.last.snapshot
    asked = Asked() if is_this_host(subject.host) else Asked(is_elsewhere=True)
    seen = _seen(looked)
    bodies = seen.autopsy.bodies if seen else ()
    parents = case.last.scan.parents
    shares = () if isinstance(parents, Gap) else parents
    findings = () if isinstance(looked.audit, Gap) else judge_audit(looked.audit, snapshot.taken_at)
    past, past_gaps = _past(subject)
    how = told_how(seen) if seen else ""
    return {
        "now": render_now(Now(case, diagnosis, looked.plan, looked.day, how, asked)),
        "zombies": _zombies(looked, seen, limit),
        "tree": render_tree(snapshot, looked.live, bodies, shares, seen.walk.page_bytes if seen else 0),
        "services": render_services(snapshot, looked.audit, findings),
        "remedies": render_remedies(snapshot, looked.plan, past, past_gaps, asked),
        "window": render_cores(snapshot, case.cores),
    }


def _seen(looked: Looked) -> Seen | None:
    found = looked.dissected
    return None if isinstance(found, Gap) else Seen(found.snapshot, found.walk, found.autopsy, found.gaps)


def stories(looked: Looked) -> Iterator[tuple[int, list[Json]]]:
    seen = _seen(looked)
    return iter(()) if seen is None else render_stories(seen)


def _zombies(looked: Looked, seen: Seen | None, limit: int) -> Json:
    if seen is not None:
        return render_zombies(seen, limit)
    assert isinstance(looked.dissected, Gap)
    snapshot = looked.examined.case.last.snapshot
    population = looked.examined.case.last.scan.population
    counted = None if isinstance(population, Gap) else population.zombies
    body: Json = {"at": snapshot.taken_at, "tier": None, "count": 0, "zombies": counted, "columns": {}, "totals": None}
    return document("zombies/1", snapshot, body, [looked.dissected])


def _past(subject: Subject) -> tuple[Json | None, tuple[Gap, ...]]:
    """What was applied on this host; a recording tells nothing of it."""
    if not is_this_host(subject.host):
        return None, (Gap("actions", "a recording does not keep what was applied", "zombiescope actions, on the host"),)
    if subject.state is None:
        return None, (Gap("actions", "no state folder was given", "zombiescope serve --state DIR"),)

    try:
        found = pipeline.past_actions.past_actions(os.fsdecode(subject.state), _MOST_ACTIONS)
    except (ZombiescopeError, OSError) as error:
        return None, (Gap("actions", reason_of(error)),)
    return presenters.actions.render_actions(found.state, found.total, found.actions, found), ()
