# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest
from tests.build import V1, V1_MOUNT, V2, Cgroup, ScriptedHost, v1_machine, v2_machine

from zombiescope.facts.cgroups import Hierarchy, Sweep
from zombiescope.facts.gap import Gap
from zombiescope.probes.readers.stat_sweep import MOST_CGROUPS, MOST_SECONDS, read_stat_sweep, read_sweeper_times


def sweep(host: ScriptedHost, hierarchy: Hierarchy, live: list[bytes]) -> Sweep:
    found = read_stat_sweep(host, hierarchy, live)
    assert isinstance(found, Sweep), found
    return found


def live_paths(top: int, below: int) -> list[bytes]:
    tops = [b"/t%d" % number for number in range(top)]
    return [b"/", *tops, *(b"/t0/c%d" % number for number in range(below))]


def machine_of(paths: list[bytes]) -> ScriptedHost:
    return ScriptedHost(v1_machine({path: Cgroup() for path in paths if path != b"/"}))


def test_everything_is_read_where_there_is_little() -> None:
    paths = live_paths(3, 4)
    for hierarchy, machine, files in ((V1, v1_machine, 2), (V2, v2_machine, 1)):
        host = ScriptedHost(machine({path: Cgroup() for path in paths[1:]}))
        found = sweep(host, hierarchy, paths)
        assert (found.cgroups, found.cgroups_read) == (8, 8)
        assert found.seconds == pytest.approx(8 * files * 0.001)
        assert len(host.reads) == 8 * files
        assert found.slowest_file.endswith("stat")


@pytest.mark.parametrize(("top", "below"), [(0, 5000), (5000, 0), (3000, 3000), (1, 199), (150, 150)])
def test_it_is_bounded_and_scaled_to_all(top: int, below: int) -> None:
    paths = live_paths(top, below)
    host = ScriptedHost(
        {V1.place(path, name): b"x 1\n" for path in paths for name in (b"memory.stat", b"memory.numa_stat")}
    )
    found = sweep(host, V1, paths)
    assert found.cgroups_read <= MOST_CGROUPS
    assert found.cgroups == len(paths)
    assert found.seconds == pytest.approx(len(paths) * 2 * 0.001)


def test_it_stops_when_its_time_is_used_up_and_still_speaks_for_all() -> None:
    paths = live_paths(20, 20)
    host = machine_of(paths)
    host.seconds_per_read = 0.5
    found = sweep(host, V1, paths)
    assert host.monotonic() <= MOST_SECONDS + 2 * 0.5
    assert found.cgroups_read < 5
    assert found.seconds == pytest.approx(41 * 2 * 0.5)


def test_a_slow_root_is_not_multiplied() -> None:
    class SlowRoot(ScriptedHost):
        extra = 0.0

        def read(self, path: bytes, limit: int = 1 << 20) -> bytes:
            self.extra += 0.3 if path == V1_MOUNT + b"/memory.stat" else 0.0
            return super().read(path, limit)

        def monotonic(self) -> float:
            return super().monotonic() + self.extra

    paths = live_paths(4, 5000)
    host = SlowRoot(v1_machine({path: Cgroup() for path in paths[1:10]}))
    found = sweep(host, V1, paths)
    assert found.seconds == pytest.approx(0.3 + 5005 * 2 * 0.001)
    assert found.slowest_file == "/sys/fs/cgroup/memory/memory.stat"
    assert found.slowest_seconds == pytest.approx(0.301)


def test_files_that_vanish_or_do_not_exist_are_paid_for_but_not_read() -> None:
    machine: dict[bytes, bytes | int] = dict(v1_machine({b"/a": Cgroup(), b"/b": Cgroup()}))
    machine[V1_MOUNT + b"/a/memory.stat"] = errno.ENODEV
    del machine[V1_MOUNT + b"/a/memory.numa_stat"]
    found = sweep(ScriptedHost(machine), V1, [b"/", b"/a", b"/b"])
    assert (found.cgroups, found.cgroups_read) == (3, 2)


def test_nothing_that_could_be_read_is_a_gap_and_no_time() -> None:
    files = {
        V1.place(path, name): errno.EACCES for path in (b"/", b"/a") for name in (b"memory.stat", b"memory.numa_stat")
    }
    found = read_stat_sweep(ScriptedHost(dict(files)), V1, [b"/", b"/a"])
    assert found == Gap("cost.sweep_seconds", "no memory.stat could be read")


def test_a_folder_cannot_be_timed() -> None:
    found = read_stat_sweep(ScriptedHost(v1_machine(), is_live=False), V1, [b"/"])
    assert isinstance(found, Gap)
    assert found.hint


def test_the_root_and_all_pods_alone_are_timed_where_there_are_pods() -> None:
    """A kubelet that has its statistics from the runtime reads no more than these two."""
    files = {
        V1.place(path, name): b"x"
        for path in (b"/", b"/kubepods", b"/kubepods/pod1")
        for name in (b"memory.stat", b"memory.numa_stat")
    }
    found = read_stat_sweep(ScriptedHost(files), V1, [b"/", b"/kubepods", b"/kubepods/pod1"])
    assert not isinstance(found, Gap)
    assert found.narrow_seconds is not None
    assert 0 < found.narrow_seconds < found.seconds
    alone = read_stat_sweep(ScriptedHost(files), V1, [b"/"])
    assert not isinstance(alone, Gap)
    assert alone.narrow_seconds is None


@pytest.mark.parametrize("name", ["kubelet", "k3s-server", "k3s-agent", "kubelite", "containerd", "crio"])
def test_a_cluster_s_readers_are_known_by_name(name: str) -> None:
    stat = f"7 ({name}) S 1 7 7 0 -1 0 0 0 0 0 300 200 0 0 20 0 1 0 5".encode()
    found = read_sweeper_times(ScriptedHost({b"/proc/7/stat": stat}), [7])
    assert found[7].name == name
    assert (found[7].user_ticks, found[7].system_ticks) == (300, 200)
