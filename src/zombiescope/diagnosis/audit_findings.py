# SPDX-License-Identifier: Apache-2.0
"""The audit's findings, by the rules that `doctor` judges with: loops now, agents nobody needs, and what an image will do when it
boots. Absent only where it is known what starts, and nothing that may loop is left without a verdict. And what changed since an
audit that somebody accepted: services that start now, no longer, or in another way."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from zombiescope.diagnosis.audit import Audit, AuditSubject
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding
from zombiescope.diagnosis.rules import crash_looping_unit, image_risk, looping_container, unneeded_agent
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.diagnosis.workload_audit import Need
from zombiescope.errors import UsageError
from zombiescope.facts.names import few, shown


def judge_audit(audit: Audit, at: float) -> tuple[Finding, ...]:
    unneeded = unneeded_agent.judge_audit(audit, at) or _not_seen(audit, at, unneeded_agent.FINDING, _none_of(audit))
    if audit.subject is AuditSubject.HOST:
        return crash_looping_unit.judge_audit(audit, at), looping_container.judge_audit(audit, at), unneeded
    return unneeded, image_risk.judge_audit(audit, at) or _not_seen(audit, at, image_risk.FINDING, "no such unit")


def _none_of(audit: Audit) -> str:
    unsure = len(audit.not_judged_names)
    tail = f"; {unsure} could not be judged" if unsure else ""
    workloads = sum(one.starts for one in audit.workloads if one.workload.is_container)
    beside = f" and {workloads} containers" if workloads else ""
    return f"none of {len(audit.starting)} services{beside}{tail}"


def _not_seen(audit: Audit, at: float, declared: Declaration, summary: str) -> Finding:
    if audit.cannot_tell:
        return declared.unknown(audit.cannot_tell)
    units, workloads = audit.loop_risks, audit.unsure_workloads
    told = [f"{unit.name}: {image_risk.told_risk(unit.loop_why, unit.policy.restarts_per_day)}" for unit in units]
    told += [f"{one.name}: {one.lives.why}" for one in workloads]
    if not told and audit.unread_workloads:
        return declared.unknown(audit.unread_workloads[0].reason)
    if not told:
        return declared.absent(summary)
    evidence = tuple(Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, at) for unit in units)
    evidence += tuple(Evidence(f"{one.name}: {one.lives.why}", one.why, "", one.workload.path, at) for one in workloads)
    summary = f"{summary}; nobody could say whether these are needed, and they may be restarted for ever: {few(told)}"
    return declared.unknown(summary, evidence)._replace(severity=Severity.WARNING)


SCHEMA = "zombiescope.audit/1"
_HINT = "give a document of zombiescope audit --json"


class UnitWord(NamedTuple):
    """What was said of a service that starts. The fields are those of `units[]` in the document."""

    enabled: str
    restart_policy: str
    can_loop: bool | None
    restarts_inside: bool
    makes_cgroups: bool | None
    verdict: str

    @property
    def may_loop(self) -> bool:
        return self.can_loop is not False or self.restarts_inside


@dataclass(frozen=True, slots=True)
class Accepted:
    taken_at: str
    source: str
    units: Mapping[str, UnitWord]


@dataclass(frozen=True, slots=True)
class UnitChange:
    unit: str
    kind: str
    """added, removed or changed."""
    field: str
    before: str | bool | None
    after: str | bool | None
    is_worse: bool
    """Somebody has to look: it was not there when the audit was accepted, and may be a risk."""


@dataclass(frozen=True, slots=True)
class AuditChanges:
    accepted: Accepted
    changes: tuple[UnitChange, ...]

    @property
    def worse(self) -> list[UnitChange]:
        return [change for change in self.changes if change.is_worse]


def parse_accepted(text: bytes, source: str) -> Accepted:
    """Raises UsageError for what is no document of an audit."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot compare with {source}", f"it is not JSON: {error}", _HINT) from error
    if (
        not isinstance(document, dict)
        or document.get("schema") != SCHEMA
        or not isinstance(document.get("units"), list)
    ):
        raise UsageError(f"cannot compare with {source}", f"it is not a {SCHEMA} document", _HINT)
    units: dict[str, UnitWord] = {}
    for row in document["units"]:
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise UsageError(f"cannot compare with {source}", "a unit in it has no name", _HINT)
        if row.get("starts") is True:
            units[row["name"]] = _word(row)
    return Accepted(str(document.get("taken_at")), str(document.get("source")), units)


def _word(row: Mapping[str, Any]) -> UnitWord:
    can_loop, makes = row.get("can_loop"), row.get("makes_cgroups")
    return UnitWord(
        enabled=str(row.get("enabled")),
        restart_policy=str(row.get("restart_policy")),
        can_loop=can_loop if isinstance(can_loop, bool) else None,
        restarts_inside=row.get("restarts_inside") is True,
        makes_cgroups=makes if isinstance(makes, bool) else None,
        verdict=str(row.get("verdict")),
    )


def compare(accepted: Accepted, audit: Audit) -> AuditChanges:
    now = {
        shown(unit.name.encode()): UnitWord(
            unit.enabled,
            unit.policy.restart,
            unit.policy.can_loop,
            unit.restarts_inside,
            unit.makes_cgroups,
            str(unit.need),
        )
        for unit in audit.starting
    }
    changes = [
        change
        for name in sorted({*now, *accepted.units})
        for change in _changes(name, accepted.units.get(name), now.get(name))
    ]
    return AuditChanges(accepted, tuple(sorted(changes, key=lambda change: not change.is_worse)))


def _changes(name: str, before: UnitWord | None, after: UnitWord | None) -> Iterable[UnitChange]:
    if after is None:
        yield UnitChange(name, "removed", "verdict", before.verdict if before else None, None, is_worse=False)
    elif before is None:
        yield UnitChange(name, "added", "verdict", None, after.verdict, is_worse=after.verdict != Need.NEEDED)
    else:
        for field, old, new in zip(UnitWord._fields, before, after, strict=True):
            if old != new:
                yield UnitChange(name, "changed", field, old, new, is_worse=_is_worse(field, before, after))


def _is_worse(field: str, before: UnitWord, after: UnitWord) -> bool:
    if field == "verdict":
        return after.verdict != Need.NEEDED
    return field in ("can_loop", "restarts_inside") and after.may_loop and not before.may_loop
