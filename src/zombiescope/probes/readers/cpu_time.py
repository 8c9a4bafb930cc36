# SPDX-License-Identifier: Apache-2.0
"""/proc/stat: what every core did since boot. A core that is offline has no line; one that comes back has it again.

Quick on purpose: the agent reads it every second, on machines with hundreds of cores.
"""

from __future__ import annotations

from zombiescope.facts.cores import CoreLook, CoreTicks
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import Throttle
from zombiescope.host.access import Host
from zombiescope.probes.cgroups import read_cgroup_mounts
from zombiescope.probes.kernel_text import flat_keyed, quoted, refusal

THROTTLING_FACT = "pressure.throttled"
_MOST_GROUPS = 4000
_NANOSECONDS, _MICROSECONDS = b"throttled_time", b"throttled_usec"


def read_throttling(host: Host) -> dict[bytes, Throttle] | Gap:
    """By path; those with a quota alone."""
    mount = _cpu_mount(host)
    if isinstance(mount, Gap):
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
        try:
            values = flat_keyed(host.read(place + b"/cpu.stat"))
        except OSError:
            continue
        periods = values.get(b"nr_periods", 0)
        if periods:
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
    mounts = read_cgroup_mounts(host, THROTTLING_FACT)
    if isinstance(mounts, Gap):
        return mounts
    for mount in mounts:
        if not mount.is_v2 and b"cpu" in mount.options:
            return mount.point
    unified = [mount.point for mount in mounts if mount.is_v2]
    if not unified:
        return Gap(THROTTLING_FACT, "no cgroup hierarchy with the cpu controller is mounted in this view")
    path = unified[-1] + b"/cgroup.controllers"
    try:
        controllers = host.read(path).split()
    except OSError as error:
        return refusal(THROTTLING_FACT, path, error)
    return unified[-1] if b"cpu" in controllers else Gap(THROTTLING_FACT, "the unified hierarchy has no cpu controller")


PATH = b"/proc/stat"
FACT = "cores"
_COUNTERS = 8
_LEAST = 4
_LARGEST = 1 << 64
_WIDTH = 11
"""Words of a line: the core and ten counters."""


def read_cpu_time(host: Host) -> CoreLook | Gap:
    """Both clocks are read beside the file, so that the time between two looks is that between their counters. A recording keeps
    the wall clock, and waits by no other."""
    at = host.wall_clock()
    steady = host.monotonic() if host.is_live else at
    try:
        text = host.read(PATH)
    except OSError as error:
        return refusal(FACT, PATH, error)
    found = parse_cpu_time(text)
    return found if isinstance(found, Gap) else CoreLook(at, steady, found)


def parse_cpu_time(text: bytes) -> dict[int, CoreTicks] | Gap:
    block = text.partition(b"\nintr")[0]  # the lines of the cores come first; the next is the longest of the file
    lines = [line for line in block.split(b"\n") if line.startswith(b"cpu") and not line.startswith(b"cpu ")]
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
        ticks = _ticks(*line.split())
        if ticks is None:
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
