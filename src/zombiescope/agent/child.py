# SPDX-License-Identifier: Apache-2.0
"""A heavy look in a short-lived child: the outcome is one JSON document."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from zombiescope.host.short_lived import ShortLived

MOST_SECONDS = 120.0


class Child:
    """`descriptor` becomes readable when there is something to `collect`."""

    def __init__(self, name: str, work: Callable[[], Any]) -> None:
        self.name = name
        self._child = ShortLived(lambda: json.dumps(work()).encode())
        self.descriptor, self.collect = self._child.descriptor, self._child.collect

    def end(self, *, kill: bool = False) -> list[Any] | str:
        """The outcome, or why there is none."""
        said = self._child.end(kill=kill)
        if kill:
            return f"it took longer than {MOST_SECONDS:.0f} s and was stopped"
        try:
            outcome = json.loads(said or b"")
        except ValueError:
            return "the process that looked ended without an answer"
        return outcome if isinstance(outcome, list) else "the process that looked gave no answer"
