# SPDX-License-Identifier: Apache-2.0
"""How long cgroups were held back by their CPU limit since they were made: cpu.stat of every live one, added up."""

from __future__ import annotations

from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import flat_keyed, unoctal

_FACT = "throttled_seconds"
_MOST = 4000


def read_throttled_seconds(host: Host) -> float | Gap:
    """v1 counts nanoseconds (`throttled_time`), v2 microseconds (`throttled_usec`)."""
    mount = _cpu_mount(host)
    if mount is None:
        return Gap(_FACT, "no mounted cgroup hierarchy has the cpu controller")
    try:
        paths = host.directories(mount).paths[:_MOST]
    except OSError as error:
        return Gap(_FACT, f"{error.strerror or error}".lower())
    total, seen = 0.0, 0
    for path in paths:
        try:
            values = flat_keyed(host.read(mount.rstrip(b"/") + (b"" if path == b"/" else path) + b"/cpu.stat"))
        except OSError:
            continue
        seen += 1
        total += values.get(b"throttled_time", 0) / 1e9 + values.get(b"throttled_usec", 0) / 1e6
    return total if seen else Gap(_FACT, "no cpu.stat could be read")


def _cpu_mount(host: Host) -> bytes | None:
    try:
        lines = host.read(b"/proc/self/mountinfo").split(b"\n")
    except OSError:
        return None
    unified = None
    for line in lines:
        left, _, right = line.partition(b" - ")
        before, after = left.split(b" "), right.split(b" ")
        if len(before) < 5 or len(after) < 3:
            continue
        if after[0] == b"cgroup" and b"cpu" in after[2].split(b","):
            return unoctal(before[4])
        if after[0] == b"cgroup2" and unified is None:
            unified = unoctal(before[4])
    return unified
