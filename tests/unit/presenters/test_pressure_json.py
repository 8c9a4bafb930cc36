# SPDX-License-Identifier: Apache-2.0
"""`pressure` of doctor/1: one axis, hostile names made printable, and a gap for every null."""

from __future__ import annotations

import json

from tests.unit.facts.test_names import HOSTILE
from tests.unit.presenters.test_gap_law import nulls

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.reclaim import NO_GROUPS, PressurePoint, PressureSeen, ThrottledGroup
from zombiescope.presenters.doctor_report import pressure_gaps, render_pressure

ODD = b"".join(HOSTILE)
REFUSED = Gap("pressure.throttled", "no cpu controller", "")


def test_all_of_it_on_one_axis() -> None:
    groups = {ODD: {"memory.some": 0.25}}
    points = (
        PressurePoint(1.7e9, 1.0, 10.0, 20.0, 30.0, 4.0, 0.5, {"cpu.some": 0.123456}, groups),
        PressurePoint(1.7e9 + 1, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, {}, {}),
    )
    seen = PressureSeen(1.7e9, 2.0, 2, points, (ThrottledGroup(ODD, 20, 5, 0.25),), (), (ODD,))
    told = render_pressure(seen)
    assert told is not None
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    first, second = told["points"]
    assert first["at"] < second["at"]
    assert (first["direct_pages"], first["kswapd_pages"], first["limit_pages"], first["major_faults"]) == (
        10,
        20,
        30,
        4,
    )
    assert first["stalls"] == {"cpu.some": 0.1235}
    assert first["groups"] == {shown(ODD): {"memory.some": 0.25}}
    assert second["groups"] == {}
    assert told["throttled"] == [{"path": shown(ODD), "periods": 20, "throttled": 5, "seconds": 0.25}]
    assert pressure_gaps(seen) == []


def test_every_null_has_its_gap_and_a_machine_that_tells_nothing_is_null() -> None:
    point = PressurePoint(1.7e9, 1.0, None, None, None, None, None, {})
    seen = PressureSeen(1.7e9, 2.0, 2, (point,), REFUSED, (REFUSED,), NO_GROUPS)
    told = render_pressure(seen)
    gaps = pressure_gaps(seen)
    assert {f"pressure.{path}" for path in nulls(told)} == {gap.fact for gap in gaps}
    assert all(gap.reason for gap in gaps)
    assert render_pressure(REFUSED) is None
    assert pressure_gaps(REFUSED) == []
