# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import (
    HYBRID_V2_MOUNT,
    V1_MOUNT,
    V2_MOUNT,
    Machine,
    ScriptedHost,
    mountinfo,
    proc_cgroups,
    v1_machine,
    v2_machine,
)

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.probes.cgroups import read_memory_hierarchy

V1_MEMORY = (b"cgroup", V1_MOUNT, b"/", b"rw,memory")


def hierarchy(machine: Machine, inodes: Mapping[bytes, int] | None = None) -> Hierarchy:
    found = read_memory_hierarchy(ScriptedHost(machine, inodes=inodes or {}))
    assert isinstance(found, Hierarchy), found
    return found


def gap(machine: Mapping[bytes, bytes | int]) -> Gap:
    found = read_memory_hierarchy(ScriptedHost(dict(machine)))
    assert isinstance(found, Gap), found
    assert found.fact == "memcg.hierarchy"
    return found


def with_mounts(machine: Machine, *mounts: tuple[bytes, bytes, bytes, bytes]) -> Machine:
    return {**machine, b"/proc/self/mountinfo": mountinfo(*mounts)}


def test_memory_on_v1() -> None:
    assert hierarchy(v1_machine()) == Hierarchy(HierarchyVersion.V1, V1_MOUNT, is_hybrid=False, partial_view="")


def test_both_mounted_and_memory_on_v1() -> None:
    assert hierarchy(v1_machine(hybrid=True)) == Hierarchy(
        HierarchyVersion.V1, V1_MOUNT, is_hybrid=True, partial_view=""
    )


@pytest.mark.parametrize("with_row", [True, False])
def test_memory_on_v2_with_or_without_its_row_in_proc_cgroups(with_row: bool) -> None:
    found = hierarchy(v2_machine(with_row=with_row))
    assert found == Hierarchy(HierarchyVersion.V2, V2_MOUNT, is_hybrid=False, partial_view="")


def test_hybrid_with_memory_on_v2() -> None:
    machine = with_mounts(
        v2_machine(), (b"cgroup", b"/sys/fs/cgroup/cpu", b"/", b"rw,cpu"), (b"cgroup2", V2_MOUNT, b"/", b"rw")
    )
    found = hierarchy(machine)
    assert (found.version, found.is_hybrid) == (HierarchyVersion.V2, True)


def test_a_named_hierarchy_is_not_the_controller() -> None:
    machine = with_mounts(v1_machine(), (b"cgroup", b"/sys/fs/cgroup/x", b"/", b"rw,name=memory"), V1_MEMORY)
    assert hierarchy(machine).mount_point == V1_MOUNT


def test_the_controller_turned_off() -> None:
    machine = {**v1_machine(), b"/proc/cgroups": proc_cgroups(1, hierarchy=0, enabled=0)}
    assert "off" in gap(machine).reason


def test_no_cgroup_file_system_is_mounted() -> None:
    assert "no cgroup file system" in gap(with_mounts({**v1_machine(), b"/proc/cgroups": proc_cgroups(5, 0)})).reason


def test_no_mounted_hierarchy_has_memory() -> None:
    machine = {**v2_machine(), V2_MOUNT + b"/cgroup.controllers": b"cpu pids\n"}
    assert "no mounted cgroup hierarchy has the memory controller" in gap(machine).reason


def test_controllers_that_cannot_be_read_are_not_called_absent() -> None:
    machine = v2_machine()
    del machine[V2_MOUNT + b"/cgroup.controllers"]
    assert "/cgroup.controllers: no such file or directory" in gap(machine).reason


def test_memory_on_a_v1_hierarchy_that_is_not_in_view() -> None:
    machine = with_mounts(v1_machine(hybrid=True), (b"cgroup2", HYBRID_V2_MOUNT, b"/", b"rw"))
    assert "not mounted in this view" in gap(machine).reason


@pytest.mark.parametrize("root", [b"/docker/abc", b"/../..", b"/.."])
def test_a_mount_of_a_part_is_a_partial_view(root: bytes) -> None:
    partial = hierarchy(with_mounts(v1_machine(), (b"cgroup", V1_MOUNT, root, b"rw,memory"))).partial_view
    assert root.decode() in partial


def test_a_cgroup_namespace_is_seen_by_the_inode_of_its_top() -> None:
    assert "inode 77" in hierarchy(v1_machine(), {V1_MOUNT: 77}).partial_view


@pytest.mark.parametrize("name", [b"cgroup.type", b"cgroup.events"])
def test_a_cgroup_namespace_is_seen_by_files_the_root_does_not_have(name: bytes) -> None:
    machine = {**v2_machine(), V2_MOUNT + b"/" + name: b"domain\n"}
    assert "cgroup namespace" in hierarchy(machine).partial_view


def test_of_several_mounts_the_one_that_shows_everything_is_taken() -> None:
    part, whole = (b"cgroup", b"/part", b"/docker/abc", b"rw,memory"), (b"cgroup", b"/whole", b"/", b"rw,memory")
    for mounts in ([part, whole], [whole, part], [whole, V1_MEMORY]):
        found = hierarchy(with_mounts(v1_machine(), *mounts))
        assert (found.mount_point, found.partial_view) == (b"/whole", "")
    assert hierarchy(with_mounts(v1_machine(), part)).partial_view


def test_octal_escapes_in_a_mount_point() -> None:
    machine = with_mounts(v1_machine(), (b"cgroup", rb"/my\040cgroups\134x", b"/", b"rw,memory"))
    assert hierarchy(machine).mount_point == rb"/my cgroups\x"


@pytest.mark.parametrize("point", [rb"/a\000b", b"relative", b""])
def test_a_mount_point_that_cannot_be_is_left_out(point: bytes) -> None:
    found = hierarchy(with_mounts(v1_machine(), (b"cgroup", point, b"/", b"rw,memory"), V1_MEMORY))
    assert found.mount_point == V1_MOUNT


def test_the_table_of_init_stands_in_for_ours_and_comes_first_elsewhere() -> None:
    machine = {**v1_machine(), b"/proc/self/mountinfo": mountinfo((b"cgroup", b"/self", b"/", b"rw,memory"))}
    assert hierarchy(machine).mount_point == b"/self"
    elsewhere = read_memory_hierarchy(ScriptedHost(machine, label="the host mounted at /host"))
    assert isinstance(elsewhere, Hierarchy)
    assert elsewhere.mount_point == V1_MOUNT
    del machine[b"/proc/self/mountinfo"]
    assert hierarchy(machine).mount_point == V1_MOUNT


def test_no_mount_table_is_a_gap_with_its_reason() -> None:
    machine: dict[bytes, bytes | int] = {**v1_machine(), b"/proc/self/mountinfo": errno.EACCES}
    del machine[b"/proc/1/mountinfo"]
    assert gap(machine) == Gap("memcg.hierarchy", "/proc/self/mountinfo: permission denied", "run as root")


@given(st.binary(), st.binary(), st.binary())
def test_any_bytes_give_a_hierarchy_or_a_gap(table: bytes, cgroups: bytes, controllers: bytes) -> None:
    mounts = mountinfo((b"cgroup2", V2_MOUNT, b"/", b"rw")) + table
    for text in (table, mounts):
        files = {
            b"/proc/self/mountinfo": text,
            b"/proc/cgroups": cgroups,
            V2_MOUNT + b"/cgroup.controllers": controllers,
        }
        assert isinstance(read_memory_hierarchy(ScriptedHost(files)), Hierarchy | Gap)
