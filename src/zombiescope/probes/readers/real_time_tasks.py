# SPDX-License-Identifier: Apache-2.0
"""Real-time tasks and the time they took between two looks at /proc/PID/stat and /proc/PID/task/TID/stat.

The looks are taken beside a recording, which keeps the outcome only: a busy host has thousands of tasks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.units import RealTimeSeen, RealTimeTask
from zombiescope.host.access import Host, beside_recording
from zombiescope.probes.kernel_text import refusal

FACT = "real_time_tasks"
_POLICIES = {1: "fifo", 2: "rr", 6: "deadline"}
_USER_HZ = 100
_LEAST_TICKS = 2
# Fields of stat after the closing bracket of the name, counted from the state.
_UTIME, _STIME, _THREADS, _CORE, _PRIORITY, _POLICY = 11, 12, 17, 36, 37, 38


class _Task(NamedTuple):
    ticks: int
    policy: int
    priority: int
    core: int


class RealTimeWatch:
    """The first look is taken when it is made, the second by `seen`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._at = host.monotonic()
        self._before = _look(beside_recording(host)) if host.is_live else {}

    def look(self) -> None:
        """Two looks tell the whole time between them."""

    def seen(self) -> RealTimeSeen | Gap:
        outcome = self._host.experiment("real-time-tasks", self._outcome)
        if outcome is None:
            return Gap(FACT, "nothing runs in a folder, and a recording from before this version did not keep it")
        if "refused" in outcome:
            return Gap(FACT, str(outcome["refused"]))
        tasks = tuple(self._task(row) for row in outcome["tasks"])
        return RealTimeSeen(self._host.wall_clock(), float(outcome["seconds"]), tasks)

    def close(self) -> None:
        """Holds nothing open."""

    def _outcome(self) -> dict[str, Any]:
        if isinstance(self._before, Gap):
            return {"refused": self._before.reason}
        after = _look(beside_recording(self._host))
        if isinstance(after, Gap):
            return {"refused": after.reason}
        rows: list[list[Any]] = []
        for (pid, tid), task in after.items():
            then = self._before.get((pid, tid))
            ran = task.ticks - (then.ticks if then else 0)
            if ran >= _LEAST_TICKS and task.policy in _POLICIES:
                rows.append([tid, _POLICIES[task.policy], task.priority, ran / _USER_HZ, task.core])
        rows.sort(key=lambda row: -float(row[3]))
        return {"seconds": self._host.monotonic() - self._at, "tasks": rows[:20]}

    def _task(self, row: list[Any]) -> RealTimeTask:
        pid, policy, priority, seconds, core = row
        return RealTimeTask(int(pid), self._name(int(pid)), str(policy), int(priority), float(seconds), int(core))

    def _name(self, pid: int) -> str:
        try:
            return shown(self._host.read(b"/proc/%d/comm" % pid).rstrip(b"\n"))
        except OSError:
            return ""


def _look(host: Host) -> dict[tuple[int, int], _Task] | Gap:
    try:
        names = host.subdirectories(b"/proc")
    except OSError as error:
        return refusal(FACT, b"/proc", error)
    found: dict[tuple[int, int], _Task] = {}
    for name in names:
        if not name.isdigit():
            continue
        place = b"/proc/" + name
        main = _read(host, place + b"/stat")
        if main is None:
            continue
        task, threads = main
        found[int(name), int(name)] = task
        if threads > 1:
            for tid in _threads(host, place):
                one = _read(host, place + b"/task/" + tid + b"/stat")
                if one is not None:
                    found[int(name), int(tid)] = one[0]
    return found


def _threads(host: Host, place: bytes) -> list[bytes]:
    try:
        return [name for name in host.subdirectories(place + b"/task") if name.isdigit()]
    except OSError:
        return []


def _read(host: Host, path: bytes) -> tuple[_Task, int] | None:
    """A name may hold blanks and brackets: fields are counted from the last bracket. None: it is gone, or no such text."""
    try:
        fields = host.read(path).rpartition(b")")[2].split()
        numbers = {field: int(fields[field]) for field in (_UTIME, _STIME, _THREADS, _CORE, _PRIORITY, _POLICY)}
    except (OSError, IndexError, ValueError):
        return None
    ticks = numbers[_UTIME] + numbers[_STIME]
    return _Task(ticks, numbers[_POLICY], numbers[_PRIORITY], numbers[_CORE]), numbers[_THREADS]
