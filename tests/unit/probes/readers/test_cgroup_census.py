# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import V1, V1_MOUNT, V2, V2_MOUNT, Cgroup, ScriptedHost, proc_cgroups, v1_machine, v2_machine

from zombiescope.analysis.scan import derive_population
from zombiescope.facts.cgroups import Census, CountSource, EmptyDirectories, Hierarchy, Look
from zombiescope.facts.gap import Gap
from zombiescope.host.access import DirectoryWalk
from zombiescope.probes.readers.cgroup_census import (
    EXAMPLES,
    MOST_SEEN,
    read_census,
    read_empty_directories,
    read_live_tree,
)

GROUPS = {b"/a": Cgroup(zombies=2), b"/a/b": Cgroup(zombies=5), b"/c": Cgroup()}
CHILD_STAT = V2_MOUNT + b"/a/b/cgroup.stat"


def census(host: ScriptedHost, hierarchy: Hierarchy) -> Census:
    found = read_census(host, hierarchy)
    assert isinstance(found, Census), found
    return found


def changed(machine: Mapping[bytes, bytes]) -> dict[bytes, bytes | int | list[bytes | int]]:
    return dict(machine)


def test_v1_counts_what_the_kernel_counts_less_the_directories() -> None:
    host = ScriptedHost(v1_machine(GROUPS))
    found = census(host, V1)
    assert found.looks == (Look(11, 4), Look(11, 4))
    assert found.source is CountSource.PROC_CGROUPS
    assert found.parents is None
    assert [gap.fact for gap in found.gaps] == ["parents[].zombies"]
    assert host.waited == 1.0


def test_no_zombie_needs_one_look() -> None:
    for machine, hierarchy in ((v1_machine({b"/a": Cgroup()}), V1), (v2_machine({b"/a": Cgroup()}), V2)):
        host = ScriptedHost(machine)
        assert census(host, hierarchy).looks == (Look(2, 2),)
        assert host.waited == 0


@pytest.mark.parametrize(("first", "second"), [(9, 6), (6, 9), (6, 1)])
def test_the_lower_of_two_looks_counts(first: int, second: int) -> None:
    host = ScriptedHost(
        {**v1_machine(), b"/proc/cgroups": proc_cgroups(first)}, moments=[{b"/proc/cgroups": proc_cgroups(second)}]
    )
    assert derive_population(census(host, V1)).zombies == min(first, second) - 1


def test_what_is_born_while_we_walk_is_no_zombie_and_never_negative() -> None:
    """Counted before the walk: 4. Then a birth that the walk sees. Counted after: 5."""
    machine = changed(v1_machine({b"/a": Cgroup(), b"/b": Cgroup(), b"/c": Cgroup(), b"/d": Cgroup()}))
    machine[b"/proc/cgroups"] = [proc_cgroups(4), proc_cgroups(5)]
    assert census(ScriptedHost(machine), V1).looks == (Look(5, 5),)


def test_the_lower_of_before_and_after_the_walk_is_taken() -> None:
    """A hundred deaths end while we walk: they were no zombies."""
    machine = changed(v1_machine({b"/a": Cgroup()}))
    for readings in ([proc_cgroups(102), proc_cgroups(2)], [proc_cgroups(2), proc_cgroups(102)]):
        machine[b"/proc/cgroups"] = list(readings)
        assert census(ScriptedHost(machine), V1).looks == (Look(2, 2),)


@pytest.mark.parametrize("reads_before", [0, 1, 2, 3])
def test_a_count_that_fails_at_any_moment_is_a_gap(reads_before: int) -> None:
    machine = changed(v1_machine(GROUPS))
    machine[b"/proc/cgroups"] = [*[proc_cgroups(11)] * reads_before, errno.EIO]
    found = read_census(ScriptedHost(machine), V1)
    assert found == Gap("memcg.counted", "/proc/cgroups: input/output error")


def test_a_partial_view_is_a_gap_and_never_a_number() -> None:
    found = read_census(ScriptedHost(v1_machine(GROUPS)), V1._replace(partial_view="only a part"))
    assert isinstance(found, Gap)
    assert found.reason == "only a part"
    assert found.hint


def test_a_directory_that_cannot_be_listed_is_a_gap() -> None:
    class Refusing(ScriptedHost):
        def directories(self, path: bytes) -> DirectoryWalk:
            return super().directories(path)._replace(unreadable=((b"/a\n", errno.EACCES),))

    host = Refusing(v1_machine(GROUPS))
    found = read_live_tree(host, V1)
    assert found == Gap("memcg.live", r"/sys/fs/cgroup/memory/a\x0a: cannot be listed (EACCES)", "run as root")
    assert read_census(host, V1) == found


def test_a_mount_point_that_is_gone_is_a_gap() -> None:
    host = ScriptedHost({b"/proc/cgroups": proc_cgroups(3)})
    found = read_census(host, V1)
    assert isinstance(found, Gap)
    assert found.fact == "memcg.live"


@pytest.mark.parametrize(
    ("per_controller", "source"),
    [(True, CountSource.CGROUP_STAT_SUBSYS), (False, CountSource.CGROUP_STAT_DESCENDANTS)],
)
def test_v2_counts_by_cgroup_stat_and_knows_the_parents(per_controller: bool, source: CountSource) -> None:
    found = census(ScriptedHost(v2_machine(GROUPS, per_controller=per_controller)), V2)
    assert found.looks == (Look(11, 4), Look(11, 4))
    assert found.source is source
    assert found.parents == {b"/a": 2, b"/a/b": 5}
    assert found.gaps == ()


def test_v2_without_a_count_of_the_dying_falls_back_to_proc_cgroups() -> None:
    machine = {**v2_machine(GROUPS), V2_MOUNT + b"/cgroup.stat": b"garbage\n"}
    found = census(ScriptedHost(machine), V2)
    assert (found.source, found.parents) == (CountSource.PROC_CGROUPS, None)
    assert derive_population(found).zombies == 7
    assert "v1" not in found.gaps[0].reason
    del machine[b"/proc/cgroups"]
    assert read_census(ScriptedHost(machine), V2) == Gap(
        "memcg.counted", "/sys/fs/cgroup/cgroup.stat has no count of dying cgroups"
    )


def test_v2_with_no_readable_root_is_a_gap_with_the_reason() -> None:
    machine = changed(v2_machine(GROUPS, with_row=False))
    machine[V2_MOUNT + b"/cgroup.stat"] = errno.EACCES
    assert read_census(ScriptedHost(machine), V2) == Gap(
        "memcg.counted", "/sys/fs/cgroup/cgroup.stat: permission denied", "run as root"
    )


@pytest.mark.parametrize("error", [errno.ENODEV, errno.ENOENT])
def test_zombies_of_a_child_that_vanishes_are_its_parents(error: int) -> None:
    machine = changed(v2_machine(GROUPS))
    machine[CHILD_STAT] = error
    assert census(ScriptedHost(machine), V2).parents == {b"/a": 7}


def test_a_child_that_cannot_be_read_leaves_the_total_and_takes_the_parents() -> None:
    for content in (errno.EACCES, b"garbage\n"):
        machine = changed(v2_machine(GROUPS))
        machine[CHILD_STAT] = content
        found = census(ScriptedHost(machine), V2)
        assert derive_population(found).zombies == 7
        assert found.parents is None
        assert [gap.fact for gap in found.gaps] == ["parents[].zombies"]


def test_a_second_look_that_cannot_tell_the_parents_makes_them_unknown() -> None:
    host = ScriptedHost(v2_machine(GROUPS), moments=[{CHILD_STAT: b""}])
    found = census(host, V2)
    assert found.parents is None
    assert "nr_dying_subsys_memory" in found.gaps[0].reason


def test_each_parent_has_the_lower_of_two_looks() -> None:
    later = v2_machine({b"/a": Cgroup(zombies=9), b"/a/b": Cgroup(zombies=1), b"/c": Cgroup(zombies=4)})
    found = census(ScriptedHost(v2_machine(GROUPS), moments=[later]), V2)
    assert found.parents == {b"/a": 2, b"/a/b": 1}
    assert found.looks == (Look(11, 4), Look(18, 4))


def test_zombies_that_are_gone_in_the_second_look_have_no_parents() -> None:
    later = v2_machine({b"/a": Cgroup(), b"/a/b": Cgroup(), b"/c": Cgroup()})
    found = census(ScriptedHost(v2_machine(GROUPS), moments=[later]), V2)
    assert found.parents == {}
    assert derive_population(found).zombies == 0


def test_children_that_count_more_than_their_parent_did_make_no_negative() -> None:
    """The parent is read first; more die below while the children are read."""
    machine = v2_machine(GROUPS)
    machine[CHILD_STAT] = b"nr_descendants 0\nnr_dying_descendants 50\nnr_dying_subsys_memory 50\n"
    found = census(ScriptedHost(machine), V2)
    assert found.parents is not None
    assert all(count > 0 for count in found.parents.values())
    assert b"/a" not in found.parents


def test_only_directories_with_zombies_below_are_entered() -> None:
    groups = {b"/quiet": Cgroup(), b"/quiet/x": Cgroup(), b"/sick": Cgroup(zombies=1), b"/sick/y": Cgroup()}
    host = ScriptedHost(v2_machine(groups))
    census(host, V2)
    assert V2_MOUNT + b"/sick/y/cgroup.stat" in host.reads
    assert V2_MOUNT + b"/quiet/x/cgroup.stat" not in host.reads


@given(st.binary(), st.binary(), st.binary())
def test_any_bytes_give_a_census_or_a_gap(rows: bytes, root: bytes, child: bytes) -> None:
    for hierarchy, machine in ((V1, v1_machine(GROUPS)), (V2, v2_machine(GROUPS))):
        files = {**machine, b"/proc/cgroups": rows, V2_MOUNT + b"/cgroup.stat": root}
        files[CHILD_STAT] = child
        found = read_census(ScriptedHost(files), hierarchy)
        if isinstance(found, Census):
            assert all(look.zombies >= 0 for look in found.looks)
            assert all(count > 0 for count in (found.parents or {}).values())


def test_v1_mounts_are_walked_where_they_are() -> None:
    tree = read_live_tree(ScriptedHost(v1_machine(GROUPS)), V1)
    assert not isinstance(tree, Gap)
    assert set(tree.paths) == {b"/", b"/a", b"/a/b", b"/c"}
    assert set(tree.leaves) == {b"/a/b", b"/c"}
    assert V1.place(b"/") == V1_MOUNT


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
