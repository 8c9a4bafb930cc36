# SPDX-License-Identifier: Apache-2.0
"""The published decision matrix, corrected: each situation and what the rules say to do first, and never."""

from __future__ import annotations

from tests.unit.remedies.situations import UNIT, V1, audit, autopsy, body, diagnosis, levers, pin, unit

from zombiescope.diagnosis.workload_audit import Need
from zombiescope.facts.zombies import PinKind
from zombiescope.remedies.plan import Plan
from zombiescope.remedies.planner import propose

CACHE = pin(PinKind.PAGE_CACHE, b"/var/log/x")


def said(plan: Plan) -> str:
    return " ".join(f"{step.name} {step.title} {step.why} {step.change}" for step in plan.steps)


def test_v1_with_persistent_growth_stops_the_maker_and_reaps_and_does_not_send_anybody_to_v2() -> None:
    here = levers(V1, control_files=frozenset({V1.place(b"/system.slice", b"memory.force_empty")}))
    plan = propose(diagnosis("zombie-growth"), autopsy(body(CACHE)), audit(unit(need=Need.UNNEEDED)), here)
    assert [step.name for step in plan.steps] == [f"stop:{UNIT}", f"mask:{UNIT}", "drop-files", "newer-kernel"]
    assert "moving to cgroup v2 without it leaves the same pins" in plan.steps[-1].why


def test_several_agents_with_nothing_to_serve_are_each_disabled_with_evidence_and_undo() -> None:
    agents = [unit(f"agent{number}.service", Need.UNNEEDED, why="no cluster is configured") for number in range(3)]
    plan = propose(diagnosis("unneeded-agent"), None, audit(*agents, loops=()), levers())
    assert [step.name for step in plan.steps if step.name.startswith("mask:")] == [
        f"mask:agent{number}.service" for number in range(3)
    ]
    assert all("no cluster is configured" in step.why and step.undo != "none" for step in plan.steps)


def test_reclaim_over_zombies_frees_the_zombies_before_anything_host_wide() -> None:
    plan = propose(diagnosis("costly-reclaim-walk", "zombie-population"), autopsy(body(CACHE)), None, levers())
    assert plan.steps[0].name == "drop-files"
    assert "drop_caches" not in said(plan)


def test_what_cannot_work_is_never_proposed() -> None:
    bodies = [body(pin(kind)) for kind in PinKind if kind is not PinKind.CHILD]
    words = said(propose(diagnosis("zombie-population"), autopsy(*bodies), audit(unit(need=Need.UNNEEDED)), levers()))
    for wrong in ("cgdelete", "remount", "/bin/true", "ExecStart", "rmdir", "cgroupVersion"):
        assert wrong not in words
