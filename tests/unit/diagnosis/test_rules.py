# SPDX-License-Identifier: Apache-2.0
"""Each rule of the window: where it is there, where it is not, and that a missing fact is never taken for an absence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.build import observed
from tests.scenarios.built import BUILT
from tests.scenarios.facts import case, cores, loop, real_time, services, unneeded

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.catalogue import RULES
from zombiescope.diagnosis.engine import diagnose
from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.rules import memory_shortage
from zombiescope.facts.gap import Gap
from zombiescope.facts.units import RealTimeTask

HOG = RealTimeTask(4711, "spin", "fifo", 50, 9.0, 2)
NAP = HOG._replace(seconds=0.3)
PINS = {
    "pinned-page-cache": "page_cache",
    "pinned-shared-memory": "sysv_shm",
    "pinned-swap": "swap",
    "pinned-writeback": "writeback",
    "pinned-other": "namespace",
}


def finding(wanted: str, seen: Case) -> Finding:
    return diagnose(seen).finding(wanted)


@pytest.mark.parametrize(("wanted", "kind"), PINS.items())
def test_a_pin_is_told_where_it_holds_enough_of_enough_zombies(wanted: str, kind: str) -> None:
    found = finding(wanted, case(3000, left={"unit:a.service": (kind, 2700), "unit:b.service": ("anon", 300)}))
    assert found.verdict is Verdict.PRESENT
    assert "made by a.service" in found.summary
    assert {item.fact: item.value for item in found.evidence}[f"pinned.{kind}"] == 2700
    assert found.remedies


@pytest.mark.parametrize(("wanted", "kind"), PINS.items())
def test_a_pin_is_not_told_of_a_few(wanted: str, kind: str) -> None:
    few = case(3000, left={"unit:a.service": (kind, 100), "unit:b.service": ("tmpfs", 2900)})
    if wanted != "pinned-shared-memory":
        assert finding(wanted, few).verdict is Verdict.ABSENT
    assert finding(wanted, case(40, left={"unit:a.service": (kind, 40)})).verdict is Verdict.ABSENT


def test_who_leaves_more_is_named_before_who_restarts_more() -> None:
    found = finding("crash-looping-unit", BUILT["one-cause"]())
    assert found.summary.startswith("quiet.service")
    assert [item.fact for item in found.evidence if item.fact.endswith(".zombies")] == ["quiet.service.zombies"]


@pytest.mark.parametrize(
    ("need", "remedy"), [("unneeded", "stop-unit"), ("needed", "limit-restarts"), ("unknown", "limit-restarts")]
)
def test_only_what_nothing_needs_is_stopped(need: str, remedy: str) -> None:
    found = finding("crash-looping-unit", case(services=services(loop("a.service", need=need))))
    assert (found.verdict, found.remedies[0]) == (Verdict.PRESENT, remedy)


def test_children_that_leave_nothing_are_churn() -> None:
    churn = services(loop("dockerd.service", 40, kind="inside"))
    found = finding("looping-container", case(services=churn))
    assert found.verdict is Verdict.ABSENT
    assert "churn, not a leak" in found.summary
    assert finding("looping-container", case(services=churn, remains=Gap("remains", "no"))).verdict is Verdict.UNKNOWN
    left = {"unit:dockerd.service": ("page_cache", 900)}
    assert finding("looping-container", case(900, left=left, services=churn)).verdict is Verdict.PRESENT


def test_a_runtimes_own_count_of_restarts_is_believed() -> None:
    found = finding("looping-container", case(services=services(loop("web", 12, kind="container"))))
    assert (found.verdict, found.remedies[0]) == (Verdict.PRESENT, "stop-container")


def test_without_systemd_nothing_is_said_of_units() -> None:
    mute = services(was_systemd_asked=False)
    assert finding("crash-looping-unit", case(services=mute)).verdict is Verdict.UNKNOWN
    unread = services(were_files_read=False)
    assert finding("unneeded-agent", case(services=unread)).verdict is Verdict.UNKNOWN
    assert finding("image-risk", case(services=unread)).verdict is Verdict.UNKNOWN


def test_an_image_is_blamed_for_what_its_vendor_put_there() -> None:
    own = services(unneeded=(unneeded(from_vendor=False),))
    assert finding("image-risk", case(services=own)).verdict is Verdict.ABSENT
    theirs = services(unneeded=(unneeded(),))
    found = finding("image-risk", case(services=theirs))
    assert found.verdict is Verdict.PRESENT
    assert "8,640 restarts per day" in found.summary
    assert found.explained_by == ("unneeded-agent",)


@pytest.mark.parametrize(
    ("wanted", "facts", "verdict"),
    [
        ("cpu-steal", {"cores": cores(steal=2.0)}, Verdict.PRESENT),
        ("cpu-steal", {"cores": cores(steal=0.2)}, Verdict.ABSENT),
        ("cpu-shortage", {"cores": cores(user=9.7)}, Verdict.PRESENT),
        ("cpu-shortage", {"cores": cores(user=8.0)}, Verdict.ABSENT),
        ("cpu-shortage", {"cores": cores(user=2.0, steal=8.0)}, Verdict.ABSENT),
        ("cpu-shortage", {"cores": cores(user=2.0, system=8.0)}, Verdict.ABSENT),
        ("cpu-shortage", {"cores": cores(user=4.5, system=0.5, lost=5.0)}, Verdict.PRESENT),
        ("cpu-shortage", {"cores": cores(user=2.0, system=3.0, lost=5.0)}, Verdict.ABSENT),
        ("cpu-shortage", {"cores": cores(lost=10.0)}, Verdict.UNKNOWN),
        ("real-time-hog", {"real_time": real_time(HOG)}, Verdict.PRESENT),
        ("real-time-hog", {"real_time": real_time(NAP)}, Verdict.ABSENT),
        ("real-time-hog", {"real_time": real_time(seconds=0.0)}, Verdict.UNKNOWN),
        ("cpu-steal", {"cores": cores()._replace(uses=())}, Verdict.UNKNOWN),
    ],
)
def test_what_competes(wanted: str, facts: dict[str, Any], verdict: Verdict) -> None:
    assert finding(wanted, case(**facts)).verdict is verdict


SNAPSHOT_FIELDS = ("census", "residuals", "sweep", "empty_directories")
CASE_FIELDS = [name for name, default in Case._field_defaults.items() if isinstance(default, Gap)]


def without(whole: Case, field: str) -> Case:
    lost: dict[str, Any] = {field: Gap(field, "unread")}
    return whole._replace(**lost)


def gapped(whole: Case) -> Iterator[Case]:
    """Each fact missing, one after the other."""
    for field in CASE_FIELDS:
        yield without(whole, field)
    for field in SNAPSHOT_FIELDS:
        lost: dict[str, Any] = {field: Gap(field, "unread")}
        looks = [look.snapshot._replace(**lost) for look in whole.observations]
        yield whole._replace(observations=tuple(map(observed, looks)))


BY_HARM = frozenset({"small-harm"})
"""A small stock that is a finding only for the harm that was measured."""


@pytest.mark.parametrize("name", BUILT)
def test_a_missing_fact_may_give_unknown_and_never_another_verdict(name: str) -> None:
    whole = BUILT[name]()
    full = {rule.FINDING.id: rule.judge(whole).verdict for rule in RULES}
    for seen in gapped(whole):
        for rule in RULES:
            if name in BY_HARM and rule.FINDING.id != memory_shortage.FINDING.id:
                continue  # without the harm it is judged by its number alone
            assert rule.judge(seen).verdict in (full[rule.FINDING.id], Verdict.UNKNOWN), rule.FINDING.id
        diagnose(seen)


def test_every_fact_of_a_window_is_some_rules() -> None:
    """Each field turned into a gap makes some rule say that it cannot know."""
    whole = BUILT["incident"]()
    for field in ("cores", "remains", "services", "real_time"):
        seen = without(whole, field)
        lost = [
            rule
            for rule in RULES
            if rule.judge(seen).verdict is Verdict.UNKNOWN and rule.judge(whole).verdict is not Verdict.UNKNOWN
        ]
        assert lost, field
