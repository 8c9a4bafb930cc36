# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.facts.gap import Gap
from zombiescope.facts.plain import of_outcome, of_plain, to_outcome, to_plain
from zombiescope.facts.zombies import HeldBy, Pages, Pin, PinKind, References, Tier, Walk, Zombie


class Both(NamedTuple):
    walk: Walk | Gap
    uses: Mapping[bytes, int]
    parents: frozenset[bytes]
    ratio: float


_COUNT = st.none() | st.integers(0, 1 << 62)
_HOLDERS = st.builds(HeldBy, _COUNT, st.binary(), _COUNT, st.none() | st.binary(), _COUNT, _COUNT, st.text("abc"))
_PINS = st.builds(
    Pin, st.sampled_from(PinKind), st.none() | st.binary(), st.none() | st.binary(), st.none() | st.text("abc"),
    st.none() | st.just("0:23"), _COUNT, _COUNT, st.booleans(), _COUNT, _COUNT, st.none() | _HOLDERS,
)  # fmt: skip
_PAGES = st.builds(Pages, _COUNT, _COUNT, _COUNT, _COUNT, _COUNT)
_REFERENCES = st.builds(References, _COUNT, _COUNT, st.integers(0, 9), _COUNT, _COUNT)
_ZOMBIES = st.builds(
    Zombie, st.integers(0), st.integers(0), st.binary(), st.integers(0, 9), st.binary(), st.none() | st.floats(0, 1e9),
    st.none(), _REFERENCES, _PAGES, st.lists(_PINS, max_size=3).map(tuple), _COUNT, _COUNT, _COUNT,
)  # fmt: skip
_WALKS = st.builds(Walk, st.sampled_from(Tier), st.lists(_ZOMBIES, max_size=3).map(tuple), st.integers(0), st.just(()))
_BOTH = st.builds(
    Both,
    _WALKS | st.just(Gap("zombies", "refused", "try")),
    st.dictionaries(st.binary(), st.integers(0)),
    st.frozensets(st.binary()),
    st.floats(0, 1),
)


@given(_BOTH)
def test_what_goes_through_json_comes_back(both: Both) -> None:
    assert of_plain(json.loads(json.dumps(to_plain(both, Both))), Both) == both


def test_every_name_is_cleaned_and_nothing_else() -> None:
    pin = Pin(PinKind.TMPFS, b"/home/tmpfs/x", None, "tmpfs", "0:1", 7, 1, sampled=False, holder=HeldBy(7, b"tmpfs"))
    kept = to_plain(pin, Pin, lambda name: name.replace(b"tmpfs", b"user1"))
    holder = [7, "user1", None, None, None, None, ""]
    assert kept == ["tmpfs", "/home/user1/x", None, "user1", "0:1", 7, 1, False, None, None, holder]


@pytest.mark.parametrize(
    ("text", "holder"),
    [
        ("pid 12, to be reaped by pid 1", HeldBy(12, reaper=1)),
        ("pid 13", HeldBy(13)),
        ("nobody that is known, unix socket 5", HeldBy(None, socket=5, family="unix")),
        ("pid 4 (a) b), tcp or udp socket 7", HeldBy(4, socket=7, family="tcp or udp")),
    ],
)
def test_a_holder_that_was_kept_as_a_sentence_is_read(text: str, holder: HeldBy) -> None:
    assert of_plain(text, HeldBy) == holder
    assert of_plain(None, HeldBy | None) is None


@pytest.mark.parametrize("text", ["", "pid x", "pid 1" * 99, 7, {}, "pid 99999999999999999999999"])
def test_what_was_never_kept_as_a_holder_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="holder"):
        of_plain(text, HeldBy)


_GAP = {"Gap": ["zombies", "refused", ""]}


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        {},
        "x",
        [_GAP, [], [], 0.5, 1],
        [{"Walk": []}, [], [], 0.5],
        [{"Pin": []}, [], [], 0.5],
        [_GAP | {"Walk": []}, [], [], 0.5],
        [None, [], [], 0.5],
        [_GAP, [["a"]], [], 0.5],
        [_GAP, [["a", "b"]], [], 0.5],
        [_GAP, [["a", True]], [], 0.5],
        [_GAP, {}, [], 0.5],
        [_GAP, [], [3], 0.5],
        [_GAP, [], [], "0.5"],
        [_GAP, [], [], None],
        [{"Walk": ["no tier", [], 1, [], 1, None, None]}, [], [], 0.5],
    ],
)
def test_what_no_record_gives_is_refused(damaged: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        of_plain(damaged, Both)


class Told(NamedTuple):
    at: float
    pairs: tuple[tuple[str, int], ...]
    counts: Mapping[str, Mapping[str, int]]
    lost: int | None = None
    more: Mapping[str, int] = {}


_GARBLED = Gap("told", "not in a form we know")
_TOLD = Told(1.5, (("a", 1), ("b", 2)), {"x": {"y": 3}, "z": {}}, None, {"k": 4})


def test_an_outcome_has_the_names_of_its_record_and_comes_back() -> None:
    outcome = json.loads(json.dumps(to_outcome(_TOLD)))
    assert outcome == {
        "at": 1.5,
        "pairs": [["a", 1], ["b", 2]],
        "counts": {"x": {"y": 3}, "z": {}},
        "lost": None,
        "more": {"k": 4},
    }
    assert of_outcome(outcome, Told, _GARBLED) == _TOLD


def test_an_outcome_from_before_a_field_was_added_is_read() -> None:
    assert of_outcome({"at": 2, "pairs": [], "counts": {}}, Told, _GARBLED) == Told(2.0, (), {})


def test_a_mapping_kept_as_pairs_is_read() -> None:
    assert of_outcome({"at": 2.0, "pairs": [], "counts": [["x", [["y", 3]]]]}, Told, _GARBLED) == Told(
        2.0, (), {"x": {"y": 3}}
    )


def test_a_gap_is_kept_as_a_gap() -> None:
    gap = Gap("told", "refused", "as root")
    assert of_outcome(to_outcome(gap), Told, _GARBLED) == gap


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        7,
        [],
        {},
        {"gap": 3},
        {"gap": ["a", "b", "c", "d", "e"]},
        {"at": 1.0, "pairs": []},
        {"at": "1", "pairs": [], "counts": {}},
        {"at": 1.0, "pairs": [["a"]], "counts": {}},
        {"at": 1.0, "pairs": [["a", "1"]], "counts": {}},
        {"at": 1.0, "pairs": [], "counts": {"x": 3}},
        {"at": 1.0, "pairs": [], "counts": [["x"]]},
        {"at": 1.0, "pairs": [], "counts": {}, "lost": "none"},
    ],
)
def test_a_strangers_outcome_is_garbled_never_a_traceback(damaged: Any) -> None:
    assert of_outcome(damaged, Told, _GARBLED) == _GARBLED
