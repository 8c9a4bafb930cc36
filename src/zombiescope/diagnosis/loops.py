# SPDX-License-Identifier: Apache-2.0
"""Services that loop, beside what they left: who leaves more comes first, whoever shouts louder."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.analysis.looping import ended_words
from zombiescope.analysis.maker import maker_said, unit_maker
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence
from zombiescope.diagnosis.growing import Growing, growing_of, has_lived
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.gap import Gap
from zombiescope.facts.pods import PodsSeen
from zombiescope.facts.services import ServiceLoop, ServicesSeen
from zombiescope.facts.zombies import MakerRemains

_NAMED = 5


class Suspect(NamedTuple):
    loop: ServiceLoop
    left: MakerRemains | None
    """None: nothing, or it could not be seen."""
    share: float
    """Of all zombies."""
    grown: int = 0
    """Left in the window."""
    instances: int = 1
    """Of a template, or containers of a workload, that loop."""

    @property
    def maker(self) -> str:
        return self.left.maker if self.left else maker_of_loop(self.loop)

    @property
    def name(self) -> str:
        return maker_said(self.maker)

    @property
    def zombies(self) -> int:
        return self.left.zombies if self.left else 0

    def is_leaking(self, thresholds: Thresholds) -> bool:
        return self.zombies >= thresholds.leak_least_zombies or self.grown >= thresholds.growth_least


def suspects_of(case: Case, kinds: frozenset[str]) -> list[Suspect]:
    now = growing_of(case)
    found: dict[str, Suspect] = {}
    for loop in loops_seen(case):
        if loop.kind not in kinds:
            continue
        suspect = _suspect(case, loop, now)
        known = found.get(suspect.maker)
        found[suspect.maker] = _together(known, suspect) if known else suspect
    return sorted(found.values(), key=lambda each: (-each.zombies, -each.grown, -each.loop.restarts, each.loop.name))


def loops_seen(case: Case) -> list[ServiceLoop]:
    """Of services, and of pods, which no systemd knows of."""
    found = [] if isinstance(case.services, Gap) else list(case.services.loops)
    if isinstance(case.pods, Gap):
        return found
    return [
        *found,
        *(
            ServiceLoop(
                f"{loop.pod}/{loop.container}", "pod", loop.restarts, loop.why, loop.source, loop.every_seconds,
                maker=loop.maker, ended=ended_words(loop.reason, loop.exit_code),
            )
            for loop in case.pods.loops
        ),
    ]  # fmt: skip


def maker_of_loop(loop: ServiceLoop) -> str:
    return loop.maker or unit_maker(loop.name)


def _together(one: Suspect, other: Suspect) -> Suspect:
    """Two instances of one template: the louder stands for both."""
    louder = max(one, other, key=lambda each: each.loop.restarts)
    restarts = one.loop.restarts + other.loop.restarts
    return louder._replace(loop=louder.loop._replace(restarts=restarts), instances=one.instances + other.instances)


def _suspect(case: Case, loop: ServiceLoop, now: Growing | None) -> Suspect:
    maker = maker_of_loop(loop)
    grown = now.of(maker) if now else 0
    if isinstance(case.remains, Gap):
        return Suspect(loop, None, 0.0, grown)
    left = case.remains.of(maker)
    share = left.zombies / case.remains.zombies if left and case.remains.zombies else 0.0
    return Suspect(loop, left, share, grown)


def has_lived_them(case: Case, suspect: Suspect) -> bool:
    """Without a walk: it was restarted about as often as there are zombies, and no death of its in the window was released."""
    flows = case.flows
    if not isinstance(case.remains, Gap) or suspect.loop.kind != "unit":
        return False
    flow = None if isinstance(flows, Gap) else flows.of(suspect.maker)
    is_released = flow is not None and bool(flow.deaths) and (flow.releases or 0) >= flow.deaths
    return not is_released and has_lived(case, suspect.loop)


def told(found: list[Suspect]) -> str:
    parts = []
    for each in found[:_NAMED]:
        left = f"; it has left {each.zombies:,} dead memory cgroups" if each.zombies else ""
        what = "containers" if each.loop.kind == "pod" else "instances"
        some = f" ({each.instances:,} {what})" if each.instances > 1 else ""
        parts.append(f"{each.name}{some}: {each.loop.why}{left}")
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return "; ".join(parts) + more


def evidence_of(case: Case, suspect: Suspect, seen: ServicesSeen | PodsSeen) -> list[Evidence]:
    loop, name = suspect.loop, suspect.name
    found = [Evidence(f"{name}.restarts", loop.restarts, "restarts", loop.source, seen.at)]
    if loop.every_seconds is not None:
        found.append(Evidence(f"{name}.every", round(loop.every_seconds, 1), "seconds", loop.source, seen.at))
    if loop.ended:
        found.append(Evidence(f"{name}.ended", loop.ended, "", loop.source, seen.at))
    if loop.need != "unknown":
        found.append(Evidence(f"{name}.need", loop.need, "", "audit", seen.at))
    if suspect.left and not isinstance(case.remains, Gap):
        walked_at = case.remains.at
        found.append(Evidence(f"{name}.zombies", suspect.zombies, "zombies", "autopsy", walked_at))
        found.append(Evidence(f"{name}.share", round(suspect.share, 3), "of all zombies", "autopsy", walked_at))
    return found
