# SPDX-License-Identifier: Apache-2.0
"""Is a service needed? What its owner declares, an allow list, what is known of it, then who asks for it. Unknown stays unknown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zombiescope.analysis.knowledge import Agent, KnowledgeBase, Surroundings, hidden_path
from zombiescope.analysis.unit_starts import Activation, Pull, derive_restart_policy
from zombiescope.facts.units import UnitFile, UnitFiles

_ON_DEMAND = ("socket", "automount")
_BY_ITSELF = ("target", "timer", "path")
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
    is_declared: bool = False


@dataclass(frozen=True, slots=True)
class Judge:
    files: UnitFiles
    activation: Activation
    knowledge: KnowledgeBase
    around: Surroundings

    def judge_need(self, unit: UnitFile) -> NeedVerdict:
        declared = self.knowledge.declared_need(unit.name)
        if declared:
            return NeedVerdict(Need.NEEDED, f"declared as needed: {declared.reason}", is_declared=True)
        if not self.knowledge.is_allowed(unit.name):
            return NeedVerdict(Need.UNNEEDED, "it is not on the allow list")
        agent = self.agent_of(unit)
        known = self._by_knowledge(agent) if agent else NeedVerdict(Need.UNKNOWN, "nothing is known of it")
        if known.need is Need.NEEDED:
            return known
        return self._by_request(unit, is_known=known.need is Need.UNNEEDED) or known

    def agent_of(self, unit: UnitFile, name: str = "") -> Agent | None:
        """The entry that speaks of it, if it may: broad patterns speak only of what a vendor or systemd made."""
        agent = self.knowledge.agent_of(name or unit.name)
        is_made = unit.from_vendor or (unit.enabled in _MADE_BY_SYSTEMD and not unit.is_quadlet)
        if agent and agent.speaks_of(name or unit.name, from_vendor=is_made):
            return agent
        image = unit.last("Container", "Image")
        return self.knowledge.agent_of_image(image.value) if image else None

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
        condition, against = self.around.first(agent.needed_if), self.around.first(agent.contested_if)
        if condition and against:
            return NeedVerdict(Need.UNKNOWN, f"{agent.title}: {agent.contested_why or against}", against)
        if condition:
            serves = f"it serves {agent.serves}" if agent.serves else agent.title
            return NeedVerdict(Need.NEEDED, f"{serves} ({condition})", condition)
        hidden = hidden_path(self.knowledge, self.around, agent.conditions)
        if hidden:
            return NeedVerdict(Need.UNKNOWN, f"{agent.title}: {hidden} would tell, and could not be read")
        condition = self.around.first(agent.unneeded_if)
        if condition:
            sign = self.around.roles.get(condition.removeprefix("role:"))
            tail = f" ({sign})" if sign else ""
            return NeedVerdict(Need.UNNEEDED, f"{agent.title}: {agent.why or condition}{tail}", condition)
        needs = f"; needed by {agent.hosts}" if agent.hosts else ""
        unknown = f"whether it has anything to do cannot be told from files{needs}"
        why = agent.why if agent.otherwise != Need.UNKNOWN else unknown
        return NeedVerdict(Need(agent.otherwise), f"{agent.title}: {why}")

    def _by_request(self, unit: UnitFile, *, is_known: bool) -> NeedVerdict | None:
        """Asked for by something that is itself needed, or started only when somebody asks. Of one that is known to have nothing to
        do only the first counts; a vendor's link says nothing of one that may loop: the vendor's image is what is judged."""
        is_on_demand = not self._starts_by_itself(unit)
        for pull in self._requests(unit):
            kind = pull.owner.rpartition(".")[2]
            if kind == "service" and pull.relation != "D-Bus name" and self._is_needed_itself(pull.owner):
                return NeedVerdict(Need.NEEDED, f"{pull.owner} asks for it ({pull.relation}=)")
            if is_known:
                continue
            if pull.relation == "D-Bus name" and is_on_demand:
                return NeedVerdict(Need.NEEDED, "it starts only when its D-Bus name is called")
            if pull.relation == "Triggers" and kind in _ON_DEMAND and is_on_demand:
                return NeedVerdict(Need.NEEDED, f"it starts only when {pull.owner} is used")
            if kind == "target" and pull.owner in _EARLY and not self._may_loop(unit):
                return NeedVerdict(Need.NEEDED, f"the vendor links it into {pull.owner}")
        return None

    def _starts_by_itself(self, unit: UnitFile) -> bool:
        """At boot, by a clock or by a file, whatever else can start it."""
        pulls = self.activation.pulled_by(unit.name)
        owners = (pull.owner for pull in pulls if pull.owner in self.activation.starting)
        return any(owner.rpartition(".")[2] in _BY_ITSELF for owner in owners)

    def _may_loop(self, unit: UnitFile) -> bool:
        return derive_restart_policy(unit, self.files.manager).can_loop is not False

    def _is_needed_itself(self, name: str) -> bool:
        """By knowledge alone, so that two unknown services do not vouch for each other."""
        unit = self.files.real(name)
        agent = self.agent_of(unit, name) if unit else None
        return agent is not None and self._by_knowledge(agent).need is Need.NEEDED
