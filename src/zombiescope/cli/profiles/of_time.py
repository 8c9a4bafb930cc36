# SPDX-License-Identifier: Apache-2.0
"""Which captures there are of a time: for commands that are about something else. Without numpy."""

from __future__ import annotations

import os

from zombiescope.config import DEFAULT_CAPTURES, load_profile_config
from zombiescope.facts.history import KeptCapture
from zombiescope.profiler.files.ring import between

_MOST = 500


def captures_of(config: str | None, state: str | None) -> bytes:
    """Beside a state folder that was named, or where the recorder stores them."""
    beside = os.path.join(state, "captures") if state else ""
    return os.fsencode(beside if beside and os.path.isdir(beside) else load_profile_config(config, {}).text("captures"))


def captures_between(folder: bytes, since: float, until: float) -> list[KeptCapture]:
    found = []
    place = "" if folder == os.fsencode(DEFAULT_CAPTURES) else os.fsdecode(folder)
    for one in between(folder, since, until, _MOST):
        begin = one.span.begin or 0.0
        why = max(one.reasons, key=lambda reason: reason.weight, default=None)
        found.append(
            KeptCapture(one.name, begin, one.span.end or begin, f"{why.kind}: {why.words}" if why else "", place)
        )
    return found
