# SPDX-License-Identifier: Apache-2.0
"""Services that loop, beside what they left: who leaves more comes first, whoever shouts louder."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.gap import Gap
from zombiescope.facts.remains import MakerRemains
from zombiescope.facts.services import ServiceLoop, ServicesSeen

_NAMED = 5


class Suspect(NamedTuple):
    loop: ServiceLoop
    left: MakerRemains | None
    """None: nothing, or it could not be seen."""
    share: float
    """Of all zombies."""

    @property
    def maker(self) -> str:
        return self.left.maker if self.left else f"unit:{self.loop.name}"

    @property
    def zombies(self) -> int:
        return self.left.zombies if self.left else 0

    def is_leaking(self, thresholds: Thresholds) -> bool:
        return self.zombies >= thresholds.leak_least_zombies


def suspects_of(case: Case, kinds: frozenset[str]) -> list[Suspect]:
    if isinstance(case.services, Gap):
        return []
    found = [_suspect(case, loop) for loop in case.services.loops if loop.kind in kinds]
    return sorted(found, key=lambda each: (-each.zombies, -each.loop.restarts, each.loop.name))


def _suspect(case: Case, loop: ServiceLoop) -> Suspect:
    if isinstance(case.remains, Gap):
        return Suspect(loop, None, 0.0)
    left = case.remains.of(f"unit:{loop.name}")
    return Suspect(loop, left, left.zombies / case.remains.zombies if left and case.remains.zombies else 0.0)


def told(found: list[Suspect]) -> str:
    parts = []
    for each in found[:_NAMED]:
        left = f", and left {each.zombies:,} dead memory cgroups" if each.zombies else ""
        parts.append(f"{each.loop.name}: {each.loop.why}{left}")
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return "; ".join(parts) + more


def evidence_of(suspect: Suspect, seen: ServicesSeen) -> list[Evidence]:
    loop = suspect.loop
    found = [Evidence(f"{loop.name}.restarts", loop.restarts, "restarts", loop.source, seen.at)]
    if loop.every_seconds is not None:
        found.append(Evidence(f"{loop.name}.every", round(loop.every_seconds, 1), "seconds", loop.source, seen.at))
    if loop.need != "unknown":
        found.append(Evidence(f"{loop.name}.need", loop.need, "", "audit", seen.at))
    if suspect.left:
        found.append(Evidence(f"{loop.name}.zombies", suspect.zombies, "zombies", "autopsy", seen.at))
        found.append(Evidence(f"{loop.name}.share", round(suspect.share, 3), "of all zombies", "autopsy", seen.at))
    return found
