# SPDX-License-Identifier: Apache-2.0
"""What an autopsy of the whole host comes to: whose the zombies are, what holds them, what would free them. Small enough to be
kept in a recording, whatever the number of zombies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class MakerRemains(NamedTuple):
    """What one maker left."""

    maker: str
    zombies: int
    by_pin: Mapping[str, int]
    """Zombies by kind of pin; one with two kinds is counted under both."""
    first_born_at: float | None
    last_born_at: float | None
    parents: Mapping[str, int] = {}
    """Nearest live ancestors, most zombies first; the largest few."""


class PinExample(NamedTuple):
    kind: str
    maker: str
    name: str
    """The file, the segment or the holder, printable."""


class Remains(NamedTuple):
    at: float
    tier: str
    zombies: int
    makers: tuple[MakerRemains, ...]
    """Most zombies first."""
    by_pin: Mapping[str, int]
    actions: Mapping[str, Mapping[str, int]]
    """By kind of pin: what would free its zombies with the least harm, and how many."""
    examples: tuple[PinExample, ...] = ()
    parents: Mapping[str, int] = {}
    """Nearest live ancestors of all zombies, most zombies first; the largest few hundred."""
    lately: Mapping[str, int] = {}
    """By maker: born since the window began."""

    def below(self, path: str) -> int:
        """Zombies whose nearest live ancestor is at or below a path."""
        inside = path.rstrip("/") + "/"
        return sum(count for parent, count in self.parents.items() if (parent.rstrip("/") + "/").startswith(inside))

    def of(self, maker: str) -> MakerRemains | None:
        return next((each for each in self.makers if each.maker == maker), None)

    def with_pins(self, kinds: frozenset[str]) -> int:
        """Zombies held by one of these kinds; never more than there are."""
        return min(sum(self.by_pin.get(kind, 0) for kind in kinds), self.zombies)
