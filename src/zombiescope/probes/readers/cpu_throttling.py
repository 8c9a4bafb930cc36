# SPDX-License-Identifier: Apache-2.0
"""Cgroups whose CPU quota ran out (cpu.stat): on v2 in the unified hierarchy, on v1 where the cpu controller is mounted.

A cgroup without a quota is known by the file of its quota, which costs nothing; cpu.stat of v2 makes the kernel add up every core
first, for each that is asked."""

from __future__ import annotations

from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import Throttle
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import flat_keyed, refusal, unoctal

FACT = "pressure.throttled"
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
        return refusal(FACT, mount, error)
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
    gap: Gap | None = None
    order = (b"/proc/self/mountinfo", b"/proc/1/mountinfo")
    for table in order if host.label == "this host" else reversed(order):
        try:
            lines = host.read(table).split(b"\n")
        except OSError as error:
            gap = gap or refusal(FACT, table, error)
            continue
        return _choose(host, lines)
    return gap or Gap(FACT, "no mount table could be read")


def _choose(host: Host, lines: list[bytes]) -> bytes | Gap:
    unified: bytes | None = None
    for line in lines:
        before, separator, after = line.partition(b" - ")
        left, right = before.split(b" "), after.split(b" ")
        if not separator or len(left) < 6 or len(right) < 3:
            continue
        point = unoctal(left[4])
        if right[0] == b"cgroup" and b"cpu" in right[2].split(b","):
            return point
        if right[0] == b"cgroup2":
            unified = point
    if unified is None:
        return Gap(FACT, "no cgroup hierarchy with the cpu controller is mounted in this view")
    try:
        controllers = host.read(unified + b"/cgroup.controllers").split()
    except OSError as error:
        return refusal(FACT, unified + b"/cgroup.controllers", error)
    return unified if b"cpu" in controllers else Gap(FACT, "the unified hierarchy has no cpu controller")
