# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.unit.kernel.raw_records import live, memcg

from zombiescope.kernel.bpf_walk import How, _once, _Place, _place_before

_TREE = [
    live(1, 0, b""),
    live(2, 1, b"a"),
    memcg(css=5, parent=2, serial=5),
    memcg(css=6, parent=5, serial=6),
    live(9, 1, b"b"),
]


def test_a_lost_place_goes_on_beyond_its_elder_sibling() -> None:
    lost = _Place(How.BELOW, css=7, serial=7, parent=2)
    assert _place_before(_TREE, lost) == _Place(How.BEYOND, 5, 5, 2)


def test_without_an_elder_sibling_it_goes_on_below_its_parent() -> None:
    lost = _Place(How.BELOW, css=6, serial=6, parent=5)
    assert _place_before(_TREE, lost) == _Place(How.BELOW, 5, 5, 2, after=6)


def test_a_younger_sibling_is_no_place_to_go_on() -> None:
    lost = _Place(How.AGAIN, css=3, serial=3, parent=2)
    assert _place_before(_TREE, lost) == _Place(How.BELOW, 2, 2, 1, after=3)


def test_a_place_that_nobody_knows_begins_again() -> None:
    assert _place_before(_TREE, _Place(How.BELOW, css=70, serial=70, parent=71)) == _Place()


def test_a_walk_that_began_again_keeps_the_first_sight_of_each() -> None:
    again = memcg(css=5, parent=2, serial=5, refs=9)
    assert _once([*_TREE, again]) == _TREE
