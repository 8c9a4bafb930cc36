# SPDX-License-Identifier: Apache-2.0
"""What one statistics sweep costs here: the files that kubelet reads of every cgroup, read once and timed.

Bounded: the root is always read, and of the top level and of the rest an even sample each, scaled up level by level, for a read
near the top is dear where it walks the descendants (kernels before 5.9). Stops when its time is used up.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion, Sweep
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import read_processes, state_of

_ALL_PODS = (b"/kubepods", b"/kubepods.slice", b"/kubelet.slice/kubelet-kubepods.slice", b"/kubelet/kubepods")
MOST_CGROUPS, MOST_SECONDS = 200, 2.0
_MOST = 1e12  # beyond any number of seconds or of cgroups
_FACT = "cost.sweep_seconds"
_FILES = {HierarchyVersion.V1: (b"memory.stat", b"memory.numa_stat"), HierarchyVersion.V2: (b"memory.stat",)}


def read_stat_sweep(host: Host, hierarchy: Hierarchy, live: Sequence[bytes]) -> Sweep | Gap:
    """`live` is every live cgroup, the root among them."""
    outcome = host.experiment("stat_sweep", lambda: _sweep(host, hierarchy, live))
    if outcome is None:
        return Gap(_FACT, "a recording cannot be timed", "scan the live host")
    if (sweep := _checked(outcome)) is None:
        return Gap(_FACT, "the recorded sweep is not in a form we know", "record the host again")
    return sweep if sweep.cgroups_read else Gap(_FACT, "no memory.stat could be read")


def _checked(outcome: dict[str, Any]) -> Sweep | None:
    """A recording comes from a stranger."""
    if set(outcome) | {"narrow_seconds"} != set(Sweep._fields):
        return None
    sweep = Sweep(**outcome)
    numbers = (sweep.seconds, sweep.cgroups, sweep.cgroups_read, sweep.slowest_seconds, sweep.narrow_seconds or 0.0)
    is_good = all(type(value) in (int, float) and 0 <= value < _MOST for value in numbers)
    return sweep if is_good and isinstance(sweep.slowest_file, str) else None


def _sweep(host: Host, hierarchy: Hierarchy, live: Sequence[bytes]) -> dict[str, Any]:
    timer = _Timer(host, hierarchy)
    pods = [path for path in live if path in _ALL_PODS]
    narrow = timer.time_all([b"/", *pods])[0] if pods else None
    timer = _Timer(host, hierarchy)
    seconds = each = 0.0
    for level, most in _levels(live):
        took, tried = timer.time_all(level[:: max(-(-len(level) // most), 1)])
        each = took / tried if tried else each  # a level not reached in time is taken to cost what the one above did
        seconds += each * len(level)
    return {
        "seconds": seconds,
        "cgroups": len(live),
        "cgroups_read": timer.cgroups_read,
        "slowest_file": shown(timer.slowest_file),
        "slowest_seconds": timer.slowest_seconds,
        "narrow_seconds": narrow,
    }


def _levels(live: Sequence[bytes]) -> list[tuple[list[bytes], int]]:
    """The root, the top level and the rest, each with how many of it to read at most."""
    root = [path for path in live if path == b"/"]
    top = [path for path in live if path != b"/" and path.count(b"/") == 1]
    rest = [path for path in live if path.count(b"/") > 1]
    most_of_top = min(len(top), MOST_CGROUPS // 2)
    return [(root, 1), (top, max(most_of_top, 1)), (rest, MOST_CGROUPS - 1 - most_of_top)]


class _Timer:
    def __init__(self, host: Host, hierarchy: Hierarchy) -> None:
        self._host, self._hierarchy = host, hierarchy
        self._end = host.monotonic() + MOST_SECONDS
        self.cgroups_read = 0
        self.slowest_file, self.slowest_seconds = b"", 0.0

    def time_all(self, paths: Sequence[bytes]) -> tuple[float, int]:
        """Seconds, and how many cgroups were tried before the time was used up."""
        start = now = self._host.monotonic()
        tried = 0
        for path in paths:
            if now > self._end:
                break
            was_read = [self._read(self._hierarchy.place(path, name)) for name in _FILES[self._hierarchy.version]]
            now = self._host.monotonic()
            tried += 1
            self.cgroups_read += any(was_read)
        return round(now - start, 9), tried

    def _read(self, file: bytes) -> bool:
        before = self._host.monotonic()
        try:
            self._host.read(file)
        except OSError:  # vanished meanwhile, or a file this kernel does not have: kubelet pays for the attempt too
            return False
        took = round(self._host.monotonic() - before, 9)  # as exact as the clock: equals stay equal
        if took > self.slowest_seconds:
            self.slowest_file, self.slowest_seconds = file, took
        return True


FACT = "sweepers"

_NAMES = frozenset((
    b"kubelet", b"cadvisor", b"dockerd", b"containerd", b"crio", b"podman", b"systemd-oomd", b"systemd-cgtop", b"node_exporter",
    b"below", b"atop", b"datadog-agent", b"telegraf", b"metricbeat", b"otelcol", b"otelcol-contrib", b"grafana-agent", b"alloy",
    b"k3s", b"k3s-server", b"k3s-agent", b"rke2", b"k0s", b"kubelite", b"microk8s", b"hyperkube",
    b"amazon-cloudwat", b"amazon-ecs-agen", b"netdata", b"collectd", b"newrelic-infra", b"dynatrace", b"kube-state-metr",
))  # fmt: skip
"""As the kernel cuts them: fifteen bytes."""


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
    states = ((process, state_of(host, process)) for process in processes)
    return {
        process: SweeperTime(shown(state.name), *state.cpu_ticks)
        for process, state in states
        if state and state.name in _NAMES and state.cpu_ticks
    }
