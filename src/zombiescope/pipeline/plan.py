# SPDX-License-Identifier: Apache-2.0
"""Look, judge, and propose what could be done: `plan`. Reads only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zombiescope.analysis.autopsy import Autopsy, Body, derive_totals
from zombiescope.analysis.maker import pod_uid_of, unit_maker
from zombiescope.config import thresholds_for
from zombiescope.diagnosis.audit import AuditSubject
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.loops import suspects_of
from zombiescope.diagnosis.stock import makers_that_grow
from zombiescope.errors import ObservationError
from zombiescope.facts.cgroups import Hierarchy, Identity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import unshown
from zombiescope.facts.reaping import Levers
from zombiescope.facts.units import UnitFiles
from zombiescope.facts.zombies import PinKind
from zombiescope.host.access import Host
from zombiescope.host.live import LiveHost
from zombiescope.pipeline.asking_pods import NOBODY_ASKED, PodSources, watch_pods
from zombiescope.pipeline.audit import Audited, Target, audit, has_files, read_knowledge
from zombiescope.pipeline.autopsy import Choice, chosen, dissect
from zombiescope.pipeline.doctor import Examined, examine
from zombiescope.pipeline.mistyped import refuse_below, refuse_maker, refuse_zombie
from zombiescope.pipeline.opening import open_host
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.containers import read_pod_volumes
from zombiescope.probes.readers.holders import read_files_in_use
from zombiescope.probes.readers.node import read_identity, read_layers, read_levers
from zombiescope.remedies.choice import Activity, layer_of
from zombiescope.remedies.plan import Plan
from zombiescope.remedies.planner import freeing_alone, propose
from zombiescope.watching.cgroups import FlowsWatch
from zombiescope.watching.services import ServicesWindow

_LOCAL = "/etc/"
_REPLAYED = Gap(
    "plan",
    "a recording cannot be mended, and without its unit files a plan would leave out who makes them",
    "zombiescope plan, on the host; zombiescope plan --root FILE tells what would free them",
)
_FOLDERS = {"Wants": "wants", "Requires": "requires", "Upholds": "upholds"}


class Scope(NamedTuple):
    """Which zombies the plan is about; all of them where nothing is said."""

    maker: str | None = None
    below: bytes | None = None
    """Only those whose nearest live parent is this cgroup, or lies below it."""
    zombie: int | None = None
    """Only this one, by its id."""

    @property
    def is_narrow(self) -> bool:
        return self.maker is not None or self.below is not None or self.zombie is not None

    def wants(self, body: Body) -> bool:
        if self.zombie is not None and body.zombie.id != self.zombie:
            return False
        if self.below is None:
            return True
        return body.zombie.parent == self.below or body.zombie.parent.startswith(self.below.rstrip(b"/") + b"/")


class Planned(NamedTuple):
    plan: Plan
    diagnosis: Diagnosis
    autopsy: Autopsy | None
    levers: Levers
    taken_at: float
    identity: Identity
    source: str
    gaps: tuple[Gap, ...]
    saw_units: bool = True
    """Services could be looked at."""

    @property
    def saw_nothing(self) -> bool:
        return not self.plan.steps and self.plan.zombies is None and not self.saw_units


def make_plan(  # noqa: PLR0913 (what to look at, for how long, and who may be asked)
    root: bytes | None,
    scope: Scope,
    seconds: float,
    progress: Callable[[float], None] = lambda _: None,
    makers: tuple[str, ...] = (),
    config: str | None = None,
    *,
    sources: PodSources = NOBODY_ASKED,
) -> Planned:
    """`seconds`: how long services are watched on a live host. `makers`: known to make zombies, beside those that loop now."""
    host = open_host(root)
    taken_at = host.wall_clock()
    flows = FlowsWatch(host, read_memory_hierarchy(host)) if host.is_live else None
    pods = watch_pods(host, sources)
    audited, audit_gap = _audit(root, host, seconds, progress)
    window = 0 if host.is_live else seconds  # of a recording, the one that it keeps: it costs no time
    examined = examine(host, window, thresholds=thresholds_for(config, is_live=host.is_live), flows=flows, pods=pods)
    diagnosis = examined.diagnosis
    if audited:
        diagnosis = _joined(diagnosis, audited)
    hierarchy = read_memory_hierarchy(host)
    autopsy, autopsy_gaps = _autopsy(host, hierarchy, scope, examined.autopsy, _other_makers(audited, makers))
    files = audited.services.files if audited else None
    levers = _levers(host, hierarchy, autopsy, files, asked=audited is not None and audited.audit.was_systemd_asked)
    activity = activity_of(examined.case, taken_at)._replace(makers=makers)
    if scope.is_narrow:
        mine = {body.maker for body in autopsy.bodies} if autopsy else set()
        growing = tuple(pair for pair in activity.growing if pair[0] in mine)
        activity = activity._replace(growing=growing, looping=tuple(each for each in activity.looping if each in mine))
    judged = audited.audit if audited else None
    plan = propose(diagnosis, autopsy, judged, levers, every_zombie=scope.is_narrow, activity=activity)
    if scope.zombie is not None:
        plan = freeing_alone(plan)
    gaps = (*audit_gap, *autopsy_gaps, *levers.gaps, *(pods.gaps if pods else ()))
    saw_units = audited is not None and bool(audited.audit.units)
    return Planned(plan, diagnosis, autopsy, levers, taken_at, read_identity(host), host.label, gaps, saw_units)


def _joined(diagnosis: Diagnosis, audited: Audited) -> Diagnosis:
    """The audit watched longer than the glance at the rest: of units its findings count."""
    known = {finding.id for finding in audited.findings}
    return diagnosis._replace(
        findings=(*(each for each in diagnosis.findings if each.id not in known), *audited.findings)
    )


def _audit(
    root: bytes | None, host: Host, seconds: float, progress: Callable[[float], None]
) -> tuple[Audited | None, tuple[Gap, ...]]:
    if not has_files(host):
        return None, (Gap("findings", "a recording does not keep unit files: no unit is judged"),)
    try:
        found = audit(Target(root), read_knowledge(None), ServicesWindow(seconds, progress))
    except ObservationError as error:
        return None, (Gap("findings", error.why, error.hint),)
    if found.audit.subject is AuditSubject.HOST and not found.audit.was_systemd_asked:
        return found, (
            Gap(
                "findings",
                "no systemd answers here, so no unit can be judged or stopped",
                "stop what makes zombies by whatever starts it",
            ),
        )
    return found, ()


def _other_makers(audited: Audited | None, makers: tuple[str, ...]) -> tuple[str, ...]:
    """Who may be named beside those that left zombies."""
    units = (unit_maker(unit.name) for unit in audited.audit.units) if audited else ()
    return (*makers, *units)


def _autopsy(
    host: Host, hierarchy: Hierarchy | Gap, scope: Scope, seen: Autopsy | None, others: tuple[str, ...]
) -> tuple[Autopsy | None, tuple[Gap, ...]]:
    """`seen`: what the diagnosis saw a moment ago; the host is looked at once more only where it saw none."""
    if isinstance(hierarchy, Gap):
        return None, (hierarchy.about("zombies"),)
    try:
        every = seen or dissect(host).autopsy
    except ObservationError as error:
        return None, (Gap("zombies", error.why, error.hint),)
    if not every.bodies and every.totals.zombies:
        why = "the zombies could not be seen one by one, so no step that frees them is proposed"
        unseen = Gap("steps[].expected", why, "run as root; zombiescope autopsy says which view was available and why")
        return None if scope.is_narrow else every, (unseen.about("zombies"), unseen)
    refuse_maker(scope.maker, every.bodies, others)
    refuse_below(scope.below, every.bodies, host, hierarchy)
    found = chosen(every, Choice(scope.maker), host.wall_clock())
    refuse_zombie(scope.zombie, found.bodies)
    if scope.below is not None or scope.zombie is not None:
        bodies = tuple(body for body in found.bodies if scope.wants(body))
        found = found._replace(bodies=bodies, totals=derive_totals(bodies))
    return found, ()


def plan_for(host: Host, examined: Examined) -> Plan | Gap:
    """What could be done about what the doctor found: the same planner, over what the doctor saw already."""
    if not isinstance(host, LiveHost):
        return _REPLAYED
    audit, files = examined.judged or (None, None)
    levers = _levers(
        host,
        examined.case.last.snapshot.hierarchy,
        examined.autopsy,
        files,
        asked=audit is not None and audit.was_systemd_asked,
    )
    return propose(examined.diagnosis, examined.autopsy, audit, levers, activity=activity_of(examined.case))


def plan_seen(host: Host, examined: Examined, autopsy: Autopsy | None) -> Plan | Gap:
    """As `plan_for`; of a recording, what would free what it kept: without unit files it leaves out who makes them."""
    if isinstance(host, LiveHost) or autopsy is None:
        return plan_for(host, examined)
    return propose(
        examined.diagnosis,
        autopsy,
        None,
        _levers(host, examined.case.last.snapshot.hierarchy, autopsy, None, asked=False),
        activity=activity_of(examined.case),
    )


def activity_of(case: Case, since: float | None = None) -> Activity:
    """Who makes more now, and what starts it. `since`: when the look began, where that was before the case's own window."""
    services = case.services
    growing = tuple(
        (maker, None if isinstance(services, Gap) else services.timer_of(maker.removeprefix("unit:")))
        for maker in makers_that_grow(case)
    )
    suspects = suspects_of(case, frozenset(("unit", "inside")))
    looping = tuple(suspect.maker for suspect in suspects if suspect.is_leaking(case.thresholds))
    pods = None if isinstance(case.pods, Gap) else case.pods
    return Activity(
        growing=growing, looping=looping, pods=pods, since=case.first.snapshot.taken_at if since is None else since
    )


def _levers(
    host: Host, hierarchy: Hierarchy | Gap, autopsy: Autopsy | None, files: UnitFiles | None, *, asked: bool
) -> Levers:
    """`asked`: whether systemd answered."""
    links = enabling_links(files) if files else {}
    if isinstance(hierarchy, Gap):
        return Levers(enabling_links=links)
    bodies = autopsy.bodies if autopsy else ()
    levers = with_files_in_use(
        host, read_levers(host, hierarchy, sorted({body.zombie.parent for body in bodies})), autopsy
    )
    in_pods = [pin for body in bodies if pod_uid_of(body.zombie.path) for pin in body.pins]
    layers = read_layers(host, {layer for pin in in_pods if (layer := layer_of(pin))})
    volumes = read_pod_volumes(host) if in_pods else {}
    has_systemd = levers.has_systemd and asked and is_this_host(host)
    return levers._replace(enabling_links=links, has_systemd=has_systemd, layers=layers, volumes=volumes)


def with_files_in_use(host: Host, levers: Levers, autopsy: Autopsy | None) -> Levers:
    """Of the named files in memory that hold zombies, those that nobody may delete now."""
    bodies = autopsy.bodies if autopsy else ()
    pins = [pin for body in bodies for pin in body.pins if pin.kind is PinKind.TMPFS and pin.path is not None]
    seen = {pin.path: pin.holder for pin in pins if pin.path is not None and pin.holder is not None}
    wanted = {(pin.device or "", pin.inode or 0): pin.path for pin in pins if pin.path is not None}
    if not host.is_live:  # what the walk saw is all there is
        wanted = {key: path for key, path in wanted.items() if path not in seen}
    if not wanted:
        return levers._replace(files_in_use=seen)
    used = read_files_in_use(host, wanted, len(seen))
    return levers._replace(files_in_use={**seen, **used.holders}, gaps=(*levers.gaps, *used.gaps))


def is_this_host(host: Host) -> bool:
    return isinstance(host, LiveHost) and not host.root


def enabling_links(files: UnitFiles) -> dict[str, tuple[bytes, ...]]:
    """Links of the administrator's: those of the vendor are the package's, and a mask stands above them."""
    found: dict[str, list[bytes]] = {}
    for link in files.links:
        if link.path.startswith(_LOCAL) and link.relation in _FOLDERS:
            place = f"{link.path}/{link.owner}.{_FOLDERS[link.relation]}/{link.unit}"
            found.setdefault(link.unit, []).append(unshown(place))
    for unit in files.units.values():
        if unit.alias_of and unit.path.startswith(_LOCAL):
            found.setdefault(unit.alias_of, []).append(unshown(unit.path))
    return {name: tuple(sorted(set(paths))) for name, paths in found.items()}
