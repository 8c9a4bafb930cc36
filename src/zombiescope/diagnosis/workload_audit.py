# SPDX-License-Identifier: Apache-2.0
"""Workloads beside systemd's units, judged: which start for ever, which leave a cgroup per life, which nothing needs.

Of a container, only evidence about the node and its own variables counts: its configuration is inside it, not on the node.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from zombiescope.analysis.knowledge import KnowledgeBase, KnownAgent, NodeSigns, hidden_path, path_of
from zombiescope.analysis.unit_starts import Activation, Pull, derive_restart_policy
from zombiescope.analysis.workload_lives import RUNTIMES, Lives, derive_lives
from zombiescope.facts.units import Running, Schedule, Services, Starter, UnitFile, UnitFiles, Workload

_EARLY = frozenset(
    {
        "sysinit.target", "basic.target", "sockets.target", "local-fs.target", "swap.target", "cryptsetup.target",
        "shutdown.target", "network.target", "network-pre.target", "network-online.target", "remote-fs.target",
        "timers.target", "paths.target",
    }
)  # fmt: skip


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
    around: NodeSigns

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

    def agent_of(self, unit: UnitFile, name: str = "") -> KnownAgent | None:
        """The entry that speaks of it, if it may: broad patterns speak only of what a vendor or systemd made."""
        agent = self.knowledge.agent_of(name or unit.name)
        is_made = unit.from_vendor or (unit.enabled in ("generated", "transient") and not unit.is_quadlet)
        if agent and agent.speaks_of(name or unit.name, from_vendor=is_made):
            return agent
        image = unit.last("Container", "Image")
        return self.knowledge.agent_of_image(image.value) if image else None

    def needed_by(self, unit: UnitFile) -> list[str]:
        """Units that start and ask for this one; a link made by `enable` proves nothing and is left out."""
        return sorted({pull.owner for pull in self._requests(unit)})

    def _requests(self, unit: UnitFile) -> list[Pull]:
        return [
            pull
            for pull in self.activation.pulled_by(unit.name)
            if pull.owner in self.activation.starting and pull.owner != unit.name
            if not (pull.is_local and pull.owner.endswith(".target"))
        ]

    def _by_knowledge(self, agent: KnownAgent) -> NeedVerdict:
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
            if pull.relation == "Triggers" and kind in ("socket", "automount") and is_on_demand:
                return NeedVerdict(Need.NEEDED, f"it starts only when {pull.owner} is used")
            is_early = kind == "target" and pull.owner in _EARLY
            if is_early and derive_restart_policy(unit, self.files.manager).can_loop is False:
                return NeedVerdict(Need.NEEDED, f"the vendor links it into {pull.owner}")
        return None

    def _starts_by_itself(self, unit: UnitFile) -> bool:
        """At boot, by a clock or by a file, whatever else can start it."""
        owners = (pull.owner for pull in self.activation.pulled_by(unit.name) if pull.owner in self.activation.starting)
        return any(owner.rpartition(".")[2] in ("target", "timer", "path") for owner in owners)

    def _is_needed_itself(self, name: str) -> bool:
        """By knowledge alone, so that two unknown services do not vouch for each other."""
        unit = self.files.real(name)
        agent = self.agent_of(unit, name) if unit else None
        return agent is not None and self._by_knowledge(agent).need is Need.NEEDED


MANY_PER_DAY = 1000.0
"""Lives of a scheduled job that would reach the usual warning for zombies within a day."""
_STARTED_BY = {
    Starter.CRON: ("unit:cron.service", "unit:crond.service", "unit:cronie.service", "program:cron", "program:crond"),
    Starter.SUPERVISORD: ("unit:supervisor*.service", "program:supervisord"),
    Starter.DOCKER: ("role:docker",),
    Starter.PODMAN: ("unit:podman-restart.service",),
    Starter.KUBELET: ("role:kubernetes", "role:kubernetes-installed"),
}


@dataclass(frozen=True, slots=True)
class WorkloadAudit:
    workload: Workload
    lives: Lives
    starts: bool
    """Something here would start it."""
    need: Need
    why: str
    is_running: bool | None = None
    """None: it could not be seen."""

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def may_loop(self) -> bool:
        """Started for ever, and each life leaves a cgroup: by a restart policy, or by a clock that comes round often."""
        if not self.lives.for_ever or self.lives.leaves_cgroups is False:
            return False
        if self.workload.starter in (Starter.CRON, Starter.TIMER) or self.workload.policy.startswith("schedule "):
            return self.lives.per_day is not None and self.lives.per_day >= MANY_PER_DAY
        return True

    @property
    def is_risk(self) -> bool:
        return self.starts and self.may_loop and self.need is Need.UNNEEDED

    @property
    def is_unsure(self) -> bool:
        """It would start, may loop or cannot be told to, and nobody could say whether it is needed."""
        return self.starts and self.need is Need.UNKNOWN and (self.may_loop or self.lives.for_ever is None)


@dataclass(frozen=True, slots=True)
class WorkloadJudge:
    knowledge: KnowledgeBase
    around: NodeSigns
    unit_needs: Mapping[str, tuple[Need, str]]
    """Of units that start: what timers elapse for."""
    running: Running | None = None

    def judge_all(self, services: Services) -> tuple[WorkloadAudit, ...]:
        sessions = services.declared.cron_makes_sessions
        workloads = (*services.declared.workloads, *map(_scheduled, services.schedules))
        judged = (self._judge(workload, cron_makes_sessions=sessions) for workload in workloads)
        return tuple(sorted(judged, key=lambda one: one.name))

    def _judge(self, workload: Workload, *, cron_makes_sessions: bool) -> WorkloadAudit:
        lives = derive_lives(workload, cron_makes_sessions=cron_makes_sessions)
        verdict = self._need(workload)
        ids = self.running.containers if self.running is not None and workload.container_id else None
        is_running = None if ids is None else workload.container_id in ids
        starts = not workload.is_stopped and (self._is_started(workload) or is_running is True)
        return WorkloadAudit(workload, lives, starts, verdict.need, verdict.why, is_running)

    def _is_started(self, workload: Workload) -> bool:
        if workload.starter is Starter.TIMER:
            return f"{workload.name.removeprefix('timer/')}" in self.around.starting
        if workload.starter is Starter.COMPOSE:
            return True  # whoever gives a compose file means to run it
        if workload.is_pod and not workload.path.startswith("/"):
            return True
        return self.around.first(_STARTED_BY.get(workload.starter, ())) is not None

    def _need(self, workload: Workload) -> NeedVerdict:
        declared = self.knowledge.declared_need(workload.name)
        if declared:
            return NeedVerdict(Need.NEEDED, f"declared as needed: {declared.reason}", is_declared=True)
        if workload.starter is Starter.TIMER:
            unknown = Need.UNKNOWN, "nothing is known of what it starts"
            return NeedVerdict(*self.unit_needs.get(workload.command, unknown))
        agent = self._agent(workload)
        return _by_agent(agent, self._around(workload), workload) if agent else _UNKNOWN

    def _agent(self, workload: Workload) -> KnownAgent | None:
        if workload.is_container:
            return self.knowledge.agent_of_image(workload.image)
        if RUNTIMES.search(workload.command):
            return None  # what a runtime runs is not what is known of the runtime
        program = workload.command.split(" ")[0].rpartition("/")[2] or workload.name.rpartition("/")[2]
        agent = self.knowledge.agent_of(f"{program}.service")
        return agent if agent and f"{program}.service" in agent.units else None

    def _around(self, workload: Workload) -> NodeSigns:
        """A pod's node runs Kubernetes, whatever the files around the manifest say."""
        roles = {"kubernetes": "its manifest is one of Kubernetes", **self.around.roles}
        return replace(self.around, roles=roles) if workload.is_pod else self.around


_UNKNOWN = NeedVerdict(Need.UNKNOWN, "nothing is known of it")


def _by_agent(agent: KnownAgent, around: NodeSigns, workload: Workload) -> NeedVerdict:
    given = next((name for name in agent.variables if workload.variables.get(name)), "")
    if given:
        against = around.first(_about_the_node(agent.contested_if))
        if against:
            return NeedVerdict(Need.UNKNOWN, f"{agent.title}: {given} is set, and {against} speaks against it", against)
        return NeedVerdict(Need.NEEDED, f"{agent.title}: {given} is set")
    condition = around.first(_about_the_node(agent.needed_if))
    if condition:
        return NeedVerdict(Need.NEEDED, f"{agent.title} ({condition})", condition)
    condition = around.first(_about_the_node(agent.unneeded_if))
    if condition:
        why = (
            agent.why if not workload.is_container else f"{condition} holds, and it is not configured to serve anything"
        )
        return NeedVerdict(Need.UNNEEDED, f"{agent.title}: {why}", condition)
    if agent.otherwise == Need.NEEDED:
        return NeedVerdict(Need.NEEDED, f"{agent.title}: {agent.why}")
    needs = f"; needed by {agent.hosts}" if agent.hosts else ""
    return NeedVerdict(Need.UNKNOWN, f"{agent.title}: whether it has anything to do cannot be told{needs}")


def _about_the_node(conditions: Iterable[str]) -> tuple[str, ...]:
    return tuple(condition for condition in conditions if not path_of(condition) and not condition.startswith("!"))


def _scheduled(one: Schedule) -> Workload:
    command = f":{one.command[:60]}" if one.kind == Starter.CRON and one.command else ""
    return Workload(Starter(one.kind), f"{one.kind}/{one.name}{command}", one.path, one.when, command=one.command)


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """What runs against what is declared."""

    undeclared_containers: tuple[str, ...] = ()
    """Cgroups of containers that nothing here declares."""
    outside: Mapping[str, int] | None = None
    """Programs that run in no unit, container or session."""
    not_running: tuple[str, ...] = ()
    """Declared to be restarted for ever, and not running."""


def cross_check(running: Running, workloads: Iterable[WorkloadAudit], known_ids: frozenset[str]) -> CrossCheck:
    judged = list(workloads)
    declared = {one.workload.container_id for one in judged if one.workload.container_id} | known_ids
    strangers = tuple(sorted(path for name, path in running.containers.items() if name not in declared))
    down = tuple(one.name for one in judged if one.is_running is False and one.starts and one.lives.for_ever)
    return CrossCheck(strangers, running.outside, down)
