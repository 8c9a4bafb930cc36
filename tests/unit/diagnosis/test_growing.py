# SPDX-License-Identifier: Apache-2.0
"""What grows now and who makes it: by events, by births of what a walk found, by deaths, by the count alone."""

from __future__ import annotations

import pytest
from tests.scenarios.facts import case, flows, loop, remains, services

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import diagnose
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import zombie_growth
from zombiescope.diagnosis.stock import (
    BY_COUNT,
    BY_DEATHS,
    BY_EVENTS,
    BY_RHYTHM,
    BY_WALK,
    growing_of,
    makers_that_grow,
)
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap

GAP = Gap("flows", "not watched")


def test_events_name_who_left_most_and_what_was_released_is_not_left() -> None:
    seen = flows(("unit:a.service", 50, 50, 20), ("unit:b.service", 90, 90, 90), ("unit:c.service", 12, 12, 0))
    now = growing_of(case(60, grown=42, flows=seen))
    assert now is not None
    assert (now.makers, now.source, now.grown) == ((("unit:a.service", 30), ("unit:c.service", 12)), BY_EVENTS, 42)


def test_without_events_the_births_of_what_a_walk_found_name_it_and_else_the_deaths() -> None:
    held = remains({"unit:a.service": ("tmpfs", 40)})._replace(lately={"unit:a.service": 25})
    now = growing_of(case(40, grown=28, flows=GAP)._replace(remains=held))
    assert now is not None
    assert (now.maker, now.source) == ("unit:a.service", BY_WALK)
    polled = flows(("unit:a.service", 30, 30, None), tier="polling")
    now = growing_of(case(40, grown=28, flows=polled)._replace(remains=GAP))
    assert now is not None
    assert (now.makers, now.source, now.is_sure) == ((("unit:a.service", 28),), BY_DEATHS, False)
    now = growing_of(case(40, grown=28, flows=GAP)._replace(remains=GAP))
    assert now is not None
    assert (now.maker, now.source) == ("", BY_COUNT)


def test_noise_a_fall_and_a_steady_count_are_no_growth() -> None:
    assert growing_of(case(40, grown=9, flows=GAP)) is None
    assert growing_of(case(40, grown=-30, flows=GAP)) is None
    steady = flows(("unit:a.service", 400, 400, 395))
    assert growing_of(case(40, grown=20, flows=steady)) is None, "every death was seen, and its release"


def test_growth_stands_in_the_first_line_whatever_else_is_wrong() -> None:
    seen = flows(("unit:new.service", 40, 40, 0))
    found = diagnose(case(3_040, left={"unit:old.service": ("page_cache", 3_000)}, grown=40, flows=seen))
    assert "40 more in 10 s, made by new.service" in found.verdict
    assert "nothing was seen to make more" not in found.verdict
    assert makers_that_grow(case(40, grown=28, flows=seen)) == ("unit:new.service",)


def test_a_short_window_is_a_warning_at_most_however_fast_it_grows() -> None:
    seen = case(9_012, grown=9_000, flows=flows(("unit:a.service", 9_000, 9_000, 0)), left={})
    finding = zombie_growth.judge(seen)
    assert (finding.verdict, finding.severity) == (Verdict.PRESENT, Severity.WARNING)
    assert "too short to tell a wave from a leak: watch longer with zombiescope doctor --seconds 180" in finding.summary


@pytest.mark.parametrize(
    ("deaths", "releases", "stock", "left"),
    [
        (5, 0, 40, 5), (3, 0, 40, 3), (2, 0, 40, 0), (5, 1, 40, 4), (10, 1, 380, 9), (10, 6, 380, 0),
        (5, 0, 6, 5), (9, 0, 9, 9), (4, 0, 6, 0), (8, 0, None, 8), (8, 2, None, 0), (4, 0, None, 0),
    ],
)  # fmt: skip
def test_a_handful_counts_where_hardly_one_is_released(
    deaths: int, releases: int, stock: int | None, left: int
) -> None:
    """Few in the window: enough beside many of the same maker's, and a few more without them. `stock` None: nobody can walk."""
    held = GAP.about("remains") if stock is None else remains({"unit:a.service": ("page_cache", stock)})
    seen = case(40, flows=flows(("unit:a.service", deaths, deaths, releases)))._replace(remains=held)
    now = growing_of(seen)
    assert (now.makers if now else ()) == ((("unit:a.service", left),) if left else ())
    if now:
        finding = zombie_growth.judge(seen)
        assert finding.severity is Severity.WARNING
        assert "too short to tell a wave from a leak" in finding.summary


def test_a_handful_of_pods_that_left_one_each_are_told_together() -> None:
    pods = [(f"pod:0c1d2e3f-0000-4000-8000-{number:012d}", 1, 1, 0) for number in range(6)]
    now = growing_of(case(40, flows=flows(*pods)))
    assert now is not None
    assert now.makers == (("pod:*", 6),)


def test_churn_that_is_released_a_moment_later_is_no_growth_however_much_is_on_its_way() -> None:
    seen = flows(("container:docker", 600, 600, 580))
    assert growing_of(case(90, grown=1, flows=seen)) is None
    assert growing_of(case(90, grown=20, flows=seen)) is not None, "the count rose by them"


def test_a_loop_that_left_a_handful_while_we_looked_is_not_said_to_leave_nothing() -> None:
    seen = flows(("unit:a.service", 6, 6, 0))
    found = diagnose(case(20, grown=6, flows=seen, services=services(loop("a.service", 6, every_seconds=1.5))))
    assert (found.origin, found.maker) == ("crash-looping-unit", "unit:a.service")
    assert "not a leak" not in found.verdict
    assert "6 more in 10 s, made by a.service; too short to tell" in found.verdict


def blind_loop(every: float, *, grown: int, restarts: int = 2_300) -> Case:
    seen = services(loop("shipper.service", restarts, every_seconds=every))
    return case(2_310, grown=grown, flows=GAP, services=seen)._replace(remains=GAP.about("remains"))


def test_without_events_and_a_walk_a_loop_in_step_with_the_count_is_named_as_likely() -> None:
    now = growing_of(blind_loop(2.0, grown=5))
    assert now is not None
    assert (now.makers, now.source, now.is_sure) == ((("unit:shipper.service", 5),), BY_RHYTHM, False)
    said = diagnose(blind_loop(2.0, grown=5)).verdict
    assert "most likely they are its own" in said
    assert "their number rose by 5 while we looked" in said
    assert "the maker is not known" not in diagnose(blind_loop(0.5, grown=20)).verdict, (
        "above the noise it is the same unit"
    )


def test_a_loop_out_of_step_or_with_too_few_restarts_is_not_named_for_the_count() -> None:
    assert growing_of(blind_loop(1_200.0, grown=5)) is None, "it restarted not once in the window"
    assert growing_of(blind_loop(2.0, grown=2)) is None, "two are noise"
    assert growing_of(blind_loop(2.0, grown=5, restarts=300)) is None, "the stock is of somebody else"
    now = growing_of(blind_loop(2.0, grown=40))
    assert now is not None
    assert (now.maker, now.source) == ("", BY_COUNT)


def test_a_loop_whose_deaths_nobody_watched_is_not_said_to_release_none() -> None:
    said = diagnose(blind_loop(2.0, grown=0)).verdict
    assert "whether the kernel releases its dead could not be watched" in said
    assert "seen to be released" not in said


def test_of_two_loops_that_both_fit_the_verdict_names_both_and_blames_neither() -> None:
    loud, quiet = loop("loud.service", 90_000, every_seconds=1.0), loop("ecs.service", 70_000)
    seen = case(68_440, flows=GAP, services=services(loud, quiet))._replace(remains=GAP.about("remains"))
    found = diagnose(seen)
    assert found.maker == ""
    assert "one of `loud.service` (restarted 90,000 times) and `ecs.service` (restarted 70,000 times)" in found.verdict
    assert "its own" not in found.verdict
