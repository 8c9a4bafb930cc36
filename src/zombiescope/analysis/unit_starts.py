# SPDX-License-Identifier: Apache-2.0
"""What systemd starts, and how often: what starts by itself and who asks for it, and whether a unit can be restarted for ever.

Targets, timers, sockets, paths and D-Bus names start services. Generators and udev rules may start more: not known here.
The start limit opens a window at the first start and refuses the start after `burst` while the window is open. Restarts come
a delay apart, so the limit trips only if `burst` delays fit into the interval. With 10 s between restarts and the
default of 5 starts in 10 s they do not: the ECS agent's unit is restarted 8,640 times a day and nobody is told.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zombiescope.facts.names import shown
from zombiescope.facts.units import Schedule, Setting, UnitFile, UnitFiles, parse_time_span, shown_span

_AFTER_FAILURE = {"always": True, "on-failure": True, "no": False, "on-success": False}
_POLICIES = {"no", "always", "on-success", "on-failure", "on-abnormal", "on-abort", "on-watchdog"}
_INTERVAL = (
    ("Unit", "StartLimitIntervalSec"), ("Unit", "StartLimitInterval"), ("Service", "StartLimitInterval"),
)  # fmt: skip
_BURST = (("Unit", "StartLimitBurst"), ("Service", "StartLimitBurst"))


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """What the files say of restarts. None: what they say cannot be understood."""

    restart: str
    delay_seconds: float | None
    interval_seconds: float | None
    burst: int | None
    steps: int = 0
    max_delay_seconds: float = math.inf
    prevented: tuple[str, ...] = ()
    successes: tuple[str, ...] = ()
    origins: tuple[Setting, ...] = ()
    """The lines that decide."""

    @property
    def can_trip(self) -> bool | None:
        """Would the start limit end a loop of instant failures? None: unknown."""
        if self.delay_seconds is None or self.interval_seconds is None or self.burst is None:
            return None
        if not self.is_limited or math.isinf(self.delay_seconds):
            return False
        return sum(self.delay(number) for number in range(self.burst)) < self.interval_seconds

    @property
    def is_limited(self) -> bool:
        return bool(self.interval_seconds) and bool(self.burst)

    def delay(self, number: int) -> float:
        """Before restart `number` (from 0); grows to the maximum over `RestartSteps=` restarts (systemd 254)."""
        first = self.delay_seconds or 0.0
        if not self.steps or math.isinf(self.max_delay_seconds) or self.max_delay_seconds <= first:
            return first
        share = min(number, self.steps) / self.steps
        return math.exp(math.log(max(first, 1e-6)) * (1 - share) + math.log(self.max_delay_seconds) * share)

    @property
    def restarts_after_failure(self) -> bool | None:
        """Is the unit started again when its program exits with status 1? None: only for other endings, or unknown."""
        if "1" in self.prevented or (self.delay_seconds is not None and math.isinf(self.delay_seconds)):
            return False
        if "1" in self.successes:
            return self.restart in ("always", "on-success")
        return _AFTER_FAILURE.get(self.restart)

    @property
    def can_loop(self) -> bool | None:
        """For ever, that is: some ending restarts it and no limit stops it."""
        if self.restart not in _POLICIES:
            return None
        if self.restart == "no" or self.restarts_after_failure is False:
            return False
        return None if self.can_trip is None else not self.can_trip

    @property
    def restarts_per_day(self) -> float | None:
        """In a loop without end, of a program that fails at once."""
        if not self.can_loop or self.delay_seconds is None:
            return None
        slowest = self.delay(self.steps) if self.steps else self.delay_seconds
        return 86400 / max(slowest, 0.001)

    @property
    def why(self) -> str:
        if self.restart == "no":
            return "it is not restarted (Restart=no)"
        if self.restart not in _POLICIES:
            return f"Restart={self.restart} is not a policy that systemd knows"
        if self.restarts_after_failure is False:
            return f"Restart={self.restart} does not restart it after exit status 1"
        if self.delay_seconds is None or self.interval_seconds is None or self.burst is None:
            return "its restart delay or start limit cannot be understood"
        if not self.is_limited:
            return f"Restart={self.restart} and the start limit is switched off"
        needed = sum(self.delay(number) for number in range(self.burst))
        verb = "fit into" if self.can_trip else "do not fit into"
        when = "" if self.restart in ("always", "on-failure", "on-success") else ", when it is killed or times out,"
        return (
            f"Restart={self.restart}{when} with {self.burst} delays of {shown_span(self.delay_seconds)} ({shown_span(needed)}) "
            f"{verb} the start limit's {shown_span(self.interval_seconds)}"
        )


def derive_restart_policy(unit: UnitFile, manager: tuple[Setting, ...]) -> RestartPolicy:
    """From the unit's own lines, then the manager's defaults, then systemd's."""
    restart = unit.last("Service", "Restart")
    delay = unit.last("Service", "RestartSec") or _manager(manager, "DefaultRestartSec")
    interval = _last_of(unit, _INTERVAL) or _manager(
        manager, "DefaultStartLimitIntervalSec", "DefaultStartLimitInterval"
    )
    burst = _last_of(unit, _BURST) or _manager(manager, "DefaultStartLimitBurst")
    steps = unit.last("Service", "RestartSteps")
    longest = unit.last("Service", "RestartMaxDelaySec")
    return RestartPolicy(
        restart=restart.value if restart else "no",
        delay_seconds=_span(delay, 0.1),
        interval_seconds=_span(interval, 10.0),
        burst=_number(burst, 5),
        steps=_number(steps, 0) or 0,
        max_delay_seconds=_span(longest, math.inf) or math.inf,
        prevented=tuple(unit.words("Service", "RestartPreventExitStatus")),
        successes=tuple(unit.words("Service", "SuccessExitStatus")),
        origins=tuple(filter(None, (restart, delay, interval, burst, steps, longest))),
    )


def _last_of(unit: UnitFile, places: tuple[tuple[str, str], ...]) -> Setting | None:
    found = [setting for setting in unit.settings if (setting.section, setting.key) in places]
    return found[-1] if found and found[-1].value else None


def _manager(settings: tuple[Setting, ...], *keys: str) -> Setting | None:
    found = [each for each in settings if each.section == "Manager" and each.key in keys and each.value]
    return found[-1] if found else None


def _span(setting: Setting | None, default: float) -> float | None:
    return default if setting is None else parse_time_span(setting.value)


def _number(setting: Setting | None, default: int) -> int | None:
    if setting is None:
        return default
    return int(setting.value) if setting.value.isascii() and setting.value.isdecimal() else None


PULLS = ("Requires", "Wants", "BindsTo", "Upholds", "Requisite")
_ALWAYS = ("sysinit.target", "basic.target")
_TRIGGERS = {"timer": "Timer", "socket": "Socket", "path": "Path", "automount": "Automount"}


@dataclass(frozen=True, slots=True)
class Pull:
    """`owner` makes systemd start `unit`."""

    owner: str
    unit: str
    relation: str
    is_local: bool
    """By a link under /etc or /run: what `enable` does, no proof that anybody needs it."""


@dataclass(frozen=True, slots=True)
class Activation:
    by_unit: Mapping[str, Sequence[Pull]]
    starting: Mapping[str, Pull | None]
    """Units that will be started or can be triggered, with the first reason; None for the roots."""

    def pulled_by(self, name: str) -> Sequence[Pull]:
        return self.by_unit.get(name, ())


def derive_activation(files: UnitFiles) -> Activation:
    by_owner: dict[str, list[Pull]] = defaultdict(list)
    by_unit: dict[str, list[Pull]] = defaultdict(list)
    for pull in _all_pulls(files):
        by_owner[pull.owner].append(pull)
        by_unit[pull.unit].append(pull)
    starting: dict[str, Pull | None] = {}
    pending: list[tuple[str, Pull | None]] = [(name, None) for name in (files.default_target, *_ALWAYS)]
    while pending:
        name, why = pending.pop()
        unit = files.real(name)
        if name in starting or unit is None or unit.is_masked:
            continue
        starting[name] = why
        pending.extend((pull.unit, pull) for pull in by_owner[name])
        if unit.name != name and "@" not in name:
            pending.append((unit.name, why))
    return Activation(dict(by_unit), starting)


def _all_pulls(files: UnitFiles) -> Iterator[Pull]:
    for link in files.links:
        yield Pull(link.owner, _real_name(files, link.unit), link.relation, link.path.startswith(("/etc/", "/run/")))
    for unit in files.units.values():
        if not unit.alias_of and not unit.is_masked:
            yield from _own_pulls(files, unit)
    for name in files.bus_names:
        yield Pull("dbus.service", _real_name(files, name), "D-Bus name", False)
    for name, unit in files.units.items():
        if unit.enabled == "generated" and not unit.is_quadlet:
            yield Pull(files.default_target, name, "generator", False)


def _own_pulls(files: UnitFiles, unit: UnitFile) -> Iterator[Pull]:
    for relation in PULLS:
        for name in unit.words("Unit", relation):
            yield Pull(unit.name, _real_name(files, name), relation, False)
    section = _TRIGGERS.get(unit.kind)
    if section:
        yield Pull(unit.name, _triggered(files, unit, section), "Triggers", False)


def _triggered(files: UnitFiles, unit: UnitFile, section: str) -> str:
    said = unit.last(section, "Unit", "Service")
    if said:
        return _real_name(files, said.value)
    stem = unit.name.rpartition(".")[0]
    accept = unit.last(section, "Accept")
    if section == "Socket" and accept and accept.value.lower() in ("yes", "true", "1", "on"):
        return f"{stem}@.service"
    return _real_name(files, f"{stem}.service")


def _real_name(files: UnitFiles, name: str) -> str:
    unit = files.real(name)
    return unit.name if unit is not None and "@" not in name else name


def timers(files: UnitFiles) -> tuple[Schedule, ...]:
    """Every timer that is not an alias: when it elapses, and what it starts."""
    return tuple(
        Schedule("timer", shown(unit.name.encode()), unit.path, _elapses(unit), _triggered(files, unit, "Timer"))
        for unit in sorted(files.of_kind("timer"), key=lambda unit: unit.name)
        if not unit.alias_of and not unit.is_masked
    )


def _elapses(unit: UnitFile) -> str:
    said = [setting for setting in unit.settings if setting.section == "Timer" and setting.key.startswith("On")]
    return ", ".join(f"{setting.key}={setting.value}" for setting in said if setting.value)
