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
