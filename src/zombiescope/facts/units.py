# SPDX-License-Identifier: Apache-2.0
"""Services of a host or an image: unit files with their drop-ins, links and enablement, time spans as they write them, live state
where there is one, and what else is declared to start by itself: containers, pods, jobs of cron, programs of a supervisor."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.gap import Gap


class ServiceLoop(NamedTuple):
    name: str
    kind: str
    """`unit`: systemd restarts it; `inside`: children come and go inside it; `container`: a runtime restarts it; `pod`: kubelet
    restarts a container of its."""
    restarts: int
    why: str
    source: str
    every_seconds: float | None = None
    """Between two restarts, where it was seen or is configured."""
    need: str = "unknown"
    """needed, unneeded or unknown."""
    maker: str = ""
    """Whose it is, where the name does not say it."""
    ended: str = ""
    """How it ended last: `OOMKilled, exit code 137`; empty where nobody said."""


class UnitRestart(NamedTuple):
    """One automatic restart."""

    at: float
    """Seconds since the epoch."""
    unit: str


class UnneededService(NamedTuple):
    name: str
    enabled: str
    why: str
    path: str
    may_loop: bool
    from_vendor: bool
    restarts_a_day: float | None = None


class ServicesSeen(NamedTuple):
    at: float
    seconds: float
    """How long was watched."""
    starting: int
    """Services that something starts."""
    loops: tuple[ServiceLoop, ...]
    unneeded: tuple[UnneededService, ...]
    was_systemd_asked: bool
    """Else restarts by systemd are not known."""
    were_files_read: bool
    """Else what is needed is not known."""
    timers: tuple[tuple[str, str], ...] = ()
    """Services that a timer starts, each with its timer; templates without their instance."""

    def timer_of(self, unit: str) -> str | None:
        return next((timer for service, timer in self.timers if service == unit), None)


class RealTimeTask(NamedTuple):
    pid: int
    name: str
    """Empty where a recording did not keep it."""
    policy: str
    """fifo, rr or deadline."""
    priority: int
    seconds: float
    """On a CPU in the window."""
    core: int | None = None
    """Where it ran last."""


class RealTimeSeen(NamedTuple):
    at: float
    seconds: float
    """How long was watched."""
    tasks: tuple[RealTimeTask, ...]
    """Those that ran, most time first."""


class Starter(StrEnum):
    """Who starts it, and starts it again."""

    CRON = "cron"
    TIMER = "timer"
    SYSV = "sysv"
    SUPERVISORD = "supervisord"
    DOCKER = "docker"
    PODMAN = "podman"
    COMPOSE = "compose"
    KUBELET = "kubelet"


@dataclass(frozen=True, slots=True)
class Workload:
    """One program or container that somebody declared."""

    starter: Starter
    name: str
    """Unique and printable: `docker/web`, `daemonset/monitoring/node/scraper`."""
    path: str
    """The file that declares it."""
    policy: str = ""
    """The restart policy in the starter's own word; empty: it has none. For schedules, when it runs."""
    retries: int | None = None
    """How often it is started again at most, where that is limited."""
    command: str = ""
    image: str = ""
    variables: Mapping[str, bool] = field(default_factory=dict)
    """Names of its environment, and whether each has a value. Values are not kept: they hold secrets."""
    container_id: str = ""
    is_sidecar: bool = False
    is_stopped: bool = False
    """Declared, and told not to run: no replicas, stopped by hand, suspended."""

    @property
    def is_pod(self) -> bool:
        return self.starter is Starter.KUBELET

    @property
    def is_container(self) -> bool:
        return self.starter in (Starter.DOCKER, Starter.PODMAN, Starter.COMPOSE, Starter.KUBELET)


class Declared(NamedTuple):
    workloads: tuple[Workload, ...] = ()
    gaps: tuple[Gap, ...] = ()
    """What declares something and could not be read."""
    cron_makes_sessions: bool = False
    """cron's PAM stack opens a session of logind for every job: a scope, and so a cgroup, per run."""


@dataclass(frozen=True, slots=True)
class Running:
    """What runs on a live host, by where its cgroup says that it belongs."""

    containers: Mapping[str, str] = field(default_factory=dict)
    """Container id to its cgroup."""
    outside: Mapping[str, int] = field(default_factory=dict)
    """Programs in no unit, container or session, with how many processes."""
    cgroups: frozenset[str] = frozenset()
    """Names of cgroups on the way to a process: `kubepods.slice`."""


@dataclass(frozen=True, slots=True)
class Setting:
    section: str
    key: str
    value: str
    origin: str
    """The file that says so."""


@dataclass(frozen=True, slots=True)
class UnitFile:
    """One unit as files describe it. `name` is as systemd writes it: ASCII, `\\x2d` for a dash in a path."""

    name: str
    path: str
    enabled: str
    """The word of `systemctl list-unit-files`: enabled, disabled, static, indirect, alias, masked, linked, bad …"""
    settings: tuple[Setting, ...] = ()
    alias_of: str = ""
    from_vendor: bool = False
    problems: tuple[str, ...] = ()

    @property
    def is_masked(self) -> bool:
        return self.enabled.startswith("masked")

    @property
    def is_quadlet(self) -> bool:
        """Podman's generator makes it, or made it, of a file that anybody may have written."""
        source = self.last("Unit", "SourcePath")
        return (source.value if source else self.path).endswith((".container", ".kube"))

    @property
    def kind(self) -> str:
        return self.name.rpartition(".")[2]

    def values(self, section: str, key: str) -> list[str]:
        """Every value of a list setting, in order; an empty assignment starts the list anew."""
        found: list[str] = []
        for setting in self.settings:
            if setting.key == key and setting.section == section:
                found = [*found, setting.value] if setting.value else []
        return found

    def words(self, section: str, key: str) -> list[str]:
        return [word for value in self.values(section, key) for word in value.split()]

    def last(self, section: str, *keys: str) -> Setting | None:
        """The setting that counts: the last of any of these names."""
        found = [each for each in self.settings if each.section == section and each.key in keys]
        return found[-1] if found and found[-1].value else None


@dataclass(frozen=True, slots=True)
class Link:
    """`owner.wants/unit`: a dependency made by a link rather than by a line."""

    owner: str
    relation: str
    unit: str
    path: str


@dataclass(frozen=True, slots=True)
class UnitFiles:
    """All of systemd's configuration in one tree."""

    units: Mapping[str, UnitFile]
    links: tuple[Link, ...] = ()
    manager: tuple[Setting, ...] = ()
    default_target: str = "graphical.target"
    bus_names: Mapping[str, str] = field(default_factory=dict)
    """Units that a D-Bus call starts, and the name called."""

    def of_kind(self, kind: str) -> Iterator[UnitFile]:
        return (unit for unit in self.units.values() if unit.kind == kind)

    def real(self, name: str) -> UnitFile | None:
        """The unit behind a name, through aliases and templates."""
        for _ in range(8):
            unit = self.units.get(name)
            if unit is None:
                stem, at, rest = name.partition("@")
                return self.units.get(f"{stem}@.{rest.rpartition('.')[2]}") if at else None
            if not unit.alias_of:
                return unit
            name = unit.alias_of
        return None


@dataclass(frozen=True, slots=True)
class LiveUnit:
    """What a running systemd says of a unit. None: it did not say."""

    name: str
    active_state: str
    sub_state: str = ""
    restarts: int | None = None
    result: str = ""
    exit_status: int | None = None
    control_group: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A line of cron, a SysV script or anything else that starts programs beside systemd's units."""

    kind: str
    name: str
    path: str
    when: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class RestartingContainer:
    """A container that its runtime started again in place."""

    runtime: str
    name: str
    restarts: int
    path: str
    restarted_at: float | None = None
    pause_seconds: float | None = None
    """Between its last two starts."""
    is_running: bool | None = None
    ended: tuple[str, int | None] = ("", None)
    """Why it ended last, and its exit code."""
    maker: str = ""
    """Whose it is, where it belongs to a workload."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything the audit looks at."""

    files: UnitFiles
    live: Mapping[str, LiveUnit] | None
    schedules: tuple[Schedule, ...] = ()
    containers: tuple[RestartingContainer, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """Of the paths that the knowledge base asks about, those that are there, with their text (folders: none)."""
    programs: frozenset[str] = frozenset()
    """Names of running programs; empty offline."""
    processes: Mapping[str, int] | None = None
    """Running processes by the unit whose cgroup they are in; None offline."""
    journal_restarts: Mapping[str, int] | None = None
    """Automatic restarts by unit in the last hour, as the journal tells; None where it could not be read."""
    window_restarts: Mapping[str, int] = field(default_factory=dict)
    """How far NRestarts moved in the window."""
    inner_restarts: Mapping[str, int] = field(default_factory=dict)
    """Children started again inside one running unit, seen in the window."""
    births: Mapping[str, int] = field(default_factory=dict)
    """Memory cgroups seen to be born in the window, by unit: its own and those inside."""
    was_watched: bool = False
    zombies: Mapping[str, int] | None = None
    """Zombies by the unit that made them; None where they could not be seen one by one."""
    unreadable: frozenset[str] = frozenset()
    """Of the paths that the knowledge base asks about, those that could not be looked at."""
    unread: tuple[str, ...] = ()
    """Folders and files of systemd's configuration that could not be read, units aside; each with its reason."""
    other_init: str = ""
    """The program that runs first, where it is another than systemd."""
    declared: Declared = field(default_factory=Declared)
    """What is started beside systemd's units."""
    running: Running | None = None
    """What runs, by where it belongs; None offline."""
    now: float | None = None
    """When this was seen, in seconds since the epoch; None offline, where nothing restarts."""
    container_ids: frozenset[str] = frozenset()
    """Of containers that kubelet keeps a log of."""


_UNITS = {
    "us": 1e-6, "usec": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "msec": 1e-3,
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0, "w": 604800.0, "week": 604800.0, "weeks": 604800.0,
    "M": 2629800.0, "month": 2629800.0, "months": 2629800.0,
    "y": 31557600.0, "year": 31557600.0, "years": 31557600.0,
}  # fmt: skip
_PART = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([^\d\s.]*)")


def parse_time_span(text: str) -> float | None:
    """Seconds; None when systemd would not understand it either."""
    text = text.strip()
    if text == "infinity":
        return math.inf
    parts: list[tuple[str, str]] = _PART.findall(text)
    if not parts or _PART.sub("", text) or any(unit not in _UNITS for _, unit in parts):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def shown_span(seconds: float) -> str:
    """`10 s`, `1.5 min`, `2 h`: for a person."""
    if math.isinf(seconds):
        return "for ever"
    for size, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{seconds / size:.4g} {name}"
    return f"{seconds * 1000:.4g} ms"
