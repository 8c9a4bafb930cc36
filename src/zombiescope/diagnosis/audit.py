# SPDX-License-Identifier: Apache-2.0
"""The audit: each service judged with its evidence. Can it loop for ever, does it make cgroups, is it needed?"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from zombiescope.analysis.knowledge import KnowledgeBase, KnownAgent, NodeSigns, derive_roles
from zombiescope.analysis.looping import derive_loops
from zombiescope.analysis.unit_starts import Activation, RestartPolicy, derive_activation, derive_restart_policy
from zombiescope.analysis.workload_lives import RUNTIMES
from zombiescope.diagnosis.workload_audit import CrossCheck, Judge, Need, WorkloadAudit, WorkloadJudge, cross_check
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.units import ServiceLoop, Services, UnitFile


class AuditSubject(StrEnum):
    HOST = "host"
    ROOT = "root"
    IMAGE = "image"
    MANIFESTS = "manifests"


@dataclass(frozen=True, slots=True)
class UnitEvidence:
    fact: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class UnitAudit:
    name: str
    path: str
    enabled: str
    state: str | None
    from_vendor: bool
    restarts: int | None
    births: int | None
    """Memory cgroups seen to be born in the window."""
    zombies: int | None
    processes: int | None
    policy: RestartPolicy
    makes_cgroups: bool | None
    restarts_inside: bool
    needed_by: tuple[str, ...]
    need: Need
    why: str
    starts: bool
    """Something starts it: a target, a timer, a socket, a call."""
    evidence: tuple[UnitEvidence, ...]
    is_declared: bool = False
    """Needed because its owner says so."""
    upheld_by: str = ""
    """A unit that starts and has it started again whenever it is down, whatever its own policy says."""

    @property
    def may_loop(self) -> bool:
        """By systemd, or by itself inside its unit."""
        return self.policy.can_loop is True or self.restarts_inside or bool(self.upheld_by)

    @property
    def loop_why(self) -> str:
        if self.policy.can_loop is True:
            return self.policy.why
        if self.upheld_by:
            return f"{self.upheld_by} upholds it (Upholds=): it is started again whenever it is down"
        if self.restarts_inside:
            return "it restarts its child inside one unit, where no start limit counts"
        return self.policy.why

    @property
    def is_risk(self) -> bool:
        return self.starts and self.need is Need.UNNEEDED and self.may_loop


@dataclass(frozen=True, slots=True)
class Audit:
    subject: AuditSubject
    roles: tuple[str, ...]
    units: tuple[UnitAudit, ...]
    loops: tuple[ServiceLoop, ...]
    """Looping now, as far as it could be watched."""
    was_systemd_asked: bool
    cannot_tell: str = ""
    """Why nobody can tell what starts; empty where the files tell, or systemd did."""
    workloads: tuple[WorkloadAudit, ...] = ()
    """What is started beside systemd's units."""
    unread_workloads: tuple[Gap, ...] = ()
    """Declarations that could not be read."""
    cross_check: CrossCheck | None = None
    """What runs against what is declared; None offline."""

    @property
    def starting(self) -> list[UnitAudit]:
        return [unit for unit in self.units if unit.starts]

    @property
    def unneeded(self) -> list[UnitAudit]:
        return [unit for unit in self.starting if unit.need is Need.UNNEEDED]

    @property
    def not_judged(self) -> list[UnitAudit]:
        """They start, and nobody could say whether anything needs them."""
        return [unit for unit in self.starting if unit.need is Need.UNKNOWN]

    @property
    def loop_risks(self) -> list[UnitAudit]:
        """Of those, the ones that may be restarted for ever."""
        return [unit for unit in self.not_judged if unit.may_loop]

    @property
    def risks(self) -> list[UnitAudit]:
        return [unit for unit in self.units if unit.is_risk]

    @property
    def workload_risks(self) -> list[WorkloadAudit]:
        return [one for one in self.workloads if one.is_risk]

    @property
    def unneeded_workloads(self) -> list[WorkloadAudit]:
        return [one for one in self.workloads if one.starts and one.need is Need.UNNEEDED]

    @property
    def unsure_workloads(self) -> list[WorkloadAudit]:
        return [one for one in self.workloads if one.is_unsure]

    @property
    def not_judged_names(self) -> tuple[str, ...]:
        """Services that start, and workloads that may loop, of which nobody could say whether they are needed."""
        return (*(unit.name for unit in self.not_judged), *(one.name for one in self.unsure_workloads))


def judge_services(services: Services, knowledge: KnowledgeBase, subject: AuditSubject) -> Audit:
    activation = derive_activation(services.files)
    running = {name for name, unit in (services.live or {}).items() if unit.active_state in ("active", "activating")}
    signs = NodeSigns(
        services.texts,
        frozenset(activation.starting) | running,
        services.programs,
        frozenset(services.files.units),
        services.unreadable,
        cgroups=services.running.cgroups if services.running else frozenset(),
    )
    around = derive_roles(knowledge, signs)
    judge = Judge(services.files, activation, knowledge, around)
    units = tuple(_judge_unit(unit, services, judge, activation) for unit in _audited(services))
    is_told = subject is AuditSubject.MANIFESTS or services.live is not None
    needs = {unit.name: (unit.need, unit.why) for unit in units}
    workloads = WorkloadJudge(knowledge, around, needs, services.running).judge_all(services)
    return Audit(
        subject,
        tuple(sorted(around.roles)),
        units,
        derive_loops(services),
        services.live is not None,
        "" if is_told else _why_nobody_can_tell(services, units),
        workloads,
        services.declared.gaps,
        cross_check(services.running, workloads, services.container_ids) if services.running else None,
    )


def _why_nobody_can_tell(services: Services, units: tuple[UnitAudit, ...]) -> str:
    """Files tell what starts only where they are systemd's, all there, and lead from a target to services."""
    files = services.files
    if not files.units:
        tail = f": {services.unread[0]}" if services.unread else ""
        return f"no unit files were found{tail}"
    if services.unread:
        more = f", and {len(services.unread) - 1} more" if len(services.unread) > 1 else ""
        return f"a part of systemd's configuration could not be read: {services.unread[0]}{more}"
    if services.other_init:
        return f"{services.other_init} runs first here, not systemd: unit files do not tell what starts"
    target = files.real(files.default_target)
    if target is None or target.is_masked:
        said = (
            f"default.target leads to {files.default_target}, which is"
            if files.default_target != "default.target"
            else "default.target is"
        )
        return f"{said} {'masked' if target else 'missing'}: nobody can tell what starts"
    if not any(unit.starts for unit in units):
        return f"nothing leads from {files.default_target} to a service"
    return ""


def _audited(services: Services) -> Iterator[UnitFile]:
    """Services that have a file of their own, no aliases, no bare templates; and running ones that have none."""
    for unit in sorted(services.files.of_kind("service"), key=lambda unit: unit.name):
        if not unit.alias_of and not unit.name.endswith("@.service"):
            yield unit
    for name, live in sorted((services.live or {}).items()):
        if (
            name not in services.files.units
            and name.endswith(".service")
            and live.active_state not in ("inactive", "not-found")
        ):
            template = services.files.real(name)
            yield UnitFile(name, template.path if template else "", "transient", template.settings if template else ())


def _judge_unit(unit: UnitFile, services: Services, judge: Judge, activation: Activation) -> UnitAudit:
    live = (services.live or {}).get(unit.name)
    agent = judge.knowledge.agent_of(unit.name)
    policy = derive_restart_policy(unit, services.files.manager)
    verdict = judge.judge_need(unit)
    is_up = live is not None and live.active_state in ("active", "activating", "reloading", "deactivating")
    starts = not unit.is_masked and (unit.name in activation.starting or is_up)
    makes, how = _makes_cgroups(unit, agent)
    evidence = [UnitEvidence(setting.key, setting.value, setting.origin) for setting in policy.origins]
    if agent and agent is judge.agent_of(unit):
        evidence.append(UnitEvidence("knowledge", agent.title, verdict.condition or agent.id))
        if verdict.condition in agent.tells:
            sign = judge.around.roles.get(verdict.condition.removeprefix("role:"), verdict.condition)
            evidence.append(UnitEvidence("told by", agent.tells[verdict.condition], sign))
    pull = activation.starting.get(unit.name)
    if pull:
        evidence.append(UnitEvidence("started by", pull.owner, pull.relation))
    if live is not None and live.result not in ("", "success"):
        evidence.append(UnitEvidence("last result", f"{live.result}, exit status {live.exit_status}", "systemctl show"))
    evidence.extend(how)
    evidence.extend(UnitEvidence("ignored line", problem, unit.path) for problem in unit.problems[:3])
    upholding = (pull.owner for pull in activation.pulled_by(unit.name) if pull.relation == "Upholds")
    need = verdict.need if starts else (Need.UNKNOWN if verdict.need is Need.UNNEEDED else verdict.need)
    return UnitAudit(
        name=unit.name,
        path=unit.path,
        enabled=unit.enabled,
        state=live.active_state if live else None,
        from_vendor=unit.from_vendor,
        restarts=live.restarts if live else None,
        births=services.births.get(unit.name, 0) if services.was_watched else None,
        zombies=None if services.zombies is None else services.zombies.get(shown(unit.name.encode()), 0),
        processes=None if services.processes is None else services.processes.get(unit.name, 0),
        policy=policy,
        makes_cgroups=makes,
        restarts_inside=bool(agent and agent.restarts_inside) or unit.name in services.inner_restarts,
        needed_by=tuple(judge.needed_by(unit)),
        need=need,
        is_declared=verdict.is_declared,
        upheld_by=next((owner for owner in upholding if owner in activation.starting), ""),
        why=verdict.why if starts else f"nothing starts it; {verdict.why}",
        starts=starts,
        evidence=tuple(evidence),
    )


def _makes_cgroups(unit: UnitFile, agent: KnownAgent | None) -> tuple[bool | None, list[UnitEvidence]]:
    """Beyond its own: by delegation, by a runtime it calls, or because it is known to."""
    delegate = unit.last("Service", "Delegate")
    if delegate and delegate.value.lower() not in ("no", "false", "0", "off"):
        return True, [UnitEvidence("Delegate", delegate.value, delegate.origin)]
    for key in ("ExecStartPre", "ExecStart", "ExecStartPost", "ExecStop", "ExecStopPost"):
        for setting in unit.settings:
            if setting.key == key and RUNTIMES.search(setting.value):
                return True, [UnitEvidence(key, setting.value, setting.origin)]
    return (agent.makes_cgroups if agent else None), []
