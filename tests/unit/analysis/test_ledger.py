# SPDX-License-Identifier: Apache-2.0
"""Accounts by maker on a host that never stops making new ones: bounded, by name where it counts, and nothing lost."""

from __future__ import annotations

import random

import pytest

from zombiescope.analysis import maker as maker_module
from zombiescope.analysis.ledger import OTHER, Accounts
from zombiescope.analysis.looping import UnitStarts
from zombiescope.analysis.maker import Makers
from zombiescope.facts.lifecycle import Counts, Flow


def name(number: int) -> str:
    """Letters only: digits would be folded."""
    return "".join(chr(ord("g") + int(digit)) for digit in str(number))


def flow(number: int, births: int, deaths: int, releases: int) -> Flow:
    return Flow(b"/system.slice/" + name(number).encode() + b".service", Counts(births, deaths, releases))


def unit(number: int) -> str:
    return f"unit:{name(number)}.service"


def test_a_new_maker_has_its_name_also_after_a_thousand_that_left_nothing() -> None:
    accounts = Accounts()
    for number in range(1200):
        accounts.add([flow(number, 1, 1, 1)])
    accounts.add([flow(5000, 3, 3, 0)])
    assert accounts.zombies()[unit(5000)] == 3
    assert len(accounts.counts) <= 513
    assert sum(counts.births for counts in accounts.counts.values()) == 1203


def test_without_releases_nobody_is_kept_for_zombies_that_are_not_known() -> None:
    accounts = Accounts()
    for number in range(1200):
        accounts.add([flow(number, 1, 1, 0)], sees_releases=False)
    assert unit(1199) in accounts.counts


def test_those_with_zombies_are_never_forgotten() -> None:
    accounts = Accounts()
    accounts.open_with({"unit:old.service": 7}, {})
    accounts.add([flow(number, 2, 2, 1) for number in range(100)])
    for number in range(100, 1500):
        accounts.add([flow(number, 1, 1, 1)])
    zombies = accounts.zombies()
    assert zombies["unit:old.service"] == 7
    assert [zombies[unit(number)] for number in range(100)] == [1] * 100


def test_a_backlog_that_is_released_makes_way_too() -> None:
    """And a walk that was under way meanwhile counts nobody twice."""
    accounts = Accounts()
    accounts.open_with({unit(number): 2 for number in range(400)}, {})
    accounts.add([flow(number, 0, 0, 2) for number in range(400)])
    since = accounts.snapshot()
    for number in range(1000, 2000):
        accounts.add([flow(number, 1, 1, 1)])
    assert unit(0) not in accounts.counts
    accounts.add([flow(0, 1, 1, 0)])
    accounts.open_with({unit(3): 1}, since)
    assert {maker: count for maker, count in accounts.zombies().items() if count} == {unit(0): 1, unit(3): 1}


@pytest.mark.parametrize("seed", range(6))
def test_the_sum_is_the_truth_whatever_comes(seed: int) -> None:
    """More makers with zombies at once than there is room for, walks now and then, each begun some readings before it ends."""
    chance, accounts, alive = random.Random(seed), Accounts(), dict[int, int]()
    accounts.open_with({}, {})
    pending: tuple[dict[str, int], dict[str, Counts]] | None = None
    total = Counts()
    for step in range(400):
        deaths = {chance.randrange(step * 4 + 1): chance.randrange(1, 4) for _ in range(8)}
        releases = {who: chance.randrange(count + 1) for who, count in alive.items() if chance.random() < 0.02}
        flows = [
            flow(who, deaths.get(who, 0), deaths.get(who, 0), releases.get(who, 0)) for who in {*deaths, *releases}
        ]
        accounts.add(flows)
        for each in flows:
            total = total.plus(each.counts)
        for who in {*deaths, *releases}:
            alive[who] = alive.get(who, 0) + deaths.get(who, 0) - releases.get(who, 0)
        assert sum(accounts.zombies().values()) == sum(alive.values()), step
        assert len(accounts.counts) <= 513
        if step % 50 == 20:
            pending = {unit(who): count for who, count in alive.items() if count}, accounts.snapshot()
        if step % 50 == 40 and pending:
            accounts.open_with(*pending)
            assert sum(accounts.zombies().values()) == sum(alive.values()), step
    assert OTHER in accounts.counts
    assert [sum(part) for part in zip(*accounts.counts.values(), strict=True)] == list(total)


def test_names_of_paths_without_end_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker_module, "_MOST_REMEMBERED", 8)
    makers = Makers()
    assert {makers.of(b"/top/" + name(number).encode()) for number in range(100)} == {
        f"path:/top/{name(number)}" for number in range(100)
    }
    assert len(makers._known) <= 8


def test_a_unit_that_began_nothing_for_an_hour_makes_way() -> None:
    starts = UnitStarts()
    starts.take(0.0, {unit(number): Counts(births=1) for number in range(512)})
    starts.take(10.0, {unit(0): Counts(births=1), unit(600): Counts(births=5)})
    starts.take(3605.0, {unit(600): Counts(births=1)})
    (told,) = starts.take(3700.0, {unit(600): Counts(births=2)})
    assert told.detail == f"{name(600)}.service: 2 cgroups born"
