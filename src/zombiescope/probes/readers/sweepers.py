# SPDX-License-Identifier: Apache-2.0
"""Who reads every cgroup's statistics again and again, by the names such programs have, and the CPU time they have used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import number
from zombiescope.probes.processes import parse_stat, read_processes

FACT = "sweepers"
TICKS_PER_SECOND = 100
"""Of the times in /proc/PID/stat: fixed by the interface, whatever the kernel's own tick."""
_NAMES = frozenset((
    b"kubelet", b"cadvisor", b"dockerd", b"containerd", b"crio", b"podman", b"systemd-oomd", b"systemd-cgtop", b"node_exporter",
    b"below", b"atop", b"datadog-agent", b"telegraf", b"metricbeat", b"otelcol", b"otelcol-contrib", b"grafana-agent", b"alloy",
    b"amazon-cloudwat", b"amazon-ecs-agen", b"netdata", b"collectd", b"newrelic-infra", b"dynatrace", b"kube-state-metr",
))  # fmt: skip
"""As the kernel cuts them: fifteen bytes."""
_USER, _SYSTEM = 11, 12


class SweeperTime(NamedTuple):
    name: str
    user_ticks: int
    system_ticks: int


def read_sweepers(host: Host) -> Mapping[int, SweeperTime] | Gap:
    """By process."""
    processes = read_processes(host, FACT)
    return processes if isinstance(processes, Gap) else read_sweeper_times(host, processes)


def read_sweeper_times(host: Host, processes: Iterable[int]) -> Mapping[int, SweeperTime]:
    """Of those among these that sweep and are still there."""
    found: dict[int, SweeperTime] = {}
    for process in processes:
        try:
            text = host.read(b"/proc/%d/stat" % process)
        except OSError:
            continue
        state = parse_stat(text)
        if state is None or state.name not in _NAMES:
            continue
        fields = text.rpartition(b")")[2].split()
        ticks = [number(fields[i]) if len(fields) > i else None for i in (_USER, _SYSTEM)]
        if ticks[0] is not None and ticks[1] is not None:
            found[process] = SweeperTime(shown(state.name), ticks[0], ticks[1])
    return found
