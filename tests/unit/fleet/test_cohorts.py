# SPDX-License-Identifier: Apache-2.0
"""The planted cause comes first, what hides it is explained by it, and a fleet without a cause gets none."""

from __future__ import annotations

import random
from itertools import product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fleets.worlds import world

from zombiescope.analysis.cohorts import MOST_COHORTS, PAIRS, compare
from zombiescope.analysis.exact_test import TwoByTwo, false_discovery, fisher_p, odds_ratio, stratified
from zombiescope.diagnosis.fleet_health import say_verdict


def by_counting(table: TwoByTwo) -> float:
    """Every table with these margins, in whole numbers."""
    inside, sick, total = table.sick_in + table.well_in, table.sick_in + table.sick_out, table.total
    ways = {
        number: comb(sick, number) * comb(total - sick, inside - number)
        for number in range(max(0, inside + sick - total), min(inside, sick) + 1)
    }
    return sum(each for each in ways.values() if each <= ways[table.sick_in]) / comb(total, inside)


@given(st.builds(TwoByTwo, *[st.integers(0, 60)] * 4))
def test_fisher_is_exact(table: TwoByTwo) -> None:
    assert fisher_p(table) == pytest.approx(by_counting(table), rel=1e-9)


def test_fisher_of_published_tables() -> None:
    assert fisher_p(TwoByTwo(8, 2, 1, 5)) == pytest.approx(0.03497, abs=1e-5)  # scipy's own example
    assert fisher_p(TwoByTwo(3, 1, 1, 3)) == pytest.approx(0.4857, abs=1e-4)  # the lady tasting tea


def test_an_empty_cell_gives_a_number_with_a_wide_range() -> None:
    found = odds_ratio(TwoByTwo(10, 0, 0, 10))
    assert found.low > 1
    assert found.high > 10 * found.value


def test_false_discovery_of_a_known_list() -> None:
    assert false_discovery([0.01, 0.04, 0.03, 0.2]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.2])
    assert false_discovery([]) == []


def test_held_still_a_confounder_loses_its_effect() -> None:
    """Simpson: worse in sum, no different within either stratum."""
    assert stratified([TwoByTwo(90, 10, 9, 1), TwoByTwo(1, 9, 10, 90)]).p_value > 0.5
    assert stratified([TwoByTwo(90, 10, 1, 9), TwoByTwo(9, 1, 10, 90)]).p_value < 1e-6


@pytest.mark.parametrize("kind", ["pair", "image", "kernel-behind-pool", "two-causes", "weak"])
def test_the_cause_is_found_and_what_hides_it_is_explained(kind: str) -> None:
    for seed in range(3):
        one = world(seed, 2500, kind)
        found = compare([node.labels for node in one.nodes], [(node.zombies or 0) >= 1000 for node in one.nodes])
        assert {frozenset(cause.cohort.labels) for cause in found.causes} == set(one.causes)
        causes = {frozenset(cause.cohort.labels) for cause in found.causes}
        assert all(frozenset(each.by) in causes for each in found.explained)
        assert not {"rack", "instance_type"} & {name for each in found.causes for name, _ in each.cohort.labels}


@pytest.mark.parametrize(("kind", "seed"), list(product(["null", "null-busy"], range(5))))
def test_without_a_cause_none_is_named(kind: str, seed: int) -> None:
    one = world(seed, 2500, kind)
    assert not compare([node.labels for node in one.nodes], [(node.zombies or 0) >= 1000 for node in one.nodes]).causes


def test_labels_that_tell_nothing_are_left_out_and_said() -> None:
    nodes = [{"serial": str(number), "planet": "earth", "zone": "ab"[number % 2]} for number in range(100)]
    found = compare(nodes, [number % 2 == 0 for number in range(100)])
    assert set(found.left_out) == {"serial", "planet"}
    assert [cause.cohort.labels for cause in found.causes] == [(("zone", "a"),)]


def test_labels_with_the_same_nodes_cannot_be_told_apart() -> None:
    nodes = [{"zone": "ab"[number % 2], "image": "xy"[number % 2], "rack": str(number % 7)} for number in range(140)]
    (cause,) = compare(nodes, [number % 2 == 0 for number in range(140)]).causes
    assert {cause.cohort.labels, *cause.cohort.same_as} == {(("zone", "a"),), (("image", "x"),)}


def test_small_cohorts_say_too_few() -> None:
    nodes = [{"zone": "rare" if number < 3 else "usual"} for number in range(100)]
    found = compare(nodes, [number < 3 for number in range(100)])
    assert ((("zone", "rare"),), 3, 3) in found.too_small
    assert not any(cause.cohort.labels == (("zone", "rare"),) for cause in found.causes)


@pytest.mark.parametrize("sick", [[], [False] * 20, [True] * 20])
def test_nothing_to_compare_is_no_cause(sick: list[bool]) -> None:
    assert not compare([{"zone": "ab"[number % 2]} for number in range(len(sick))], sick).causes


def test_of_few_nodes_it_is_said_that_nothing_can_be_told() -> None:
    nodes = [{"zone": zone, "kind": kind} for zone, kind in (("a", "x"), ("b", "x"), ("a", "y"), ("b", "y"))]
    found = compare(nodes, [True, True, False, False])
    assert found.only_sick == ((("kind", "x"),),)
    assert found.best_p > 0.01
    said = say_verdict(found)
    assert said.startswith("2 of 4 nodes are sick: too few nodes to tell what sets them apart")
    assert said.endswith("all sick nodes and no others have kind x, which may be chance")
    assert "no label is shared" in say_verdict(compare(nodes, [True, False, False, True]))


def test_of_enough_nodes_no_difference_is_told_as_such() -> None:
    one = world(2, 1000, "null")
    found = compare([node.labels for node in one.nodes], [(node.zombies or 0) >= 1000 for node in one.nodes])
    assert found.best_p < 0.01
    assert "no label sets them apart" in say_verdict(found)


def test_an_explosion_of_labels_is_bounded_and_the_cause_is_still_found() -> None:
    chance = random.Random(5)
    nodes = [{f"label_{number}": str(chance.randrange(6)) for number in range(150)} for _ in range(600)]
    for node in nodes:
        node["serial"] = str(chance.random())
    sick = [chance.random() < (0.9 if node["label_7"] == "1" and node["label_9"] == "2" else 0.02) for node in nodes]
    found = compare(nodes, sick)
    assert found.tested < 2 * MOST_COHORTS
    assert PAIRS in found.left_out
    assert "serial" in found.left_out
    assert [frozenset(cause.cohort.labels) for cause in found.causes] == [
        frozenset({("label_7", "1"), ("label_9", "2")})
    ]
