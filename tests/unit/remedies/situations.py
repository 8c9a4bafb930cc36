# SPDX-License-Identifier: Apache-2.0
"""Built situations: zombies with their pins, looping units, and the levers of a host."""

from __future__ import annotations

from typing import Any

from zombiescope.analysis.autopsy import Autopsy, Body, Reconciliation, derive_totals
from zombiescope.analysis.unit_starts import RestartPolicy
from zombiescope.diagnosis.audit import Audit, AuditSubject, UnitAudit
from zombiescope.diagnosis.engine import Diagnosis, Disease
from zombiescope.diagnosis.finding import Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.diagnosis.workload_audit import Need
from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.reaping import Levers
from zombiescope.facts.units import ServiceLoop
from zombiescope.facts.zombies import Pages, Pin, PinKind, References, Zombie

V1 = Hierarchy(HierarchyVersion.V1, b"/sys/fs/cgroup/memory", False, "")
V2 = Hierarchy(HierarchyVersion.V2, b"/sys/fs/cgroup", False, "")
UNIT = "ecs.service"


def pin(kind: PinKind, path: bytes | None = None, **facts: Any) -> Pin:
    made = Pin(kind, path, path, "ext4", "8:1", 7, 1, False, 0, 0)
    return made._replace(**facts)


def body(*pins: Pin, parent: bytes = b"/system.slice", maker: str = f"unit:{UNIT}", pages: int = 1) -> Body:
    references = References(len(pins), len(pins), 0, 0, 0)
    dead = Zombie(9, 1, parent + b"/x", 2, parent, None, None, references, Pages(pages, 0, 0, 0, 0), pins, None, None)
    return Body(dead, maker, pins)


def autopsy(*bodies: Body) -> Autopsy:
    return Autopsy(bodies, derive_totals(bodies), Reconciliation(len(bodies), None, None, None, None, ""))


def diagnosis(*present: str) -> Diagnosis:
    findings = tuple(
        Finding(name, Verdict.PRESENT, Severity.WARNING, Role.MECHANISM, name, name, ()) for name in present
    )
    return Diagnosis(Disease.ZOMBIES, "", findings)


def unit(name: str = UNIT, need: Need = Need.UNKNOWN, **facts: Any) -> UnitAudit:
    values: dict[str, Any] = {
        "path": f"/lib/systemd/system/{name}", "enabled": "enabled", "state": "activating", "from_vendor": True,
        "restarts": 9, "births": None, "zombies": None, "processes": None,
        "policy": RestartPolicy("always", 10.0, 10.0, 5), "makes_cgroups": None, "restarts_inside": False,
        "needed_by": (), "why": "nothing is known of it", "starts": True, "evidence": (),
    }  # fmt: skip
    return UnitAudit(name=name, need=need, **(values | facts))


def audit(
    *units: UnitAudit, loops: tuple[str, ...] = (UNIT,), subject: AuditSubject = AuditSubject.HOST, kind: str = "unit"
) -> Audit:
    found = tuple(ServiceLoop(name, kind, 9, "9 automatic restarts in the last hour", "journal") for name in loops)
    return Audit(subject, (), units, found, subject is AuditSubject.HOST)


def levers(hierarchy: Hierarchy = V2, **facts: Any) -> Levers:
    name = b"memory.reclaim" if hierarchy is V2 else b"memory.force_empty"
    files = frozenset({hierarchy.place(b"/system.slice", name)})
    return Levers(hierarchy=hierarchy, control_files=files, has_systemd=True)._replace(**facts)
