# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.unit.kernel.raw_records import live, memcg

from zombiescope.kernel.bpf_walk import (
    _RECORD,
    Depth,
    How,
    Status,
    _Answer,
    _Chunk,
    _once,
    _Place,
    _place_before,
    walk_memcgs,
)

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


class _Restarted:
    """A walker whose second run finds its place, and all before it, released: the walk begins again and sees some twice."""

    def __init__(self, nodes: int) -> None:
        first = _record(1, 0, 1), _record(2, 1, 2)
        nowhere = _Place(How.AGAIN, css=70, serial=70, parent=71)
        answers = [
            (Status.MORE, nowhere, first),
            (Status.LOST, nowhere, ()),
            (Status.DONE, _Place(), (*first, _record(3, 1, 3))),
        ]
        self._left = [
            (_Answer(place, 1, 1, 1, 0, status, 0, 0, 0, 4), _Chunk(b"".join(rows), b"", b""))
            for status, place, rows in answers
        ]

    def run(self, program: str, place: _Place, depth: Depth, skip: int = 0) -> _Answer:
        return self._left[0][0]

    def copy(self, answer: _Answer) -> _Chunk:
        return self._left.pop(0)[1]

    def close(self) -> None:
        assert self._left == []


def _record(css: int, parent: int, serial: int) -> bytes:
    return _RECORD.pack(css, parent, css, serial, *([0] * 22))


def test_when_the_elder_sibling_is_gone_too_the_parent_is_asked() -> None:
    """One by one, thousands of siblings that are released at once would take thousands of runs."""
    gone = _Place(How.BEYOND, css=5, serial=5, parent=2)
    assert _place_before([*_TREE[:2], memcg(css=4, parent=2, serial=4), *_TREE[2:]], gone) == _Place(
        How.BELOW, 2, 2, 1, after=5
    )


def test_a_walk_that_lost_its_place_tells_each_cgroup_once() -> None:
    walk = walk_memcgs(1, lambda: 0.0, walker_type=_Restarted)  # type: ignore[arg-type]
    assert [found.serial for found in walk.memcgs] == [1, 2, 3]
    assert walk.notes == []
