# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import inspect
from types import ModuleType

import pytest

from zombiescope.analysis import zombie_cost
from zombiescope.analysis.scan import Population
from zombiescope.diagnosis import outcome, stock, thresholds
from zombiescope.diagnosis.thresholds import Severity, Thresholds
from zombiescope.facts.cgroups import CountSource


@pytest.mark.parametrize(
    ("zombies", "live", "severity"),
    [
        (0, 1, Severity.OK),
        (999, 1000, Severity.OK),
        (1000, 100_000, Severity.WARNING),
        (9999, 100_000, Severity.WARNING),
        (10_000, 100_000, Severity.CRITICAL),
        (199, 1, Severity.OK),
        (200, 50, Severity.WARNING),
        (200, 51, Severity.OK),
        (210, 3, Severity.WARNING),
        (4_999, 5, Severity.WARNING),
        (5_000, 102, Severity.CRITICAL),
        (5_000, 103, Severity.WARNING),
    ],
)
def test_the_edges_of_the_population(zombies: int, live: int, severity: Severity) -> None:
    assert Thresholds().of_population(Population(live + zombies, live, CountSource.PROC_CGROUPS)) is severity


@pytest.mark.parametrize(
    ("count", "severity"),
    [
        (0, Severity.OK),
        (999, Severity.OK),
        (1000, Severity.WARNING),
        (9999, Severity.WARNING),
        (10_000, Severity.CRITICAL),
    ],
)
def test_the_edges_of_empty_directories(count: int, severity: Severity) -> None:
    assert Thresholds().of_empty_directories(count) is severity


def test_the_defaults_are_those_of_the_contract() -> None:
    assert Thresholds()[:6] == (1_000, 10_000, 5.0, 50.0, 200, 5_000)


@pytest.mark.parametrize(
    ("zombies", "live", "severity"),
    [(0, 240, Severity.OK), (500, 240, Severity.WARNING), (470, 240, Severity.OK), (10, 900, Severity.OK)],
)
def test_a_small_multiple_of_what_is_expected_is_a_warning_where_zombies_make_it(
    zombies: int, live: int, severity: Severity
) -> None:
    counted = Population(live + zombies, live, CountSource.PROC_CGROUPS)
    assert Thresholds(expected_live=240, ratio_least_zombies=10_000).of_population(counted) is severity
    assert Thresholds(ratio_least_zombies=10_000).of_population(counted) is Severity.OK


@pytest.mark.parametrize("module", [thresholds, zombie_cost, stock, outcome])
def test_each_number_that_is_compared_with_is_argued(module: ModuleType) -> None:
    """The line below it says what it rests on."""
    body = ast.parse(inspect.getsource(module)).body
    for block in [body, *(each.body for each in body if isinstance(each, ast.ClassDef))]:
        for number, reason in zip(block, [*block[1:], ast.Pass()], strict=True):
            if isinstance(number, ast.Assign | ast.AnnAssign) and _is_number(number.value):
                assert isinstance(reason, ast.Expr), f"{ast.unparse(number)}: why?"


def _is_number(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)
