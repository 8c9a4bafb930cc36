# SPDX-License-Identifier: Apache-2.0
"""What the looks add up to: counted, live, zombies, and their ratio."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.cgroups import Census, CountSource


class Population(NamedTuple):
    counted: int
    live: int
    source: CountSource

    @property
    def zombies(self) -> int:
        return self.counted - self.live

    @property
    def ratio(self) -> float:
        """Counted for each live one; the root is always live, so there is at least one."""
        return self.counted / max(self.live, 1)


def derive_population(census: Census) -> Population:
    """The look with the fewest zombies: what was gone in another look was an ordinary death on its way."""
    look = min(census.looks, key=lambda look: look.zombies)
    return Population(look.counted, look.live, census.source)
