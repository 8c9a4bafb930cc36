# SPDX-License-Identifier: Apache-2.0
"""Who made and left memory cgroups while we watched, by maker: small enough to be kept in a recording."""

from __future__ import annotations

from typing import NamedTuple


class MakerFlow(NamedTuple):
    maker: str
    births: int
    deaths: int
    releases: int | None
    """Of those that died in the window and some older ones; None where no release can be seen."""

    @property
    def left(self) -> int | None:
        """Died and were not released, a second after the window at the earliest."""
        return None if self.releases is None else max(self.deaths - self.releases, 0)


class FlowsSeen(NamedTuple):
    at: float
    seconds: float
    """Of the window."""
    tier: str
    """bpf, tracefs or polling; the last sees no release, and not what lives for less than a look."""
    makers: tuple[MakerFlow, ...]
    """Those with most left first, then those with most deaths."""
    lost: int | None = None
    """Events that were not seen; None where nobody can know."""

    def of(self, maker: str) -> MakerFlow | None:
        return next((flow for flow in self.makers if flow.maker == maker), None)
