# SPDX-License-Identifier: Apache-2.0
"""Puts on one axis what the window, the kernel log, the journal, the history and a person's file tell, and tests what follows what.

Each kind of event keeps the time in which it would have been seen: only that is compared.
"""

from __future__ import annotations

import math
import random
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zombiescope import history
from zombiescope.analysis.comparing import Correlation, common, derive_correlation, joined
from zombiescope.analysis.event_file import cluster_marks, parse_events, ray_marks
from zombiescope.analysis.nic_resets import derive_resets
from zombiescope.analysis.recall import pauses
from zombiescope.config import load_config
from zombiescope.diagnosis.case import Case
from zombiescope.errors import ObservationError, reason_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import FINDING_SEVERITY, JOB_FAILURE, JOB_SUCCESS, Happening, Interval, Mark, Timeline
from zombiescope.facts.kernel_log import LogEventKind
from zombiescope.facts.names import shown, unshown
from zombiescope.host.access import Host
from zombiescope.host.children import ask_program
from zombiescope.host.cluster_api import Api, fetch_list, pods_path
from zombiescope.host.safe_open import read_named
from zombiescope.host.web_server import fetch_json, is_address
from zombiescope.probes.readers.systemd_state import read_restart_times

JOURNAL = "journal"
KUBERNETES = "kubernetes"
_BY_FILE = "journalctl -o json > FILE there, and --events FILE here"
_CLUSTER_BY_FILE = "kubectl get events -A -o json > FILE, and --events FILE"


def read_jobs(sources: Sequence[str]) -> tuple[tuple[Mark, ...], tuple[Gap, ...]]:
    """By time. What cannot be reached is a gap; a file that is none of events is an error."""
    marks: list[Mark] = []
    gaps: list[Gap] = []
    for source in sources:
        try:
            if _is_of(KUBERNETES, source):
                found, missing = _cluster(source.partition(":")[2])
                gaps += missing
            else:
                found = read_source(source)
            marks += found
        except ObservationError as error:
            gaps.append(Gap("events", f"{source}: {error.why}", error.hint))
    return tuple(sorted(marks)), tuple(gaps)


def read_source(source: str) -> tuple[Mark, ...]:
    """A file, `journal` or `journal:UNIT`, or the address of a Ray dashboard."""
    if _is_of(JOURNAL, source):
        return parse_events(_journal(source.partition(":")[2]), source)
    if is_address(source):
        return _ray(source.rstrip("/"))
    return parse_events(read_named(unshown(source)), shown(unshown(source)))


def _is_of(kind: str, source: str) -> bool:
    return source == kind or source.startswith(f"{kind}:")


_MOST_STEPS = 600
_LEAST_STEP = 15.0


def read_query(address: str, query: str, begin: float, end: float) -> list[tuple[float, float]]:
    """What a Prometheus says over that time, all series of the answer added up. Raises ObservationError."""
    asked = urllib.parse.urlencode(
        {"query": query, "start": begin, "end": end, "step": max((end - begin) / _MOST_STEPS, _LEAST_STEP)}
    )
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


def _cluster(node: str) -> tuple[tuple[Mark, ...], tuple[Gap, ...]]:
    """Of the cluster that the configuration names, or that this pod runs in; of one node, as far as an event says where."""
    config = load_config(None, {})
    api = Api(config.text("kubernetes_api"), config.text("kubernetes_account"))
    where = node or config.text("kubernetes_node")
    found: set[Mark] = set()
    gaps: list[Gap] = []
    for what, path in (("events", "/api/v1/events"), ("pods", pods_path(where))):
        try:
            items, rest = fetch_list(api, path)
        except ObservationError as error:
            if what == "events":
                raise
            gaps.append(Gap("events", f"{KUBERNETES}: {what}: {error.why}", error.hint))
            continue
        found.update(cluster_marks({"items": items}, where))
        if rest:
            gaps.append(Gap("events", f"{KUBERNETES}: {what}: {rest}", _CLUSTER_BY_FILE))
    return tuple(sorted(found)), tuple(gaps)


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
        raise ObservationError(what, reason_of(error), _BY_FILE) from error
    if ran is None:
        raise ObservationError(what, "journalctl is not installed", _BY_FILE)
    if ran.status and not ran.output:
        raise ObservationError(what, shown(ran.complaint[:200].encode()) or f"status {ran.status}", "run as root")
    return ran.output


SATURATED, RESET, STALL, OOM = "saturated core", "nic reset", "stall", "oom report"
SWEEP, RESTART, RECLAIM = "sweep", "restart", "long reclaim"
_CAUSES = (RESTART, SWEEP, RECLAIM, SATURATED, STALL, OOM, RESET)
_LAG_SECONDS = {SATURATED: 10.0, RESET: 30.0, JOB_FAILURE: 300.0}
"""By effect: how long after its cause it may come. A cause comes before its effect in the order above."""
IN_HISTORY = {
    "core-saturated": SATURATED,
    "nic-reset": RESET,
    "stat-sweep": SWEEP,
    "unit-restarted": RESTART,
    "reclaim-pass": RECLAIM,
}
NOT_KEPT = "not kept one by one"
_MINUTE, _HOUR = 60.0, 3600.0
_SEED = 20_251_116
_STALLS = (LogEventKind.SOFT_LOCKUP, LogEventKind.HARD_LOCKUP, LogEventKind.RCU_STALL, LogEventKind.HUNG_TASK)


class Past(NamedTuple):
    """Where else to look: a file of events, and how far back the agent's history is read."""

    events: bytes | None = None
    state: bytes | None = None
    seconds: float = 0.0


class Told(NamedTuple):
    timeline: Timeline
    correlations: tuple[Correlation, ...]
    gaps: tuple[Gap, ...]


class _Axis:
    """What is put on it, one source after the other; a source that comes later adds only what was not watched yet."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.watched: dict[str, tuple[Interval, ...]] = {}
        self.gaps: list[Gap] = []
        self.zombies: tuple[tuple[float, float], ...] = ()

    def add(self, what: str, watched: tuple[Interval, ...], marks: list[Mark]) -> None:
        known = self.watched.get(what, ())
        self.marks += [mark for mark in marks if not any(each.begin <= mark.at <= each.end for each in known)]
        self.watched[what] = joined([*known, *watched])


def tell(host: Host, case: Case, past: Past) -> Told:
    end = case.last.snapshot.taken_at
    axis = _Axis()
    _add_log(axis, case)
    _add_window(axis, case)
    _add_restarts(axis, host, end, past)
    _add_history(axis, past, end)
    if past.events is not None:
        ended, missing = read_jobs([shown(past.events)])
        axis.gaps += [gap.about("timeline.events") for gap in missing]
        given = [mark._replace(what=JOB_FAILURE) for mark in ended if mark.what != JOB_SUCCESS]
        if ended or not missing:
            axis.add(JOB_FAILURE, (Interval(min([end, *(mark.at for mark in given)]), end),), given)
    begin = min([case.first.snapshot.taken_at, *(mark.at for mark in axis.marks), *(at for at, _ in axis.zombies)])
    if past.seconds:
        begin = max(begin, end - past.seconds)
    kept = tuple(sorted(mark for mark in axis.marks if begin <= mark.at))
    whole = (Interval(begin, max(end, begin)),)
    watched = {what: common(intervals, whole) for what, intervals in axis.watched.items()}
    timeline = Timeline(*whole[0], kept, watched, axis.zombies)
    return Told(timeline, correlate(timeline), tuple(axis.gaps))


def correlate(timeline: Timeline) -> tuple[Correlation, ...]:
    """Each cause with each effect that comes after it in the chain, over the time in which both were watched."""
    generator = random.Random(_SEED)
    found = []
    for effect, lag in _LAG_SECONDS.items():
        causes = _CAUSES[: _CAUSES.index(effect)] if effect in _CAUSES else _CAUSES
        for cause in causes:
            times = timeline.times(cause), timeline.times(effect)
            if not all(times):
                continue
            both = common(timeline.watched.get(cause, ()), timeline.watched.get(effect, ()))
            found.append(derive_correlation((cause, times[0]), (effect, times[1]), both, lag, generator))
    return tuple(each for each in found if each.cases)


def _add_log(axis: _Axis, case: Case) -> None:
    log = case.kernel_log
    if isinstance(log, Gap):
        return
    whole = (Interval(log.since, log.until),)
    axis.add(
        RESET, whole, [Mark(each.at, RESET, f"{each.device}: {each.reason}") for each in derive_resets(log.events)]
    )
    axis.add(STALL, whole, [Mark(event.at, STALL, event.text) for event in log.events if event.kind in _STALLS])
    reports = [
        Mark(event.at, OOM, event.text)
        for event in log.events
        if event.kind is LogEventKind.OUT_OF_MEMORY and "invoked oom-killer" in event.text
    ]
    axis.add(OOM, whole, reports)


def _add_window(axis: _Axis, case: Case) -> None:
    cores, sweepers = case.cores, case.sweepers
    if not isinstance(cores, Gap):
        marks = [
            Mark(stretch.begin, SATURATED, f"core {stretch.core}: {stretch.seconds:.1f} s, {stretch.mode}")
            for stretch in cores.stretches
        ]
        axis.add(SATURATED, (Interval(cores.began_at, cores.began_at + cores.seconds),), marks)
    if not isinstance(sweepers, Gap):
        bursts = [
            Mark(burst.at, SWEEP, f"{burst.name}: {burst.seconds:.1f} s in the kernel") for burst in sweepers.bursts
        ]
        axis.add(SWEEP, (Interval(sweepers.at - sweepers.seconds, sweepers.at),), bursts)


def _add_restarts(axis: _Axis, host: Host, end: float, past: Past) -> None:
    """Watched from the first one on: of the time before it the journal may have forgotten."""
    found = read_restart_times(host, end - max(past.seconds, _HOUR))
    if isinstance(found, Gap):
        if past.seconds or past.events is not None:
            axis.gaps.append(found.about("timeline.restarts"))
    elif found:
        axis.add(RESTART, (Interval(found[0].at, end),), [Mark(each.at, RESTART, each.unit) for each in found])


def _add_history(axis: _Axis, past: Past, end: float) -> None:
    """Events and the number of zombies that the agent remembers; none where no agent keeps a history."""
    if past.state is None or not past.seconds:
        return

    try:
        found = history.reader.remember(past.state, end - past.seconds, end)
    except ObservationError as error:
        axis.gaps.append(Gap("timeline", error.why, error.hint))
        return
    axis.gaps += found.gaps
    axis.zombies = tuple(
        (sample.at, sample.values["zombies"]) for sample in found.samples if "zombies" in sample.values
    )
    times = [sample.at for sample in found.samples]
    watched = joined([Interval(min(times), max(times))]) if times else ()
    watched = without(watched, (Interval(pause.since, pause.until) for pause in pauses(found.samples)))
    # The severity is of a finding that is on the axis already.
    marks, holes = told_apart(each for each in found.happenings if each.what != FINDING_SEVERITY)
    for what in dict.fromkeys((*IN_HISTORY.values(), *marks)):
        axis.add(what, without(watched, holes.get(what, ())), marks.get(what, []))


def told_apart(happenings: Iterable[Happening]) -> tuple[dict[str, list[Mark]], dict[str, list[Interval]]]:
    """Marks by kind, and the minutes in which so many came that they were not kept one by one."""
    marks: dict[str, list[Mark]] = {}
    holes: dict[str, list[Interval]] = {}
    for each in happenings:
        what = IN_HISTORY.get(each.what, each.what)
        if NOT_KEPT in each.detail:
            holes.setdefault(what, []).append(Interval(each.at - _MINUTE, each.at))
        else:
            marks.setdefault(what, []).append(Mark(each.at, what, each.detail))
    return marks, holes


def without(intervals: tuple[Interval, ...], holes: Iterable[Interval]) -> tuple[Interval, ...]:
    for hole in holes:
        parts = [Interval(each.begin, min(each.end, hole.begin)) for each in intervals]
        parts += [Interval(max(each.begin, hole.end), each.end) for each in intervals]
        intervals = joined(part for part in parts if part.begin < part.end)
    return intervals
