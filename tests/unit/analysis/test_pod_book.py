# SPDX-License-Identifier: Apache-2.0
"""Names outlive their pods, within bounds; what was booked under a uid is the workload's once it has a name."""

from __future__ import annotations

import json

from tests.unit.kube_nodes import UID_A, UID_B

from zombiescope.analysis.growth import GrowthWatch
from zombiescope.analysis.ledger import Accounts, by_label
from zombiescope.analysis.pod_owner import MOST_PODS, PodBook
from zombiescope.facts.cgroups import Look
from zombiescope.facts.lifecycle import Counts, Flow
from zombiescope.facts.pods import Owner, Pod

CRASHY = Pod(UID_A, "shop", "crashy-7d4b9c8f6-x2z4k", Owner("Deployment", "crashy"))
MAKER = "workload:shop/Deployment/crashy"


def flow(uid: str, deaths: int) -> Flow:
    return Flow(f"/kubepods/pod{uid}/{'ab' * 32}".encode(), Counts(deaths, deaths, 0))


def test_what_was_booked_by_uid_becomes_the_workloads() -> None:
    book = PodBook()
    accounts = Accounts(book.makers)
    accounts.add([flow(UID_A, 5), flow(UID_B, 2)])
    accounts.open_with({f"pod:{UID_A}": 12}, {})
    assert accounts.zombies()[f"pod:{UID_A}"] == 17
    accounts.rename(book.take([CRASHY]))
    accounts.add([flow(UID_A, 3)])
    zombies = accounts.zombies()
    assert zombies[MAKER] == 20
    assert f"pod:{UID_A}" not in zombies
    assert by_label(zombies) == {MAKER: 20, "pod:*": 2, "other": 0}


def test_a_name_that_comes_later_is_no_growth() -> None:
    book = PodBook()
    accounts, growing = Accounts(book.makers), GrowthWatch()
    accounts.open_with({f"pod:{UID_A}": 500}, {})
    for second in range(0, 600, 10):
        growing.take_look(float(second), Look(600, 100), 0)
        growing.take_makers(float(second), accounts)
        if second == 300:
            names = book.take([CRASHY])
            accounts.rename(names)
            growing.rename(names)
    found = growing.growth(1_000.0, 10, [])
    assert found is None or not found.makers


def test_names_are_kept_within_bounds_and_those_with_zombies_longest() -> None:
    book = PodBook()
    book.take([CRASHY])
    many = [
        Pod(f"{n:08x}-0d5b-4a3a-8a6a-7b6f0c8e1d2a", "ci", f"job-{n}", Owner("Job", "job")) for n in range(MOST_PODS)
    ]
    book.take(many[:-1])
    book.still([UID_A])
    book.take(many[-1:])
    assert len(book.pods) == MOST_PODS
    assert UID_A in book.makers
    assert many[0].uid not in book.makers


def test_hostile_names_survive_being_written_down() -> None:
    hostile = Pod(UID_B, r"n\x0as", "<b>\"'; rm -rf / #\u202e", Owner("Pod", "<b>\"'; rm -rf / #\u202e"))
    book = PodBook()
    book.take([CRASHY, hostile], [("ab" * 32, "<i>")])
    again = PodBook()
    assert again.load(json.loads(json.dumps(book.to_plain())))
    assert dict(again.pods) == dict(book.pods)
    assert again.containers == {"abababababab": "<i>"}


def test_rubbish_is_no_book() -> None:
    book = PodBook()
    many: tuple[object, ...] = (None, 7, [], {}, {"pods": 3, "containers": []}, {"pods": [[1, 2]], "containers": []})
    for rubbish in many:
        assert not book.load(rubbish)
    assert not book.load({"pods": [[UID_A, "x" * 5000, "n", "Pod", "n", True]], "containers": []})
    assert not book.pods


def test_what_somebody_said_is_not_overwritten_by_a_guess() -> None:
    book = PodBook()
    book.take([CRASHY._replace(owner=Owner("Rollout", "crashy", is_guess=False))])
    book.take([CRASHY])
    assert book.makers[UID_A] == "workload:shop/Rollout/crashy"
