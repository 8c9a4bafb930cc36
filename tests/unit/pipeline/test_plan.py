# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from tests.build import Cgroup, v2_machine, write_machine
from tests.unit.remedies.situations import autopsy, body, pin

from zombiescope.analysis.autopsy import Autopsy
from zombiescope.facts.zombies import PinKind
from zombiescope.host.access import Host
from zombiescope.pipeline import plan
from zombiescope.pipeline.autopsy import Dissected, dissect
from zombiescope.pipeline.doctor import Examined, examine

SEEN = autopsy(
    body(pin(PinKind.TMPFS, b"/dev/shm/a"), parent=b"/a", maker="unit:a.service"),
    body(pin(PinKind.TMPFS, b"/dev/shm/b"), parent=b"/a/below", maker="unit:b.service"),
    body(pin(PinKind.TMPFS, b"/dev/shm/c"), parent=b"/c", maker="unit:a.service"),
)


@pytest.fixture
def root(tmp_path: Path) -> bytes:
    return write_machine(tmp_path, v2_machine({b"/a": Cgroup(zombies=2), b"/c": Cgroup(zombies=1)}))


def looks_once(monkeypatch: pytest.MonkeyPatch, seen: Autopsy | None) -> list[str]:
    """The diagnosis saw `seen`; what is dissected beside it is counted."""
    more: list[str] = []

    def once(host: Host, _seconds: float, **_more: object) -> Examined:
        return examine(host, 0)._replace(autopsy=seen)

    def again(host: Host) -> Dissected:
        more.append("again")
        return dissect(host)

    monkeypatch.setattr(plan, "examine", once)
    monkeypatch.setattr(plan, "dissect", again)
    return more


@pytest.mark.parametrize(
    ("scope", "parents"),
    [
        (plan.Scope(), [b"/a", b"/a/below", b"/c"]),
        (plan.Scope(maker="unit:a*"), [b"/a", b"/c"]),
        (plan.Scope(below=b"/a"), [b"/a", b"/a/below"]),
        (plan.Scope(maker="unit:a*", below=b"/a"), [b"/a"]),
    ],
)
def test_what_the_diagnosis_saw_is_not_looked_for_again(
    monkeypatch: pytest.MonkeyPatch, root: bytes, scope: plan.Scope, parents: list[bytes]
) -> None:
    more = looks_once(monkeypatch, SEEN)
    planned = plan.make_plan(root, scope, 0)
    assert more == []
    assert planned.autopsy is not None
    assert [each.zombie.parent for each in planned.autopsy.bodies] == parents
    assert planned.autopsy.totals.zombies == len(parents)


def test_where_it_saw_none_one_by_one_they_are_looked_for(monkeypatch: pytest.MonkeyPatch, root: bytes) -> None:
    more = looks_once(monkeypatch, None)
    planned = plan.make_plan(root, plan.Scope(), 0)
    assert more == ["again"]
    assert "steps[].expected" in {gap.fact for gap in planned.gaps}


@pytest.mark.parametrize("scope", [plan.Scope(maker="unit:*"), plan.Scope(below=b"/a")])
def test_of_a_choice_among_zombies_that_nobody_saw_the_number_is_unknown(root: bytes, scope: plan.Scope) -> None:
    planned = plan.make_plan(root, scope, 0)
    assert planned.autopsy is None
    assert {"zombies", "steps[].expected"} <= {gap.fact for gap in planned.gaps}
