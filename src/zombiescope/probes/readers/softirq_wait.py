# SPDX-License-Identifier: Apache-2.0
"""How long each core's ksoftirqd waited for it (/proc/PID/schedstat), and what network softirqs left undone (softnet_stat)."""

from __future__ import annotations

import re

from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import KsoftirqdTime, SoftirqLook
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import cpu_list_count, number, refusal
from zombiescope.probes.processes import parse_stat, read_processes

FACT = "softirq.waited_seconds"
_SOFTNET = b"/proc/net/softnet_stat"
_ONLINE = b"/sys/devices/system/cpu/online"
_NAME = re.compile(rb"ksoftirqd/([0-9]{1,5})")
_HEX = re.compile(rb"[0-9a-fA-F]{1,16}")
_DROPPED, _SQUEEZED = 1, 2


def find_ksoftirqd(host: Host) -> dict[int, int] | Gap:
    """Core -> process. They are among the first ones, so the search ends when every core has its own."""
    processes = read_processes(host, FACT)
    if isinstance(processes, Gap):
        return processes
    try:
        wanted = cpu_list_count(host.read(_ONLINE)) or 0
    except OSError:
        wanted = 0
    found: dict[int, int] = {}
    for process in processes:
        try:
            state = parse_stat(host.read(b"/proc/%d/stat" % process))
        except OSError:
            continue
        match = _NAME.fullmatch(state.name) if state else None
        if match:
            found[int(match[1])] = process
            if len(found) == wanted:
                break
    return found or Gap(FACT, "no ksoftirqd is visible: the kernel's threads are not in this view of /proc", "hostPID")


def read_softirq_wait(host: Host, ksoftirqd: dict[int, int] | Gap) -> SoftirqLook:
    dropped, squeezed = _softnet(host)
    return SoftirqLook(host.wall_clock(), host.monotonic(), _times(host, ksoftirqd), squeezed, dropped)


def _times(host: Host, ksoftirqd: dict[int, int] | Gap) -> dict[int, KsoftirqdTime] | Gap:
    if isinstance(ksoftirqd, Gap):
        return ksoftirqd
    found: dict[int, KsoftirqdTime] = {}
    gap = Gap(FACT, "no ksoftirqd tells how long it waited")
    for core, process in ksoftirqd.items():
        path = b"/proc/%d/schedstat" % process
        try:
            values = [number(field) for field in host.read(path).split()]
        except OSError as error:
            gap = refusal(FACT, path, error)
            continue
        if len(values) == 3 and None not in values:
            found[core] = KsoftirqdTime(*(value or 0 for value in values))
    return found or gap


def _softnet(host: Host) -> tuple[int | None, int | None]:
    """Of all cores: dropped, squeezed."""
    try:
        rows = [line.split() for line in host.read(_SOFTNET).splitlines()]
    except OSError:
        return None, None
    good = [row for row in rows if len(row) > _SQUEEZED and all(_HEX.fullmatch(field) for field in row[:3])]
    if not good:
        return None, None
    return sum(int(row[_DROPPED], 16) for row in good), sum(int(row[_SQUEEZED], 16) for row in good)
