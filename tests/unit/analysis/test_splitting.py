# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from zombiescope.analysis.autopsy import pages_of
from zombiescope.analysis.splitting import split_by_residual
from zombiescope.facts.cgroups import MemoryUse, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Pages, References, Tier, Walk, Zombie

GAPS = tuple(Gap(f"zombies[].pages.{kind}", "too long") for kind in ("shmem", "anon"))
PAGE = 4096


def _zombie(number: int, unsplit: int = 0, shmem: int = 0, anon: int = 0) -> Zombie:
    pages = Pages(0, None, None, 0, 0) if unsplit else Pages(0, shmem, anon, 0, 0)
    return Zombie(
        number,
        number,
        b"/p/%d" % number,
        2,
        b"/p",
        None,
        None,
        References(1, None, 0, 0, None),
        pages,
        (),
        0,
        0,
        1,
        unsplit,
    )


def _split(*zombies: Zombie, shmem: int, anon: int, doubt: bool = False) -> Walk:
    residuals = Residuals(
        {b"/p": MemoryUse(0, shmem * PAGE, anon * PAGE, None, 0)}, frozenset({b"/p"} if doubt else ())
    )
    return split_by_residual(Walk(Tier.BPF, zombies, 2, GAPS), residuals)


def _told(walk: Walk) -> list[tuple[int | None, int | None, int]]:
    return [(zombie.pages.shmem, zombie.pages.anon, zombie.unsplit_pages) for zombie in walk.zombies]


def test_where_the_parent_has_one_kind_all_are_of_it() -> None:
    told = _split(_zombie(1, 9000), _zombie(2, 500), _zombie(3, shmem=4), shmem=9504, anon=0)
    assert _told(told) == [(9000, 0, 0), (500, 0, 0), (4, 0, 0)]
    assert told.gaps == ()
    assert _told(_split(_zombie(1, 9000), shmem=0, anon=9000)) == [(0, 9000, 0)]


def test_one_in_question_gets_what_its_siblings_do_not_explain() -> None:
    told = _split(_zombie(1, 9000), _zombie(2, shmem=5, anon=7), shmem=6005, anon=3007)
    assert _told(told) == [(6000, 3000, 0), (5, 7, 0)]


def test_what_does_not_add_up_stays_untold_and_is_counted() -> None:
    for walk in (
        _split(_zombie(1, 9000), shmem=9001, anon=0),
        _split(_zombie(1, 9000), _zombie(2, 9000), shmem=9000, anon=9000),
        _split(_zombie(1, 9000), shmem=9000, anon=0, doubt=True),
        _split(_zombie(1, 9000), _zombie(2, shmem=9001), shmem=9000, anon=9001),
    ):
        assert walk.zombies[0].pages.shmem is None
        assert pages_of(walk.zombies[0]) == 9000
        assert walk.gaps == GAPS


def test_a_parent_without_any_figure_tells_nothing() -> None:
    walk = Walk(Tier.BPF, (_zombie(1, 9000),), 2, GAPS)
    assert split_by_residual(walk, Residuals({}, frozenset())) == walk
