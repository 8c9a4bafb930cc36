# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from zombiescope.facts.zombies import Pages, PinKind, References, Tier, Walk, Zombie


def zombie(number: int, parent: bytes) -> Zombie:
    path = parent.rstrip(b"/") + b"/z%d" % number
    nothing = Pages(file=0, shmem=0, anon=0, unevictable=0, swap=0)
    held = References(total=1, lru_folios=0, children=0, swap=0, rest=1)
    return Zombie(number, number, path, 1, parent, None, None, held, nothing, (), None, None)


def test_zombies_are_counted_under_their_nearest_live_ancestor() -> None:
    walk = Walk(tier=Tier.BPF, zombies=(zombie(7, b"/"), zombie(8, b"/a\n"), zombie(9, b"/a\n")), live_count=3)
    assert walk.count_by_parent() == {b"/": 1, b"/a\n": 2}


def test_the_pin_kinds_are_the_words_of_the_contract() -> None:
    contract = (
        "page_cache writeback tmpfs memfd shared_anon sysv_shm anon swap socket child task namespace unevictable other"
    )
    assert " ".join(PinKind) == contract
