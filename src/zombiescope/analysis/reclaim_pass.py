# SPDX-License-Identifier: Apache-2.0
"""What one pass of reclaim takes here, when one was seen: in a window, or by the agent before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zombiescope.facts.gap import Gap

if TYPE_CHECKING:  # a plain scan has neither
    from zombiescope.facts.reclaim import ReclaimSeen

FACT = "cost.reclaim_pass_seconds"
_WATCH = "zombiescope scan --watch 10, as root; the agent always watches"
NOT_WATCHED = Gap(FACT, "a scan does not wait for reclaim to run", _WATCH)


class ReclaimPass(NamedTuple):
    seconds: float
    """The mean of those that were seen."""
    at: float
    """When the last look ended."""
    calls: int | None = None
    """None where the agent remembers their mean alone."""
    watched_seconds: float | None = None
    """None: by the agent, at that time."""


def derive_reclaim_pass(seen: ReclaimSeen | Gap, at: float) -> ReclaimPass | Gap:
    """A window in which nobody reclaimed has no pass to tell of: not known, and not zero."""
    if isinstance(seen, Gap):
        return seen.about(FACT)
    if not seen.calls:
        return Gap(FACT, f"nobody had to reclaim in {seen.seconds:,.0f} s", "watch longer, or when memory is short")
    return ReclaimPass(sum(kind.seconds for kind in seen.kinds) / seen.calls, at, seen.calls, seen.seconds)
