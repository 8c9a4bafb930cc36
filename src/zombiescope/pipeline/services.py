# SPDX-License-Identifier: Apache-2.0
"""What the doctor's window sees of the services: systemd's answers before and after, births in between, the audit of unit files.
A recording keeps what is worth telling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zombiescope.analysis.maker import fold_unit
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.services import ServiceLoop, ServicesSeen, UnneededService
from zombiescope.facts.units import LiveUnit
from zombiescope.host.access import Host, beside_recording
from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.cgroup_births import BirthsWatch

if TYPE_CHECKING:
    from zombiescope.diagnosis.audit import Audit
    from zombiescope.facts.units import UnitFiles

FACT = "services"
_NOT_HERE = Gap(FACT, "nothing runs in a folder, and no recording kept its services", "run it on the host")
_GARBLED = Gap(FACT, "the recorded services are not in a form we know", "record the host again")
_ELSEWHERE = Gap(FACT, "the services of a host mounted elsewhere cannot be asked", "run it on that host")
_HOUR = 3600.0


class ServicesWatch:
    """The first look is taken when it is made; `look` often; then `seen`."""

    def __init__(self, host: Host, hierarchy: Hierarchy | Gap) -> None:
        self._host, self._beside = host, beside_recording(host)
        self._is_this_host = isinstance(self._beside, LiveHost) and self._beside.label == LiveHost().label
        self.judged: tuple[Audit, UnitFiles] | None = None
        """The whole audit, where it was done here and now."""
        self._births: BirthsWatch | None = None
        self._start = host.monotonic()
        self._before: Mapping[str, LiveUnit] | Gap = _NOT_HERE
        if self._is_this_host:
            from zombiescope.probes.readers.systemd_state import read_systemd_state  # noqa: PLC0415

            self._before = read_systemd_state(self._beside)
            if isinstance(hierarchy, Hierarchy):
                self._births = BirthsWatch(self._beside, hierarchy)

    def look(self) -> None:
        if self._births:
            self._births.look_if_due()

    def seen(self) -> ServicesSeen | Gap:
        outcome = self._host.experiment("services", self._outcome)
        return _NOT_HERE if outcome is None else _checked(outcome)

    def _outcome(self) -> dict[str, Any]:
        from zombiescope.pipeline.audit import audit_of_window  # noqa: PLC0415 (a replay does not pay for it)
        from zombiescope.pipeline.watch import Live, live_between  # noqa: PLC0415

        if not self._is_this_host:
            return {"gap": list(_ELSEWHERE)}
        seconds = self._host.monotonic() - self._start
        live: Live = live_between(self._beside, self._before, self._births.births if self._births else None)
        audit, files = audit_of_window(live)
        self.judged = audit, files
        needs = {unit.name: unit for unit in audit.units}
        loops = []
        for loop in audit.loops:
            unit = needs.get(loop.name)
            delay = unit.policy.delay_seconds if unit else None
            every = _every(loop.name, live, seconds, delay)
            loops.append([*_fields(loop), every, unit.need.value if unit else "unknown"])
        unneeded = [
            [
                unit.name,
                unit.enabled,
                unit.why,
                unit.path,
                unit.may_loop,
                unit.from_vendor,
                unit.policy.restarts_per_day,
            ]
            for unit in audit.unneeded
        ]
        return {
            "at": self._host.wall_clock(),
            "seconds": seconds,
            "starting": len(audit.starting),
            "loops": loops,
            "unneeded": unneeded,
            "was_systemd_asked": live.units is not None,
            "were_files_read": bool(audit.units),
            "timers": _timers(files),
        }


def _timers(files: UnitFiles) -> list[list[str]]:
    from zombiescope.analysis.activation import timers  # noqa: PLC0415 (a replay does not pay for it)

    found = [(fold_unit(timer.command.encode()).decode(), timer.name) for timer in timers(files) if timer.command]
    return [list(pair) for pair in sorted(set(found))]


def _fields(loop: Any) -> list[Any]:
    return [loop.name, loop.kind, loop.restarts, loop.why, loop.source]


def _every(name: str, live: Any, seconds: float, delay: float | None) -> float | None:
    """Seen in the window where it restarted at least twice, else by the journal's last hour, else what is configured."""
    moved = live.moved.get(name, 0)
    if moved >= 2:
        return float(seconds / moved)
    in_hour = (live.journal or {}).get(name, 0)
    if in_hour >= 30:
        return float(_HOUR / in_hour)
    return delay


def _checked(outcome: dict[str, Any]) -> ServicesSeen | Gap:
    try:
        if "gap" in outcome:
            return Gap(*map(str, outcome["gap"]))
        loops = [
            ServiceLoop(str(name), str(kind), int(restarts), str(why), str(source), _number(every), str(need))
            for name, kind, restarts, why, source, every, need in outcome["loops"]
        ]
        unneeded = [
            UnneededService(str(name), str(word), str(why), str(path), bool(may_loop), bool(vendor), _number(rate))
            for name, word, why, path, may_loop, vendor, rate in outcome["unneeded"]
        ]
        return ServicesSeen(
            float(outcome["at"]),
            float(outcome["seconds"]),
            int(outcome["starting"]),
            tuple(loops),
            tuple(unneeded),
            bool(outcome["was_systemd_asked"]),
            bool(outcome["were_files_read"]),
            tuple((str(service), str(timer)) for service, timer in outcome.get("timers", ())),
        )
    except (KeyError, TypeError, ValueError):
        return _GARBLED


def _number(said: object) -> float | None:
    return None if said is None else float(said)  # type: ignore[arg-type]
