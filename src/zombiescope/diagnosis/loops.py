# SPDX-License-Identifier: Apache-2.0
"""Services that loop, beside what they left: who leaves more comes first, whoever shouts louder."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.analysis.looping import ended_words
from zombiescope.analysis.maker import maker_said, unit_maker
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding
from zombiescope.diagnosis.stock import Growing, growing_of, has_lived
from zombiescope.diagnosis.thresholds import Severity, Thresholds
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import few
from zombiescope.facts.pods import PodsSeen
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.units import ServiceLoop, ServicesSeen
from zombiescope.facts.zombies import MakerRemains, Remains

if TYPE_CHECKING:
    from zombiescope.diagnosis.audit import Audit


class Suspect(NamedTuple):
    loop: ServiceLoop
    left: MakerRemains | None
    """None: nothing, or it could not be seen."""
    share: float
    """Of all zombies."""
    grown: int = 0
    """Left in the window."""
    instances: int = 1
    """Of a template, or containers of a workload, that loop."""

    @property
    def maker(self) -> str:
        return self.left.maker if self.left else maker_of_loop(self.loop)

    @property
    def name(self) -> str:
        return maker_said(self.maker)

    @property
    def zombies(self) -> int:
        return self.left.zombies if self.left else 0

    def is_leaking(self, thresholds: Thresholds) -> bool:
        return self.zombies >= thresholds.leak_least_zombies or self.grown >= thresholds.growth_least


AUDITED_CHURN = Severity.WARNING
"""An audit looks for a moment at what may go on for ever: it names whatever is started again and again, also what left nothing so
far, or nothing that could be counted."""


def churn_seen(remains: Remains | Gap) -> Severity:
    """Children that come and go inside a unit are what a runtime does for a living: for a doctor only what they leave counts."""
    return Severity.UNKNOWN if isinstance(remains, Gap) else Severity.OK


def loop_severity(suspect: Suspect, thresholds: Thresholds, churn: Severity) -> Severity:
    """`churn` is what children inside a unit are that were not seen to leave anything."""
    if suspect.is_leaking(thresholds):
        return Severity.CRITICAL
    return churn if suspect.loop.kind == "inside" else Severity.WARNING


def loop_remedies(suspect: Suspect) -> tuple[Remedy, ...]:
    """A unit that something needs is slowed down; one that nothing needs is stopped and kept from coming back. A start limit counts
    nothing inside a unit: it is stopped, or its runtime or its cluster is told to stop."""
    match suspect.loop.kind, suspect.loop.need:
        case "unit", "unneeded":
            return Remedy.STOP_UNIT, Remedy.LIMIT_RESTARTS
        case "unit", _:
            return Remedy.LIMIT_RESTARTS, Remedy.STOP_UNIT
        case "pod", _:
            return (Remedy.STOP_WORKLOAD,)
        case "container", _:
            return (Remedy.STOP_CONTAINER,)
        case _:
            return (Remedy.STOP_UNIT,)


OF_CONTAINERS = "A container is restarted over and over"


def judge_loops(
    declared: Declaration,
    suspects: list[Suspect],
    evidence: tuple[Evidence, ...],
    thresholds: Thresholds,
    churn: Severity,
) -> Finding | None:
    """The same for whoever asks: `doctor`, `audit` and `check`. None where nothing comes and goes."""
    judged = [(each, loop_severity(each, thresholds, churn)) for each in suspects]
    found = [(each, severity) for each, severity in judged if severity in (Severity.CRITICAL, Severity.WARNING)]
    if found:
        first, severity = found[0]
        summary = few([_told(each) for each, _ in found])
        finding = declared.present(severity, summary, evidence, loop_remedies(first))
        return finding._replace(title=OF_CONTAINERS) if first.loop.kind in ("container", "pod") else finding
    if not suspects:
        return None
    children = f"children of {suspects[0].loop.name} come and go"
    if churn is Severity.OK:
        return declared.absent(f"{children} and leave nothing behind: churn, not a leak", evidence)
    return declared.unknown(f"{children}; whether they leave anything is not known", evidence)


def audit_suspects(audit: "Audit", kinds: frozenset[str]) -> list[Suspect]:
    """What an audit saw to loop, each with what its unit left as far as that was counted."""
    units = {unit.name: unit for unit in audit.units}
    found = []
    for loop in (loop for loop in audit.loops if loop.kind in kinds):
        unit = units.get(loop.name)
        maker = loop.name if loop.kind == "pod" else f"unit:{loop.name}"
        need = unit.need.value if unit else "unknown"
        left = MakerRemains(maker, unit.zombies, {}, None, None) if unit and unit.zombies else None
        found.append(Suspect(loop._replace(need=need, maker=maker), left, 0.0))
    return sorted(found, key=_worst_first)


def judge_audit_loops(declared: Declaration, audit: "Audit", at: float, thresholds: Thresholds) -> Finding | None:
    suspects = audit_suspects(audit, declared.loops)
    evidence = tuple(item for each in suspects for item in _of_loop(each.loop, each.name, at))
    return judge_loops(declared, suspects, evidence, thresholds, AUDITED_CHURN)


def suspects_of(case: Case, kinds: frozenset[str]) -> list[Suspect]:
    now = growing_of(case)
    found: dict[str, Suspect] = {}
    for loop in (loop for loop in loops_seen(case) if loop.kind in kinds):
        suspect = _suspect(case, loop, now)
        known = found.get(suspect.maker)
        found[suspect.maker] = _together(known, suspect) if known else suspect
    return sorted(found.values(), key=_worst_first)


def _worst_first(suspect: Suspect) -> tuple[int, int, int, str]:
    return -suspect.zombies, -suspect.grown, -suspect.loop.restarts, suspect.loop.name


def loops_seen(case: Case) -> list[ServiceLoop]:
    """Of services, and of pods, which no systemd knows of."""
    pods = () if isinstance(case.pods, Gap) else case.pods.loops
    return [
        *(() if isinstance(case.services, Gap) else case.services.loops),
        *(
            ServiceLoop(
                f"{loop.pod}/{loop.container}", "pod", loop.restarts, loop.why, loop.source, loop.every_seconds,
                maker=loop.maker, ended=ended_words(loop.reason, loop.exit_code),
            )
            for loop in pods
        ),
    ]  # fmt: skip


def maker_of_loop(loop: ServiceLoop) -> str:
    return loop.maker or unit_maker(loop.name)


def _together(one: Suspect, other: Suspect) -> Suspect:
    """Two instances of one template: the louder stands for both."""
    louder = max(one, other, key=lambda each: each.loop.restarts)
    restarts = one.loop.restarts + other.loop.restarts
    return louder._replace(loop=louder.loop._replace(restarts=restarts), instances=one.instances + other.instances)


def _suspect(case: Case, loop: ServiceLoop, now: Growing | None) -> Suspect:
    maker = maker_of_loop(loop)
    grown = now.of(maker) if now else 0
    if isinstance(case.remains, Gap):
        return Suspect(loop, None, 0.0, grown)
    left = case.remains.of(maker)
    return Suspect(loop, left, left.zombies / case.remains.zombies if left and case.remains.zombies else 0.0, grown)


def has_lived_them(case: Case, suspect: Suspect) -> bool:
    """Without a walk: it was restarted about as often as there are zombies, and no death of its in the window was released."""
    flows = case.flows
    if not isinstance(case.remains, Gap) or suspect.loop.kind != "unit":
        return False
    flow = None if isinstance(flows, Gap) else flows.of(suspect.maker)
    is_released = flow is not None and bool(flow.deaths) and (flow.releases or 0) >= flow.deaths
    return not is_released and has_lived(case, suspect.loop)


def _told(suspect: Suspect) -> str:
    left = f"; it has left {suspect.zombies:,} dead memory cgroups" if suspect.zombies else ""
    what = "containers" if suspect.loop.kind == "pod" else "instances"
    some = f" ({suspect.instances:,} {what})" if suspect.instances > 1 else ""
    return f"{suspect.name}{some}: {suspect.loop.why}{left}"


def _of_loop(loop: ServiceLoop, name: str, at: float) -> list[Evidence]:
    found = [Evidence(f"{name}.restarts", loop.restarts, "restarts", loop.source, at)]
    if loop.every_seconds is not None:
        found.append(Evidence(f"{name}.every", round(loop.every_seconds, 1), "seconds", loop.source, at))
    if loop.ended:
        found.append(Evidence(f"{name}.ended", loop.ended, "", loop.source, at))
    if loop.need != "unknown":
        found.append(Evidence(f"{name}.need", loop.need, "", "audit", at))
    return found


def evidence_of(case: Case, suspects: Iterable[Suspect], seen: ServicesSeen | PodsSeen) -> tuple[Evidence, ...]:
    found: list[Evidence] = []
    for suspect in suspects:
        name = suspect.name
        found += _of_loop(suspect.loop, name, seen.at)
        if suspect.left and not isinstance(case.remains, Gap):
            walked_at = case.remains.at
            found.append(Evidence(f"{name}.zombies", suspect.zombies, "zombies", "autopsy", walked_at))
            found.append(Evidence(f"{name}.share", round(suspect.share, 3), "of all zombies", "autopsy", walked_at))
    return tuple(found)
