# SPDX-License-Identifier: Apache-2.0
"""Is a service needed? An allow list first, then what is known of it, then who asks for it. Unknown stays unknown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zombiescope.analysis.activation import Activation, Pull
from zombiescope.analysis.knowledge import Agent, KnowledgeBase, Surroundings
from zombiescope.facts.units import UnitFile, UnitFiles

_ON_DEMAND = ("socket", "path", "automount")
_EARLY = frozenset(
    {
        "sysinit.target", "basic.target", "sockets.target", "local-fs.target", "swap.target", "cryptsetup.target",
        "shutdown.target", "network.target", "network-pre.target", "network-online.target", "remote-fs.target",
        "timers.target", "paths.target",
    }
)  # fmt: skip


_MADE_BY_SYSTEMD = ("generated", "transient")


class Need(StrEnum):
    NEEDED = "needed"
    UNNEEDED = "unneeded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NeedVerdict:
    need: Need
    why: str
    condition: str = ""
    """The condition of the knowledge base that decided."""


@dataclass(frozen=True, slots=True)
class Judge:
    files: UnitFiles
    activation: Activation
    knowledge: KnowledgeBase
    around: Surroundings

    def judge_need(self, unit: UnitFile) -> NeedVerdict:
        if not self.knowledge.is_allowed(unit.name):
            return NeedVerdict(Need.UNNEEDED, "it is not on the allow list")
        agent = self.knowledge.agent_of(unit.name)
        if agent and agent.vendor_only and not unit.from_vendor and unit.enabled not in _MADE_BY_SYSTEMD:
            agent = None
        known = self._by_knowledge(agent) if agent else NeedVerdict(Need.UNKNOWN, "nothing is known of it")
        if known.need is Need.NEEDED:
            return known
        asked = self._by_request(unit)
        if asked:
            return asked
        return known

    def needed_by(self, unit: UnitFile) -> list[str]:
        """Units that start and ask for this one; a link made by `enable` proves nothing and is left out."""
        owners = {pull.owner for pull in self._requests(unit)}
        return sorted(owners)

    def _requests(self, unit: UnitFile) -> list[Pull]:
        return [
            pull
            for pull in self.activation.pulled_by(unit.name)
            if pull.owner in self.activation.starting and pull.owner != unit.name
            if not (pull.is_local and pull.owner.endswith(".target"))
        ]

    def _by_knowledge(self, agent: Agent) -> NeedVerdict:
        condition = self.around.first(agent.needed_if)
        if condition:
            serves = f"it serves {agent.serves}" if agent.serves else agent.title
            return NeedVerdict(Need.NEEDED, f"{serves} ({condition})", condition)
        condition = self.around.first(agent.unneeded_if)
        if condition:
            return NeedVerdict(Need.UNNEEDED, f"{agent.title}: {agent.why or condition}", condition)
        why = (
            agent.why if agent.otherwise != Need.UNKNOWN else "whether it has anything to do cannot be told from files"
        )
        return NeedVerdict(Need(agent.otherwise), f"{agent.title}: {why}")

    def _by_request(self, unit: UnitFile) -> NeedVerdict | None:
        """Asked for by something that is itself needed, or started only when somebody asks."""
        for pull in self._requests(unit):
            if pull.relation == "D-Bus name":
                return NeedVerdict(Need.NEEDED, "it starts only when its D-Bus name is called")
            kind = pull.owner.rpartition(".")[2]
            if pull.relation == "Triggers" and kind in _ON_DEMAND:
                return NeedVerdict(Need.NEEDED, f"it starts only when {pull.owner} is used")
            if kind == "target" and pull.owner in _EARLY:
                return NeedVerdict(Need.NEEDED, f"the vendor links it into {pull.owner}")
            if kind == "service" and self._is_needed_itself(pull.owner):
                return NeedVerdict(Need.NEEDED, f"{pull.owner} asks for it ({pull.relation}=)")
        return None

    def _is_needed_itself(self, name: str) -> bool:
        """By knowledge alone, so that two unknown services do not vouch for each other."""
        agent = self.knowledge.agent_of(name)
        return agent is not None and self._by_knowledge(agent).need is Need.NEEDED
