# SPDX-License-Identifier: Apache-2.0
"""Which format is given for which header Accept, in our words whatever the header says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.agent.exposition import Exposition, known_format

OPEN, CLASSIC = "application/openmetrics-text; version=1.0.0", "text/plain; version=1.0.0"


@pytest.mark.parametrize(
    ("accept", "known"),
    [
        ("", ""),
        ("*/*", ""),
        ("text/plain", ""),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", ""),
        ("application/openmetrics-text", OPEN),
        ("application/openmetrics-text;version=0.0.1,text/plain", ""),
        ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;q=0.3", OPEN),
        ("text/plain;version=1.0.0;escaping=allow-utf-8,application/openmetrics-text", CLASSIC),
        ("application/openmetrics-text; version=2.0.0-evil", ""),
    ],
)
def test_the_first_that_is_known_is_taken(accept: str, known: str) -> None:
    assert known_format(accept) == known


@given(st.text(st.characters(max_codepoint=255)))
def test_nothing_of_the_header_comes_back(text: str) -> None:
    for accept in (
        text,
        f"application/openmetrics-text; version={text}",
        f"text/plain; version=1.0.0; escaping={text}",
    ):
        kind, _ = Exposition(list).render(accept)
        assert kind in {Exposition(list).render(known)[0] for known in ("", OPEN, CLASSIC)}
