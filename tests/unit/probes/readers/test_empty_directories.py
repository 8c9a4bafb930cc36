# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest
from tests.build import V1, V1_MOUNT, V2, V2_MOUNT, Cgroup, ScriptedHost, v1_machine, v2_machine

from zombiescope.facts.cgroups import EmptyDirectories, Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.probes.readers.empty_directories import EXAMPLES, MOST_SEEN, read_empty_directories


def groups(count: int, empty: int) -> dict[bytes, Cgroup]:
    return {b"/g%05d" % number: Cgroup(procs=b"" if number < empty else b"7\n") for number in range(count)}


def found(host: ScriptedHost, hierarchy: Hierarchy, leaves: list[bytes]) -> EmptyDirectories:
    seen = read_empty_directories(host, hierarchy, leaves)
    assert isinstance(seen, EmptyDirectories), seen
    return seen


@pytest.mark.parametrize(("hierarchy", "machine"), [(V1, v1_machine), (V2, v2_machine)])
def test_leaves_without_a_process_are_counted(hierarchy: Hierarchy, machine: type) -> None:
    some = groups(10, 4)
    seen = found(ScriptedHost(machine(some)), hierarchy, list(some))
    assert (seen.leaves, seen.seen, seen.empty, seen.estimate) == (10, 10, 4, 4)
    assert len(seen.examples) == EXAMPLES
    assert set(seen.examples) <= {path for path, group in some.items() if not group.procs}


@pytest.mark.parametrize("count", [400, 401, 799, 801, 5000])
def test_many_leaves_are_sampled_evenly_and_scaled(count: int) -> None:
    some = groups(count, count // 2)
    host = ScriptedHost(v1_machine() | {V1.place(path, b"cgroup.procs"): group.procs for path, group in some.items()})
    seen = found(host, V1, list(some))
    assert seen.seen <= MOST_SEEN
    assert len(host.reads) == seen.seen
    assert seen.estimate == pytest.approx(count / 2, rel=0.02)


def test_one_that_vanishes_is_left_out() -> None:
    some = groups(10, 5)
    machine: dict[bytes, bytes | int] = dict(v1_machine(some))
    machine[V1_MOUNT + b"/g00000/cgroup.procs"] = errno.ENODEV
    del machine[V1_MOUNT + b"/g00001/cgroup.procs"]
    seen = found(ScriptedHost(machine), V1, list(some))
    assert (seen.seen, seen.empty, seen.estimate) == (8, 3, 4)


def test_all_that_vanish_are_a_gap_and_not_zero() -> None:
    seen = read_empty_directories(ScriptedHost({}), V1, [b"/a", b"/b"])
    assert isinstance(seen, Gap)
    assert "went away" in seen.reason


def test_what_a_recording_lacks_is_a_gap() -> None:
    seen = read_empty_directories(ScriptedHost({}, is_live=False), V1, [b"/a"])
    assert isinstance(seen, Gap)
    assert seen.fact == "visible_leak.empty_directories"


def test_what_may_not_be_read_is_a_gap() -> None:
    seen = read_empty_directories(ScriptedHost({V1_MOUNT + b"/a/cgroup.procs": errno.EACCES}), V1, [b"/a"])
    assert isinstance(seen, Gap)
    assert seen.hint == "run as root"


def test_v2_falls_back_to_the_list_of_processes() -> None:
    machine = v2_machine({b"/a": Cgroup(procs=b""), b"/b": Cgroup()})
    machine[V2_MOUNT + b"/a/cgroup.events"] = machine[V2_MOUNT + b"/b/cgroup.events"] = b"garbage\n"
    assert found(ScriptedHost(machine), V2, [b"/a", b"/b"]).empty == 1


def test_a_root_alone_is_looked_at_by_its_processes() -> None:
    assert found(ScriptedHost(v2_machine()), V2, [b"/"]).empty == 0
