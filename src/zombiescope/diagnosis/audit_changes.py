# SPDX-License-Identifier: Apache-2.0
"""What changed since an audit that somebody accepted: services that start now, no longer, or in another way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from zombiescope.diagnosis.audit import Audit
from zombiescope.diagnosis.workload_audit import Need
from zombiescope.errors import UsageError
from zombiescope.facts.names import shown

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
