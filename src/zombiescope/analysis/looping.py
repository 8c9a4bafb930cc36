# SPDX-License-Identifier: Apache-2.0
"""What is restarted over and over, now: units, from systemd's own counters read every few minutes, and containers.

A count alone says little: it is kept for the life of a unit or a pod, and three restarts of last month are no loop. What counts
is how far it moved within the last hour, or that the next restart is waited for.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from zombiescope.facts.agent import Occurrence, UnitRestarts
from zombiescope.facts.lifecycle import Counts
from zombiescope.facts.pods import Container, Pod, PodLoop, workload_of
from zombiescope.facts.units import LiveUnit, RestartingContainer, ServiceLoop, Services

RESTARTS_TELLING, MOST_UNITS = 3, 6
_TOLD_SECONDS, _FORGOTTEN_SECONDS = 60.0, 3600.0


class LoopingUnits:
    """Remembers the readings of an hour."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, dict[str, int]]] = deque(maxlen=32)
        self.looping: dict[str, int] = {}
        """Automatic restarts of those that loop, the six with most."""

    def take(self, at: float, units: Iterable[UnitRestarts]) -> None:
        now = {unit.name: unit for unit in units}
        while self._readings and at - self._readings[0][0] > _FORGOTTEN_SECONDS:
            self._readings.popleft()
        found = {}
        for name, unit in now.items():
            # One that is not in an older reading had not restarted by then; a counter that fell began anew.
            before = min((counts.get(name, 0) for _, counts in self._readings), default=unit.restarts)
            if unit.restarts - before >= RESTARTS_TELLING or (unit.is_waiting and unit.restarts >= RESTARTS_TELLING):
                found[name] = unit.restarts
        self._readings.append((at, {name: unit.restarts for name, unit in now.items()}))
        self.looping = dict(sorted(found.items(), key=lambda each: (-each[1], each[0]))[:MOST_UNITS])


WHAT = "unit-restarted"
_PREFIX, _SUFFIX = "unit:", ".service"
_MOST_STARTED = 512


class UnitStarts:
    """`take` what each reading of the ledger booked by maker. A unit is told at most once a minute, with the number since. One that
    began nothing for an hour makes way when there is no room for another."""

    def __init__(self) -> None:
        self._born_at: dict[str, float] = {}
        self._untold: dict[str, int] = {}
        self._told_at: dict[str, float] = {}

    def take(self, at: float, lately: Mapping[str, Counts]) -> tuple[Occurrence, ...]:
        for maker, counts in lately.items():
            if counts.births and maker.startswith(_PREFIX) and maker.endswith(_SUFFIX):
                self._add(at, maker.removeprefix(_PREFIX), counts.births)
        found = []
        for unit, births in self._untold.items():
            if births and not 0 <= at - self._told_at.get(unit, float("-inf")) < _TOLD_SECONDS:
                found.append(Occurrence(at, WHAT, f"{unit}: {births:,} cgroup{'s' if births != 1 else ''} born"))
                self._untold[unit], self._told_at[unit] = 0, at
        return tuple(found)

    def _add(self, at: float, unit: str, births: int) -> None:
        """The first birth of a unit is its start; those after it mean that it began again, or something inside it did."""
        if unit not in self._untold and len(self._untold) >= _MOST_STARTED:
            for idle in [name for name, born in self._born_at.items() if not 0 <= at - born < _FORGOTTEN_SECONDS]:
                if not self._untold[idle]:
                    del self._untold[idle], self._born_at[idle]
                    self._told_at.pop(idle, None)
        if unit in self._untold:
            self._untold[unit] += births
        elif len(self._untold) < _MOST_STARTED:
            self._untold[unit] = births - 1
        else:
            return
        self._born_at[unit] = at


KUBELET_PAUSE_SECONDS = 300.0
"""Kubelet's longest back-off between two starts; ten minutes without a failure end it."""
DOCKER_PAUSE_SECONDS = 60.0
_SLACK_SECONDS = 60.0
_SETTLES_SECONDS = 10.0
"""Of running: kubelet's shortest back-off."""


def why_looping(container: Container, now: float, moved: int = 0, longest_pause: float = KUBELET_PAUSE_SECONDS) -> str:
    """In words; empty for one that is not. `moved`: restarts that were seen while we looked."""
    if container.restarts < RESTARTS_TELLING:
        return ""
    so_far = f"restarted {container.restarts:,} times"
    if moved:
        return f"{so_far}, {moved:,} of them while we looked{_ended(container)}"
    if container.reason == "CrashLoopBackOff":
        return f"{so_far}, and waits for the next start{_ended(container)}"
    if container.restarted_at is None:
        return ""
    age = max(now - container.restarted_at, 0.0)
    if age > longest_pause + _SLACK_SECONDS:
        return ""
    if container.is_running is False:
        return f"{so_far}, the last {age:.0f} s ago, and is not running{_ended(container)}"
    # One that runs may have healed: only right after its start nobody can say that yet.
    settles = _SETTLES_SECONDS if container.is_running else longest_pause
    if container.pause_seconds is not None and age < min(container.pause_seconds, settles):
        last = f"the last {age:.0f} s ago, and {container.pause_seconds:.0f} s after the one before"
        return f"{so_far}, {last}{_ended(container)}"
    return ""


def may_loop(container: Container, now: float) -> bool:
    """Whether it is worth finding out if it runs."""
    at = container.restarted_at
    is_recent = at is not None and now - at <= KUBELET_PAUSE_SECONDS + _SLACK_SECONDS
    return container.restarts >= RESTARTS_TELLING and is_recent


def ended_words(reason: str, exit_code: int | None) -> str:
    """How it ended last: `OOMKilled, exit code 137`; empty where nobody said."""
    return ", ".join(filter(None, (reason, "" if exit_code is None else f"exit code {exit_code}")))


def _ended(container: Container) -> str:
    told = ended_words(container.reason, container.exit_code)
    return f" ({told})" if told else ""


def loops_of(pods: Iterable[Pod], now: float, moved: Mapping[tuple[str, str], int], source: str) -> list[PodLoop]:
    """`moved`: by pod and container, restarts in the window."""
    found = [
        PodLoop(
            pod.uid, pod.called, one.name, pod.maker, one.restarts, why, source, one.pause_seconds, one.reason, one.exit_code
        )
        for pod in pods
        for one in pod.containers
        if (why := why_looping(one, now, moved.get((pod.uid, one.name), 0)))
    ]  # fmt: skip
    return sorted(found, key=lambda loop: (-loop.restarts, loop.pod, loop.container))


def derive_loops(services: Services) -> tuple[ServiceLoop, ...]:
    """Of a workload all its containers are one loop, with its name."""
    loops = [loop for unit in (services.live or {}).values() if (loop := _unit_loop(unit, services))]
    looping = {loop.name for loop in loops}
    for name, count in sorted(services.inner_restarts.items()):
        if name not in looping and count >= RESTARTS_TELLING:
            why = (
                f"{count} children came and went in the window while the unit stayed up, which NRestarts does not count"
            )
            loops.append(ServiceLoop(name, "inside", count, why, "/proc/PID/stat"))
    loops += _container_loops(services)
    return tuple(sorted(loops, key=lambda loop: (-loop.restarts, loop.name)))


def _container_loops(services: Services) -> list[ServiceLoop]:
    """Only what restarts now."""
    if services.now is None:
        return []
    found: dict[str, list[tuple[RestartingContainer, str]]] = {}
    for one in services.containers:
        pause = DOCKER_PAUSE_SECONDS if one.runtime == "docker" else KUBELET_PAUSE_SECONDS
        each = Container(one.name, one.restarts, one.restarted_at, one.pause_seconds, one.is_running, *one.ended)
        why = why_looping(each, services.now, longest_pause=pause)
        if why:
            found.setdefault(one.maker or one.name, []).append((one, why))
    return [_together(name, each) for name, each in found.items()]


def _together(name: str, looping: list[tuple[RestartingContainer, str]]) -> ServiceLoop:
    first, why = max(looping, key=lambda each: each[0].restarts)
    restarts = sum(one.restarts for one, _ in looping)
    if workload_of(name) is None:
        return ServiceLoop(name, "container", restarts, f"its container is {why}", first.path)
    some = f"{len(looping):,} containers, such as {first.name}" if len(looping) > 1 else first.name
    return ServiceLoop(name, "pod", restarts, f"{some}: {why}", first.path)


def _unit_loop(unit: LiveUnit, services: Services) -> ServiceLoop | None:
    in_window = services.window_restarts.get(unit.name, 0)
    in_journal = (services.journal_restarts or {}).get(unit.name, 0)
    total = unit.restarts or 0
    if in_journal >= RESTARTS_TELLING:
        return ServiceLoop(
            unit.name, "unit", max(total, in_journal), f"{in_journal} automatic restarts in the last hour", "journal"
        )
    if in_window >= 2:
        return ServiceLoop(unit.name, "unit", total, f"{in_window} automatic restarts in the window", "NRestarts")
    if unit.sub_state == "auto-restart" and total >= RESTARTS_TELLING:
        return ServiceLoop(
            unit.name, "unit", total, f"waiting for its next restart after {total}", "SubState, NRestarts"
        )
    return None
