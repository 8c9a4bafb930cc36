# SPDX-License-Identifier: Apache-2.0
"""/proc/stat: what every core did since boot. A core that is offline has no line; one that comes back has it again.

Quick on purpose: the agent reads it every second, on machines with hundreds of cores.
"""

from __future__ import annotations

from zombiescope.facts.cores import CoreLook, CoreTicks
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import quoted, refusal

PATH = b"/proc/stat"
FACT = "cores"
_COUNTERS = 8
_LEAST = 4
_LARGEST = 1 << 64


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
    cores: dict[int, CoreTicks] = {}
    for line in text.split(b"\n"):
        if not line.startswith(b"cpu"):
            if cores:
                break  # the lines of the cores come first and together
            continue
        name, *counters = line.split()
        if name == b"cpu":
            continue
        ticks = _ticks(name, counters)
        if ticks is None:
            return Gap(FACT, f"/proc/stat has a line that is not a core's: {quoted(line)}")
        cores[ticks[0]] = ticks[1]
    return cores or Gap(FACT, "/proc/stat names no core")


def _ticks(name: bytes, counters: list[bytes]) -> tuple[int, CoreTicks] | None:
    """Kernels before 2.6.11 told fewer counters: those they did not keep are nought. `guest` (the ninth) is inside `user`."""
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
