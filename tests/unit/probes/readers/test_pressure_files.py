# SPDX-License-Identifier: Apache-2.0
"""/proc/vmstat, /proc/pressure, kswapd and cpu.stat: present, absent, refused, garbage."""

from __future__ import annotations

import errno
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.build import ScriptedHost, mountinfo

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import Throttle
from zombiescope.probes.readers.cpu_time import read_throttling
from zombiescope.probes.readers.reclaim_rates import find_kswapd, read_group_stalls, read_reclaim_rates

KSWAPD = b"60 (kswapd0) S 2 0 0 0 -1 0 0 0 0 0 5 245 0 0 20 0"
FILES: dict[bytes, Any] = {
    b"/proc/vmstat": b"pgscan_kswapd 100\npgscan_direct 7\nnr_free_pages 5\npgmajfault x\n",
    b"/proc/pressure/memory": b"some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=500000\n",
    b"/proc/pressure/cpu": b"some avg10=1.00 avg60=0.00 avg300=0.00 total=9\n",
    b"/proc/2/stat": b"2 (kthreadd) S 0 0",
    b"/proc/60/stat": KSWAPD,
    b"/proc/61/stat": b"61 (kswapd1) S 2 0 0 0 -1 0 0 0 0 0 0 50 0 0 20 0",
    b"/proc/900/stat": b"900 (kswapd0) S 1 0 0 0 -1 0 0 0 0 0 9 9 0 0 20 0",
}


def test_what_the_files_tell() -> None:
    host = ScriptedHost(FILES)
    kswapd = find_kswapd(host)
    assert kswapd == (60, 61), "a process that only calls itself so is no kernel thread"
    look = read_reclaim_rates(host, kswapd)
    assert look.vmstat == {"pgscan_kswapd": 100, "pgscan_direct": 7}
    assert look.stalls == {"memory.some": 2.5, "memory.full": 0.5, "cpu.some": 9e-6}
    assert look.kswapd_seconds == 3.0


def test_what_cannot_be_read_is_a_gap() -> None:
    look = read_reclaim_rates(ScriptedHost({b"/proc/pressure/memory": errno.EOPNOTSUPP}), ())
    assert isinstance(look.vmstat, Gap)
    assert isinstance(look.stalls, Gap)
    assert look.stalls.hint == "boot with psi=1"
    assert look.kswapd_seconds is None
    assert find_kswapd(ScriptedHost({})) == ()


@given(st.binary(max_size=120))
def test_any_bytes_give_a_look(raw: bytes) -> None:
    files = {b"/proc/vmstat": raw, b"/proc/pressure/memory": raw, b"/proc/60/stat": raw}
    look = read_reclaim_rates(ScriptedHost(files), (60,))
    assert isinstance(look.vmstat, Gap) or all(value >= 0 for value in look.vmstat.values())


def v2_hierarchy(version: HierarchyVersion = HierarchyVersion.V2) -> Hierarchy:
    return Hierarchy(version, b"/c", is_hybrid=False, partial_view="")


def test_stalls_of_single_cgroups() -> None:
    host = ScriptedHost({
        b"/c/a/memory.pressure": b"some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1\n",
        b"/c/a/cpu.pressure": b"some avg10=1.00 avg60=0.00 avg300=0.00 total=9\n",
        b"/c/memory.pressure": b"garbage total=7\n",
        b"/c/b/memory.pressure": errno.EOPNOTSUPP,
    })  # fmt: skip
    wanted = [b"/a", b"/", b"/b", b"/gone"]
    assert read_group_stalls(host, v2_hierarchy(), wanted) == {
        b"/a": {"memory.some": 2.5, "memory.full": 1e-6, "cpu.some": 9e-6}
    }
    assert read_group_stalls(host, v2_hierarchy(), []) == {}
    refused = read_group_stalls(host, v2_hierarchy(), [b"/b"])
    assert isinstance(refused, Gap)
    assert "memory.pressure" in refused.reason
    old = read_group_stalls(host, v2_hierarchy(HierarchyVersion.V1), wanted)
    assert isinstance(old, Gap)
    assert "v1" in old.reason
    assert isinstance(read_group_stalls(host, Gap("memcg", "no mount"), wanted), Gap)


V1 = mountinfo((b"cgroup", b"/c/cpu,cpuacct", b"/", b"rw,cpu,cpuacct"), (b"cgroup2", b"/c/unified", b"/", b"rw"))
V2 = mountinfo((b"cgroup2", b"/c", b"/", b"rw"))


def test_quotas_on_v1_and_v2_and_those_without_one_are_left_out() -> None:
    one = ScriptedHost({
        b"/proc/self/mountinfo": V1,
        b"/c/cpu,cpuacct/cpu.stat": b"nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
        b"/c/cpu,cpuacct/a/cpu.stat": b"nr_periods 100\nnr_throttled 40\nthrottled_time 2500000000\n",
        b"/c/cpu,cpuacct/b/cpu.stat": b"garbage",
    })  # fmt: skip
    assert read_throttling(one) == {b"/a": Throttle(100, 40, 2.5)}
    two = ScriptedHost({
        b"/proc/self/mountinfo": V2,
        b"/c/cgroup.controllers": b"cpu memory\n",
        b"/c/x.slice/cpu.stat": b"usage_usec 5\nnr_periods 10\nnr_throttled 1\nthrottled_usec 1500000\n",
    })  # fmt: skip
    assert read_throttling(two) == {b"/x.slice": Throttle(10, 1, 1.5)}


def test_statistics_are_asked_only_where_there_is_a_quota() -> None:
    stat = b"nr_periods 10\nnr_throttled 1\nthrottled_usec 1500000\n"
    names = {b"none": b"max 100000\n", b"some": b"5000 100000\n", b"odd": b"", b"unread": errno.EACCES}
    for mount, limit in ((V2, b"cpu.max"), (V1, b"cpu.cfs_quota_us")):
        top = b"/c/" if mount is V2 else b"/c/cpu,cpuacct/"
        files: dict[bytes, Any] = {b"/proc/self/mountinfo": mount, b"/c/cgroup.controllers": b"cpu\n"}
        for name, told in names.items():
            files[top + name + b"/cpu.stat"] = stat
            files[top + name + b"/" + limit] = b"-1\n" if mount is V1 and name == b"none" else told
        found = read_throttling(ScriptedHost(files))
        assert not isinstance(found, Gap)
        assert sorted(found) == [b"/odd", b"/some", b"/unread"]


def test_no_cpu_controller_and_no_mount_are_gaps() -> None:
    without = {b"/proc/self/mountinfo": V2, b"/c/cgroup.controllers": b"memory\n"}
    for files in ({}, {b"/proc/self/mountinfo": b"x\n"}, without, {b"/proc/self/mountinfo": V2}):
        assert isinstance(read_throttling(ScriptedHost(files)), Gap)
