# SPDX-License-Identifier: Apache-2.0
"""The line to paste never carries a step with a trifling gain or one that the whole host pays for: these are named apart."""

from __future__ import annotations

import pytest
from tests.unit.remedies.situations import V1, autopsy, body, diagnosis, levers, pin

from zombiescope.facts.zombies import PinKind
from zombiescope.presenters.plan_text import render_plan_text
from zombiescope.remedies.plan import DropCaches, Expected, Plan, Reclaim, ReclaimWay, SwapIn
from zombiescope.remedies.planner import propose

MAPPED = pin(PinKind.PAGE_CACHE, b"/usr/lib/x.so", mapped=1)


def lines(plan: Plan) -> list[str]:
    return "\n".join(str(part) for part in render_plan_text(plan, ())).splitlines()


def a_plan(few: int, many: int) -> Plan:
    """On v1: `few` zombies right below the root, `many` below a slice."""
    node = (b"/sys/devices/system/node/node0/reclaim",)
    bodies = [body(MAPPED, parent=b"/") for _ in range(few)] + [body(MAPPED) for _ in range(many)]
    return propose(diagnosis("zombie-population"), autopsy(*bodies), None, levers(V1, node_reclaim=node))


def test_reclaim_of_the_whole_host_for_two_zombies_is_named_apart() -> None:
    plan = a_plan(few=2, many=81)
    assert [step.name for step in plan.own_steps] == ["reclaim:/system.slice", "reclaim:/"]
    assert plan.consents == ("reclaim:/system.slice",)
    *_, apart, _, _, last = lines(plan)
    assert last == "to do it: zombiescope apply --yes --consent reclaim:/system.slice"
    assert "frees at most 2 of 83 zombies and slows down the whole host" in apart
    assert apart.endswith("to allow it, add --consent reclaim:/")


def test_where_nothing_else_is_left_the_line_allows_nothing_by_itself() -> None:
    plan = a_plan(few=2, many=0)
    assert plan.consents == ()
    assert lines(plan)[-1] == "to do one of them all the same: zombiescope apply --yes --consent NAME"


@pytest.mark.parametrize(("up_to", "zombies", "is_apart"), [(2, 83, True), (0, 5, True), (9, 1000, True),
                                                          (2, 2, False), (30, 1000, False), (1, 5, False)])  # fmt: skip
def test_what_is_trifling_depends_on_how_many_there_are(up_to: int, zombies: int, is_apart: bool) -> None:
    plan = a_plan(few=0, many=3)._replace(zombies=zombies)
    (step,) = plan.own_steps
    plan = plan._replace(steps=(step._replace(expected=Expected(None, None, up_to, "")),))
    assert [each.name for each in plan.set_apart] == (["reclaim:/system.slice"] if is_apart else [])
    assert plan.consents == (() if is_apart else ("reclaim:/system.slice",))


@pytest.mark.parametrize(
    ("change", "is_whole"),
    [
        (DropCaches(), True),
        (SwapIn((b"/swap",)), True),
        (Reclaim(b"/a", ReclaimWay.NODE, (), 1), True),
        (Reclaim(b"/", ReclaimWay.MEMORY_RECLAIM, (), 1), True),
        (Reclaim(b"/a", ReclaimWay.FORCE_EMPTY, (), 1), False),
    ],
)
def test_what_the_whole_host_pays_for_is_apart_whatever_it_frees(
    change: DropCaches | SwapIn | Reclaim, is_whole: bool
) -> None:
    plan = a_plan(few=0, many=3)
    plan = plan._replace(steps=tuple(step._replace(change=change) for step in plan.own_steps))
    assert bool(plan.set_apart) is is_whole
