# SPDX-License-Identifier: Apache-2.0
"""The chain: symptom to mechanism to origin, by the facts; the sentence; what does not help."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios.built import BUILT
from tests.scenarios.facts import case, cores, flows, loop, real_time, services, stretch

from zombiescope.diagnosis.chain import spell
from zombiescope.diagnosis.engine import diagnose, glance
from zombiescope.facts.cores import CoreMode
from zombiescope.facts.gap import Gap
from zombiescope.facts.units import RealTimeTask


def test_the_sentence_of_the_case() -> None:
    said = diagnose(BUILT["incident"]()).verdict
    assert said.startswith("`ecs.service` restarts every 10 s and has left 68,300 dead memory cgroups in 8 days")


def test_zombies_are_linked_to_their_pins_and_those_to_their_maker() -> None:
    found = diagnose(BUILT["two-causes"]())
    assert found.finding("zombie-population").explained_by == ("pinned-shared-memory", "pinned-page-cache")
    assert found.finding("pinned-page-cache").explained_by == ("crash-looping-unit",)
    assert found.finding("crash-looping-unit").explained_by == ()
    assert "`fetch.service` 4,000" in found.verdict


def test_who_loops_beside_the_zombies_of_others_is_innocent() -> None:
    left = {"container:docker": ("page_cache", 3000), "unit:loud.service": ("page_cache", 5)}
    found = diagnose(case(3005, left=left, services=services(loop("loud.service"))))
    assert found.finding("pinned-page-cache").explained_by == ()
    assert found.origin == "pinned-page-cache"
    assert found.chains[-1] == ("crash-looping-unit",)


def test_a_symptom_that_nothing_explains_names_no_origin() -> None:
    alone = diagnose(case(cores=cores(stretch())))
    assert (alone.origin, alone.first_remedy) == ("saturated-core", "")
    assert "what caused it was not seen" in alone.verdict
    beside = diagnose(case(3000, left={"unit:a.service": ("swap", 3000)}, cores=cores(stretch())))
    assert beside.origin == "pinned-swap"
    assert "Besides: a core saturated in the kernel" in beside.verdict


def test_a_stolen_core_is_the_hypervisors() -> None:
    stolen = case(cores=cores(stretch(mode=CoreMode.STEAL), steal=6.0))
    assert diagnose(stolen).chains[0] == ("saturated-core", "cpu-steal")
    own = case(cores=cores(stretch(mode=CoreMode.SYSTEM), steal=3.0, system=6.0))
    assert diagnose(own).finding("saturated-core").explained_by == ()


def test_a_real_time_task_explains_the_shortage_it_makes() -> None:
    hog = RealTimeTask(9, "spin", "rr", 99, 9.9)
    found = diagnose(case(cores=cores(user=10.0), real_time=real_time(hog)))
    assert found.chains == (("cpu-shortage", "real-time-hog"),)
    assert "zombies are not the cause (only 12)" in found.verdict


def test_zombies_that_are_many_are_never_said_to_be_innocent() -> None:
    found = diagnose(case(9000, left={"unit:a.service": ("anon", 9000)}, cores=cores(steal=9.0)))
    assert "zombies are not the cause" not in found.verdict


def test_what_is_useless_fits_what_was_found() -> None:
    def named(seen: str) -> set[str]:
        return {advice.what for advice in diagnose(BUILT[seen]()).useless}

    assert named("steal") == set()
    assert named("sockets") == {"cgdelete", "remounting the cgroup file systems"}
    assert "drop_caches" in named("both-diseases")
    reclaim = "reclaim (memory.reclaim, memory.high, force_empty)"
    assert reclaim in named("both-diseases"), "shared memory: swap is no cure"
    assert reclaim not in named("sockets")
    assert {"huge pages", "another allocator", "CPU affinity", "adding nodes"} <= named("incident")


def test_where_page_cache_holds_some_too_it_is_said_against_what_dropping_it_is_useless() -> None:
    left = {"unit:a.service": ("page_cache", 5000), "unit:b.service": ("tmpfs", 4000)}
    named = {advice.what for advice in diagnose(case(9000, left=left)).useless}
    assert "drop_caches against shared memory" in named and "drop_caches" not in named
    assert "reclaim (memory.reclaim, memory.high, force_empty) against shared memory" in named
    alone = {advice.what for advice in diagnose(case(9000, left={"unit:b.service": ("tmpfs", 9000)})).useless}
    assert "drop_caches" in alone


@pytest.mark.parametrize("name", BUILT)
def test_what_is_useless_against_a_walk_is_said_only_where_one_was_seen(name: str) -> None:
    found = diagnose(BUILT[name]())
    named, present = {advice.what for advice in found.useless}, {finding.id for finding in found.present}
    is_seen = bool(present & {"costly-sweep", "costly-reclaim-walk"}) and "zombie-population" in present
    assert bool(named & {"huge pages", "another allocator", "CPU affinity"}) == is_seen


def test_a_look_at_a_glance_is_the_same_disease() -> None:
    for build in BUILT.values():
        assert glance(build()).disease is diagnose(build()).disease


def test_pins_that_could_not_be_seen_are_said_to_be_unseen() -> None:
    found = diagnose(case(3000, remains=Gap("remains", "not root")))
    assert found.origin == "zombie-population"
    assert "what holds them could not be seen" in found.verdict


def test_times_are_spelled_as_they_are_said() -> None:
    spans = (0.5, 10.0, 119.0, 600.0, 3 * 3600.0, 30 * 3600.0, 8 * 86400.0)
    assert [spell(seconds) for seconds in spans] == [
        "0.5 s",
        "10 s",
        "119 s",
        "10 min",
        "3 hours",
        "30 hours",
        "8 days",
    ]


@pytest.mark.parametrize(
    ("taken", "origin"),
    [
        ({"real_time": real_time(RealTimeTask(7, "mix", "rr", 80, 9.4, 2))}, "real-time-hog"),
        ({"cores": cores(user=9.9)}, "cpu-shortage"),
    ],
)
def test_what_is_taken_now_is_told_before_a_stock_that_nobody_pays_for(taken: dict[str, Any], origin: str) -> None:
    found = diagnose(case(2_000, **taken))
    assert found.origin == origin
    assert "the 2,000 zombies beside it were not seen to cause it" in found.verdict
    assert "page cache holds the dead" in found.verdict
    worse = diagnose(case(20_000, **taken))
    assert worse.origin == "pinned-page-cache", "a critical stock is worse than a warning"


def test_a_wave_beside_an_old_stock_of_another_does_not_come_before_it() -> None:
    left = {"unit:spool.service": ("tmpfs", 3_000), "pod:a": ("page_cache", 30)}
    found = diagnose(case(3_030, left=left, grown=30, flows=flows(("pod:a", 30, 30, 0))))
    assert (found.origin, found.maker) == ("pinned-shared-memory", "unit:spool.service")
    assert "30 more in 10 s, made by pod a" in found.verdict
