# SPDX-License-Identifier: Apache-2.0
"""What of us works on a machine: each part with how it works there, or why not."""

from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.cgroups import Identity
from zombiescope.facts.gap import Gap


class PartStatus(StrEnum):
    WORKS = "works"
    PARTLY = "partly"
    """By a plainer way than the best one."""
    NO = "no"


class CheckedPart(NamedTuple):
    name: str
    use: str
    """What we need it for, in a few words."""
    used_by: tuple[str, ...]
    """Commands."""
    by: str | None = None
    """How it works here; None where it does not."""
    gap: Gap | None = None
    """Why not, or why only partly."""

    @property
    def status(self) -> PartStatus:
        if self.by is None:
            return PartStatus.NO
        return PartStatus.PARTLY if self.gap else PartStatus.WORKS


class Build(NamedTuple):
    """Which of our builds this is."""

    kind: str
    """`one-file`, `pyz` or `python`."""
    version: str
    python: str
    architecture: str


class SelfCheck(NamedTuple):
    taken_at: float
    identity: Identity
    build: Build
    is_root: bool
    parts: tuple[CheckedPart, ...]

    def part(self, name: str) -> CheckedPart:
        return next(part for part in self.parts if part.name == name)
