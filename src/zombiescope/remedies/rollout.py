# SPDX-License-Identifier: Apache-2.0
"""In which order a fleet is healed: cohort by cohort, the cause first; in each one node, then a few, then the rest.

Every wave waits for the proof of the one before. What is done on a node is decided on that node, by its own plan; this only says
where and in which order, for somebody else to carry out: nothing here acts over the network.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from zombiescope.analysis.cohorts import Comparison, Labels
from zombiescope.diagnosis.catalogue import FINDINGS
from zombiescope.diagnosis.fleet_health import Sickness
from zombiescope.facts.remedies import Remedy

SHARES = (0.05, 0.25, 1.0)
"""After the first node: of the cohort, healed when the wave is through."""
_ORIGINS = ("unneeded-agent", "crash-looping-unit", "looping-container", "image-risk", "zombie-growth")


class Wave(NamedTuple):
    name: str
    nodes: tuple[str, ...]


class CohortPlan(NamedTuple):
    labels: Labels
    """Empty: sick nodes that no cause explains."""
    findings: tuple[tuple[str, int], ...]
    """What its sick nodes have, and how many of them: the origin first."""
    waves: tuple[Wave, ...]

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What usually helps against what was found, the origin first; what is done is decided on the node, by its own plan."""
        usual = (each for name, _ in self.findings if name in FINDINGS for each in FINDINGS[name].remedies[:1])
        return tuple(dict.fromkeys(each for each in usual if not each.changes_nothing))

    @property
    def nodes(self) -> int:
        return sum(len(wave.nodes) for wave in self.waves)


def propose_rollout(sickness: Sickness, compared: Comparison) -> tuple[CohortPlan, ...]:
    """Every sick node once, in the first cohort that explains it."""
    taken: set[int] = set()
    plans = []
    groups = [(cause.cohort.labels, cause.cohort.members) for cause in compared.causes]
    for labels, members in [*groups, ((), (1 << len(sickness.nodes)) - 1)]:
        sick = [
            number
            for number, is_sick in enumerate(sickness.is_sick)
            if is_sick and members >> number & 1 and number not in taken
        ]
        if sick:
            taken.update(sick)
            plans.append(_plan(labels, sickness, sick))
    return tuple(plans)


def _plan(labels: Labels, sickness: Sickness, sick: Sequence[int]) -> CohortPlan:
    nodes = [sickness.nodes[number] for number in sick]
    found = Counter(finding for node in nodes for finding in node.findings)
    rank = {name: number for number, name in enumerate(_ORIGINS)}
    findings = sorted(found.items(), key=lambda each: (rank.get(each[0], len(rank)), -each[1], each[0]))
    return CohortPlan(labels, tuple(findings), waves_of([node.name for node in nodes]))


def waves_of(names: Sequence[str]) -> tuple[Wave, ...]:
    """One node, then up to 5 %, 25 % and all of them; a wave without nodes is left out."""
    waves, done = [Wave("canary", tuple(names[:1]))], 1
    for share in SHARES:
        until = max(round(len(names) * share), done)
        if until > done:
            waves.append(Wave(f"up to {share:.0%}", tuple(names[done:until])))
            done = until
    return tuple(waves)
