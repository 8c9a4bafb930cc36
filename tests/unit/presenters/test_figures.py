# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.facts.gap import Gap
from zombiescope.presenters.document import one_per_field, rfc3339
from zombiescope.presenters.figures import count, duration, size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "?"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.977 KiB"),
        (4096, "4 KiB"),
        (999 * 1024, "999 KiB"),
        (1_048_576, "1 MiB"),
        (157 << 20, "157 MiB"),
        (5 << 30, "5 GiB"),
        (3 << 40, "3 TiB"),
        (5000 << 40, "5000 TiB"),
    ],
)
def test_sizes(value: int | None, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "?"),
        (0.0, "0 us"),
        (0.000_5, "500 us"),
        (0.000_999_9, "1 ms"),
        (0.999_9, "1 s"),
        (0.012, "12 ms"),
        (3.14159, "3.14 s"),
        (119.0, "119 s"),
        (600.0, "10 min"),
        (7200.0, "2.0 h"),
        (172_800.0, "2.0 days"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_counts() -> None:
    assert (count(None), count(0), count(1_234_567)) == ("?", "0", "1,234,567")


def test_times_are_utc() -> None:
    assert rfc3339(1_700_000_000.25) == "2023-11-14T22:13:20.250Z"


@given(st.floats(allow_nan=False))
def test_any_clock_can_be_written(seconds: float) -> None:
    assert rfc3339(seconds).endswith("Z")


@given(st.integers(0, 1 << 64), st.floats(0, 1e12))
def test_any_figure_can_be_read(value: int, seconds: float) -> None:
    assert size(value).split(" ")[1] in ("B", "KiB", "MiB", "GiB", "TiB")
    assert duration(seconds)[0].isdigit()


def test_the_first_gap_of_a_field_stands_for_it() -> None:
    gaps = [Gap("a", "first"), Gap("b", "x"), Gap("a", "second")]
    assert one_per_field(gaps) == gaps[:2]
