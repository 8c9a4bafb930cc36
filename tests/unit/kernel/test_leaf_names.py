# SPDX-License-Identifier: Apache-2.0
"""Folding leaf names must never put two makers into one pattern."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zombiescope.analysis.maker import maker_of
from zombiescope.kernel.ledgers import fold_leaf

WORDS = st.sampled_from(
    [b"app", b"web-", b"run-", b"docker-", b".service", b".scope", b".slice", b"@", b"x", b"-", b"_", b"a", b"f"]
)
IDS = st.binary(min_size=1, max_size=4).map(lambda raw: raw.hex().encode()) | st.integers(0, 99999).map(
    lambda n: b"%d" % n
)
LEAVES = st.lists(WORDS | IDS, min_size=1, max_size=5).map(b"".join)


@given(LEAVES, st.lists(st.integers(0, 9), min_size=12, max_size=12))
def test_names_of_one_pattern_have_one_maker(leaf: bytes, digits: list[int]) -> None:
    """The same name with other digits, digit for digit."""
    replacing = iter(digits * 9)
    other = bytes(48 + next(replacing) if 48 <= byte <= 57 else byte for byte in leaf)
    if fold_leaf(leaf) == fold_leaf(other):
        assert maker_of(b"/top/" + leaf) == maker_of(b"/top/" + other)


def test_ids_and_numbers_are_folded_and_units_keep_short_numbers() -> None:
    assert fold_leaf(b"c17") == b"c*"
    assert fold_leaf(b"cri-containerd-" + b"0a" * 32 + b".scope") == b"cri-containerd-*.scope"
    assert fold_leaf(b"app2.service") == b"app2.service"
    assert fold_leaf(b"job-0123456789.service") == b"job-*.service"
    assert fold_leaf(b"run-u12.service") == b"run-u*.service"
    assert fold_leaf(b"cafe") == b"cafe"
