# SPDX-License-Identifier: Apache-2.0
"""The doctor's window: a watch that fails at any time is a gap, and the others go on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build import ScriptedHost

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.pipeline.window import Window

NOWHERE = Gap("memcg.hierarchy", "none")


class Fragile:
    def __init__(self, breaks: str, error: Exception) -> None:
        self._breaks, self._error = breaks, error
        self.looks = 0
        self._may_break("open")

    def _may_break(self, where: str) -> None:
        if where == self._breaks:
            raise self._error

    def look(self) -> None:
        self.looks += 1
        self._may_break("look")

    def seen(self) -> Any:
        self._may_break("seen")
        return self.looks


@pytest.mark.parametrize("breaks", ["open", "look", "seen"])
@pytest.mark.parametrize(
    "error", [OSError(13, "Permission denied"), ObservationError("x", "permission denied", "root")]
)
def test_one_that_fails_takes_nobody_along(breaks: str, error: Exception) -> None:
    watches = {
        "broken": lambda _host, _hierarchy: Fragile(breaks, error),
        "whole": lambda _host, _hierarchy: Fragile("", error),
    }
    window = Window(ScriptedHost({}), NOWHERE, watches)
    told: list[float] = []
    window.let_pass(1.0, told.append)
    facts = window.facts()
    assert facts["whole"] == 11, "one look before, ten in the second"
    assert isinstance(facts["broken"], Gap)
    assert facts["broken"].reason == "permission denied"
    assert told[-1] == 1.0
