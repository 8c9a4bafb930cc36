# SPDX-License-Identifier: Apache-2.0
"""What starts by itself, and who asks for it: the closure of systemd's dependencies from the default target.

Targets, timers, sockets, paths and D-Bus names start services. Generators and udev rules may start more: not known here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zombiescope.facts.names import shown
from zombiescope.facts.units import Schedule, UnitFile, UnitFiles

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
    pulls = list(_all_pulls(files))
    by_owner: dict[str, list[Pull]] = defaultdict(list)
    by_unit: dict[str, list[Pull]] = defaultdict(list)
    for pull in pulls:
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
        is_local = link.path.startswith(("/etc/", "/run/"))
        yield Pull(link.owner, _real_name(files, link.unit), link.relation, is_local)
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
