# SPDX-License-Identifier: Apache-2.0
"""/proc/stat: what every core did since boot. A core that is offline has no line; one that comes back has it again. Quick on
purpose: the agent reads it every second, on machines with hundreds of cores. Who was held back by a quota; and real-time tasks,
with the time they took between two looks at their stat.

The latter looks are taken beside a recording, which keeps the outcome only: a busy host has thousands of tasks.
"""

from typing import Any, NamedTuple

from zombiescope.facts.cores import CoreLook, CoreTicks
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.reclaim import Throttle
from zombiescope.facts.units import RealTimeSeen, RealTimeTask
from zombiescope.host.access import Host, beside_recording, names_or_nothing, read_or_nothing
from zombiescope.probes.cgroups import read_cgroup_mounts
from zombiescope.probes.kernel_text import TICKS_PER_SECOND, flat_keyed, quoted, read_or_gap, refusal

THROTTLING_FACT = "pressure.throttled"
_MOST_GROUPS = 4000
_NANOSECONDS, _MICROSECONDS = b"throttled_time", b"throttled_usec"


def read_throttling(host: Host) -> dict[bytes, Throttle] | Gap:
    """By path; those with a quota alone."""
    if isinstance(mount := _cpu_mount(host), Gap):
        return mount
    try:
        walk = host.directories(mount)
    except OSError as error:
        return refusal(THROTTLING_FACT, mount, error)
    found: dict[bytes, Throttle] = {}
    for path in walk.paths[:_MOST_GROUPS]:
        place = mount + (path if path != b"/" else b"")
        if _has_no_quota(host, place):
            continue
        values = flat_keyed(read_or_nothing(host, place + b"/cpu.stat"))
        if periods := values.get(b"nr_periods", 0):
            waited = values.get(_NANOSECONDS, 0) / 1e9 or values.get(_MICROSECONDS, 0) / 1e6
            found[path] = Throttle(periods, values.get(b"nr_throttled", 0), waited)
    return found


def _has_no_quota(host: Host, place: bytes) -> bool:
    """For certain: a file that cannot be read does not say so (the root has none; neither has a recording of an older look)."""
    for name, without in ((b"/cpu.max", b"max"), (b"/cpu.cfs_quota_us", b"-1")):
        try:
            return host.read(place + name).split()[:1] == [without]
        except OSError:
            continue
    return False


def _cpu_mount(host: Host) -> bytes | Gap:
    if isinstance(mounts := read_cgroup_mounts(host, THROTTLING_FACT), Gap):
        return mounts
    for mount in mounts:
        if not mount.is_v2 and b"cpu" in mount.options:
            return mount.point
    unified = [mount.point for mount in mounts if mount.is_v2]
    if not unified:
        return Gap(THROTTLING_FACT, "no cgroup hierarchy with the cpu controller is mounted in this view")
    if isinstance(text := read_or_gap(host, unified[-1] + b"/cgroup.controllers", THROTTLING_FACT), Gap):
        return text
    return (
        unified[-1] if b"cpu" in text.split() else Gap(THROTTLING_FACT, "the unified hierarchy has no cpu controller")
    )


PATH = b"/proc/stat"
FACT = "cores"
_LEAST, _COUNTERS, _LARGEST = 4, 8, 1 << 64
_WIDTH = 11
"""Words of a line: the core and ten counters."""


def read_cpu_time(host: Host) -> CoreLook | Gap:
    """Both clocks are read beside the file, so that the time between two looks is that between their counters. A recording keeps
    the wall clock, and waits by no other."""
    at = host.wall_clock()
    steady = host.monotonic() if host.is_live else at
    text = read_or_gap(host, PATH, FACT)
    found = text if isinstance(text, Gap) else parse_cpu_time(text)
    return found if isinstance(found, Gap) else CoreLook(at, steady, found)


def parse_cpu_time(text: bytes) -> dict[int, CoreTicks] | Gap:
    rows = text.partition(b"\nintr")[0].split(b"\n")  # those of the cores come first; the next is the longest of all
    lines = [line for line in rows if line.startswith(b"cpu") and not line.startswith(b"cpu ")]
    return _all_at_once(lines) or _one_by_one(lines)


def _all_at_once(lines: list[bytes]) -> dict[int, CoreTicks] | None:
    """As every kernel of today writes them; None where a line is of another shape."""
    if {line.count(b" ") for line in lines} != {_WIDTH - 1}:
        return None
    try:
        numbers = list(map(int, b" ".join([line[3:] for line in lines]).split(b" ")))
    except ValueError:
        return None
    if min(numbers) < 0 or max(numbers) >= _LARGEST:
        return None
    starts = range(0, len(numbers), _WIDTH)
    return {numbers[at]: tuple(numbers[at + 1 : at + 1 + _COUNTERS]) for at in starts}  # type: ignore[misc] # eight


def _one_by_one(lines: list[bytes]) -> dict[int, CoreTicks] | Gap:
    cores: dict[int, CoreTicks] = {}
    for line in lines:
        if (ticks := _ticks(*line.split())) is None:
            return Gap(FACT, f"/proc/stat has a line that is not a core's: {quoted(line)}")
        cores[ticks[0]] = ticks[1]
    return cores or Gap(FACT, "/proc/stat names no core")


def _ticks(name: bytes, *counters: bytes) -> tuple[int, CoreTicks] | None:
    """Kernels before 2.6.11 told fewer counters: those they did not keep are zero. `guest` (the ninth) is inside `user`."""
    if len(counters) < _LEAST:
        return None
    try:
        core = int(name[3:])
        user, nice, system, idle, *rest = map(int, counters[:_COUNTERS])
    except ValueError:
        return None
    iowait, irq, softirq, steal = (*rest, 0, 0, 0, 0)[:4]
    ticks = (user, nice, system, idle, iowait, irq, softirq, steal)
    return (core, ticks) if core >= 0 and min(ticks) >= 0 and max(ticks) < _LARGEST else None


REAL_TIME_FACT = "real_time_tasks"
_POLICIES = {1: "fifo", 2: "rr", 6: "deadline"}
_LEAST_TICKS = 2
_WANTED = (11, 12, 17, 36, 37, 38)
"""Fields of stat after the name, counted from the state: user and system time, threads, core, priority, policy."""


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
        if (outcome := self._host.experiment("real-time-tasks", self._outcome)) is None:
            return Gap(
                REAL_TIME_FACT, "nothing runs in a folder, and a recording from before this version did not keep it"
            )
        if "refused" in outcome:
            return Gap(REAL_TIME_FACT, str(outcome["refused"]))
        try:
            tasks = tuple(map(self._task, outcome["tasks"]))
            return RealTimeSeen(self._host.wall_clock(), float(outcome["seconds"]), tasks)
        except (KeyError, TypeError, ValueError):
            return Gap(REAL_TIME_FACT, "the recorded tasks are not in a form we know", "record the host again")

    def close(self) -> None:
        """Holds nothing open."""

    def _outcome(self) -> dict[str, Any]:
        if isinstance(self._before, Gap):
            return {"refused": self._before.reason}
        if isinstance(after := _look(beside_recording(self._host)), Gap):
            return {"refused": after.reason}
        rows: list[list[Any]] = []
        for (pid, tid), task in after.items():
            then = self._before.get((pid, tid))
            ran = task.ticks - (then.ticks if then else 0)
            if ran >= _LEAST_TICKS and task.policy in _POLICIES:
                rows.append([tid, _POLICIES[task.policy], task.priority, ran / TICKS_PER_SECOND, task.core])
        rows.sort(key=lambda row: -float(row[3]))
        return {"seconds": self._host.monotonic() - self._at, "tasks": rows[:20]}

    def _task(self, row: list[Any]) -> RealTimeTask:
        pid, policy, priority, seconds, core = row
        name = shown(read_or_nothing(self._host, b"/proc/%d/comm" % int(pid)).rstrip(b"\n"))
        return RealTimeTask(int(pid), name, str(policy), int(priority), float(seconds), int(core))


def _look(host: Host) -> dict[tuple[int, int], _Task] | Gap:
    try:
        names = host.subdirectories(b"/proc")
    except OSError as error:
        return refusal(REAL_TIME_FACT, b"/proc", error)
    found: dict[tuple[int, int], _Task] = {}
    for name in filter(bytes.isdigit, names):
        place = b"/proc/" + name
        if (main := _read(host, place + b"/stat")) is None:
            continue
        found[int(name), int(name)], threads = main
        others = names_or_nothing(host, place + b"/task") if threads > 1 else ()
        for tid in filter(bytes.isdigit, others):
            if one := _read(host, place + b"/task/" + tid + b"/stat"):
                found[int(name), int(tid)] = one[0]
    return found


def _read(host: Host, path: bytes) -> tuple[_Task, int] | None:
    """A name may hold blanks and brackets: fields are counted from the last bracket. None: it is gone, or no such text."""
    try:
        fields = host.read(path).rpartition(b")")[2].split()
        user, system, threads, core, priority, policy = (int(fields[field]) for field in _WANTED)
    except (OSError, IndexError, ValueError):
        return None
    return _Task(user + system, policy, priority, core), threads
