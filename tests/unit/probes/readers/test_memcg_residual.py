# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import (
    V1,
    V1_MOUNT,
    V2,
    V2_MOUNT,
    Cgroup,
    Machine,
    ScriptedHost,
    Use,
    v1_machine,
    v1_stat,
    v2_machine,
    v2_stat,
)

from zombiescope.facts.cgroups import Hierarchy, MemoryUse, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.probes.readers.memcg_residual import read_residuals

BUSY = Use(file=100_000, shmem=4096, anon=8192, swap=512, unevictable=64)
DEAD = Use(file=40_960, shmem=20_480, anon=4096, swap=8192, unevictable=4096)
GROUPS = {
    b"/": Cgroup(own=BUSY),
    b"/a": Cgroup(own=BUSY, dead=DEAD, zombies=3),
    b"/a/b": Cgroup(own=BUSY),
    b"/c": Cgroup(own=BUSY),
    b"/c/d": Cgroup(own=BUSY, dead=Use(shmem=4096), zombies=1),
}
V2_GROUPS = {
    b"/a": Cgroup(dead=DEAD, zombies=3),
    b"/a/b": Cgroup(own=BUSY),
    b"/c": Cgroup(own=BUSY, hands_memory_on=False, zombies=1),
}


def residuals(host: ScriptedHost, hierarchy: Hierarchy, parents: Iterable[bytes] | None = None) -> Residuals:
    found = read_residuals(host, hierarchy, parents)
    assert isinstance(found, Residuals), found
    return found


def memory_use(use: Use) -> MemoryUse:
    return MemoryUse(use.file, use.shmem, use.anon, use.swap, use.unevictable)


def test_v1_is_total_less_own_less_the_totals_of_live_children() -> None:
    found = residuals(ScriptedHost(v1_machine(GROUPS)), V1)
    assert found == Residuals({b"/a": memory_use(DEAD), b"/c/d": memory_use(Use(shmem=4096))}, frozenset())


@pytest.mark.parametrize(("content", "is_known"), [(b"0\n", False), (b"1\n", True), (b"", True)])
def test_v1_accounts_that_leave_out_those_below_are_a_gap_and_not_zero(content: bytes, is_known: bool) -> None:
    machine = v1_machine(GROUPS)
    machine[V1_MOUNT + b"/memory.use_hierarchy"] = content
    found = read_residuals(ScriptedHost(machine), V1, None)
    assert isinstance(found, Residuals) is is_known
    if isinstance(found, Gap):
        assert found.fact == "parents[].bytes" and "memory.use_hierarchy is 0" in found.reason and found.hint


def test_v1_zombies_right_below_the_root() -> None:
    groups = {b"/": Cgroup(own=BUSY, dead=DEAD), b"/a": Cgroup(own=BUSY)}
    assert residuals(ScriptedHost(v1_machine(groups)), V1).by_parent == {b"/": memory_use(DEAD)}


def test_v1_enters_only_directories_below_which_something_is_charged() -> None:
    groups = {**GROUPS, b"/idle": Cgroup(), b"/idle/deep": Cgroup(), b"/idle/deep/er": Cgroup()}
    host = ScriptedHost(v1_machine(groups))
    residuals(host, V1)
    assert V1_MOUNT + b"/idle/memory.stat" in host.reads
    assert V1_MOUNT + b"/idle/deep/memory.stat" not in host.reads


def test_a_second_and_third_sample_only_where_the_first_was_not_zero() -> None:
    host = ScriptedHost(v1_machine(GROUPS))
    residuals(host, V1)
    assert host.waited == 2.0
    assert host.reads.count(V1_MOUNT + b"/c/d/memory.stat") == 3
    assert host.reads.count(V1_MOUNT + b"/c/memory.stat") == 1
    quiet = ScriptedHost(v1_machine({b"/a": Cgroup(own=BUSY)}))
    assert residuals(quiet, V1).by_parent == {}
    assert quiet.waited == 0


def test_the_least_of_three_samples_kind_by_kind() -> None:
    dead = [DEAD, DEAD._replace(file=4096), DEAD._replace(shmem=0, file=12_288)]
    moments = [v1_machine({**GROUPS, b"/a": Cgroup(own=BUSY, dead=each, zombies=3)}) for each in dead]
    found = residuals(ScriptedHost(moments[0], moments=moments[1:]), V1)
    assert found.by_parent[b"/a"] == memory_use(DEAD._replace(file=4096, shmem=0))


def test_what_is_zero_in_any_sample_was_noise() -> None:
    later = v1_machine({**GROUPS, b"/a": Cgroup(own=BUSY)})
    assert b"/a" not in residuals(ScriptedHost(v1_machine(GROUPS), moments=[later]), V1).by_parent


def test_children_that_hold_more_than_their_parent_give_zero_and_not_less() -> None:
    """Statistics are flushed late: the child's figure may be ahead of its parent's."""
    machine = v1_machine(GROUPS)
    machine[V1_MOUNT + b"/a/b/memory.stat"] = v1_stat(BUSY, BUSY._replace(file=10_000_000, shmem=0))
    use = residuals(ScriptedHost(machine), V1).by_parent[b"/a"]
    assert use == memory_use(DEAD._replace(file=0, shmem=DEAD.shmem + BUSY.shmem))
    assert all(value >= 0 for value in use if value is not None)


@pytest.mark.parametrize("error", [errno.ENOENT, errno.ENODEV])
def test_a_child_that_vanishes_leaves_its_bytes_to_the_parent(error: int) -> None:
    machine: dict[bytes, bytes | int] = {**v1_machine(GROUPS), V1_MOUNT + b"/a/b/memory.stat": error}
    assert residuals(ScriptedHost(machine), V1).by_parent[b"/a"] == memory_use(DEAD.plus(BUSY))


def test_a_parent_that_vanishes_between_samples_is_gone() -> None:
    found = residuals(ScriptedHost(v1_machine(GROUPS), moments=[{V1_MOUNT + b"/a": None}]), V1)
    assert b"/a" not in found.by_parent
    assert b"/c/d" in found.by_parent


def test_a_parent_that_vanishes_before_it_is_listed_is_gone() -> None:
    class Vanishing(ScriptedHost):
        def subdirectories(self, path: bytes) -> list[bytes]:
            if path.endswith(b"/a"):
                raise OSError(errno.ENODEV, "No such device", path)
            return super().subdirectories(path)

    assert b"/c/d" in residuals(Vanishing(v1_machine(GROUPS)), V1).by_parent


GARBLED = [b"", b"garbage", b"cache 1\nrss x\n", b"cache " + b"9" * 4000, b"\xff" * 50, v1_stat(BUSY, BUSY)[:40]]


@pytest.mark.parametrize("content", GARBLED)
def test_a_garbled_child_makes_its_parent_unknown_and_not_zero(content: bytes) -> None:
    machine = {**v1_machine(GROUPS), V1_MOUNT + b"/a/b/memory.stat": content}
    found = residuals(ScriptedHost(machine), V1)
    assert found.garbled == {b"/a"}
    assert set(found.by_parent) == {b"/c/d"}


@pytest.mark.parametrize("content", GARBLED)
def test_a_garbled_root_or_a_later_sample_is_unknown(content: bytes) -> None:
    assert residuals(ScriptedHost({**v1_machine(GROUPS), V1_MOUNT + b"/memory.stat": content}), V1).garbled == {b"/"}
    later = ScriptedHost(v1_machine(GROUPS), moments=[{V1_MOUNT + b"/a/memory.stat": content}])
    found = residuals(later, V1)
    assert found.garbled == {b"/a"}
    assert set(found.by_parent) == {b"/c/d"}


@pytest.mark.parametrize("number", [b"-5", b"9" * 400, b"18446744073709551616"])
def test_numbers_that_no_account_of_pages_can_have_are_garbled(number: bytes) -> None:
    stat = v1_stat(BUSY, BUSY).replace(b"rss 8192", b"rss " + number)
    found = residuals(ScriptedHost({**v1_machine(GROUPS), V1_MOUNT + b"/a/b/memory.stat": stat}), V1)
    assert found.garbled == {b"/a"}


def test_swap_that_the_kernel_does_not_account_is_absent_and_not_zero() -> None:
    stat = v1_machine(GROUPS)
    for path in [path for path in stat if path.endswith(b"memory.stat")]:
        stat[path] = b"\n".join(line for line in stat[path].split(b"\n") if b"swap" not in line)
    assert residuals(ScriptedHost(stat), V1).by_parent[b"/a"].swap is None


def test_v1_a_parent_that_was_asked_for_and_holds_nothing_has_a_figure() -> None:
    found = residuals(ScriptedHost(v1_machine(GROUPS)), V1, [b"/c", b"/a", b"/gone"])
    assert found.by_parent[b"/c"] == MemoryUse(0, 0, 0, 0, 0)
    assert found.by_parent[b"/a"] == memory_use(DEAD)
    assert b"/gone" not in found.by_parent
    machine = {**v1_machine({b"/a": Cgroup()}), V1_MOUNT + b"/a/memory.stat": b"garbage"}
    assert residuals(ScriptedHost(machine), V1, [b"/a"]).garbled == {b"/a"}


def test_what_may_not_be_read_is_a_gap() -> None:
    for hierarchy, machine in ((V1, v1_machine(GROUPS)), (V2, v2_machine(V2_GROUPS))):
        files: dict[bytes, bytes | int] = dict(machine)
        files[hierarchy.place(b"/a", b"memory.stat")] = errno.EACCES
        found = read_residuals(ScriptedHost(files), hierarchy, [b"/a"])
        assert isinstance(found, Gap)
        assert (found.fact, found.hint) == ("parents[].bytes", "run as root")


def v2_found(machine: Machine, parents: Iterable[bytes] = (b"/a", b"/c")) -> Residuals:
    return residuals(ScriptedHost(machine), V2, parents)


def test_v2_is_the_total_less_the_totals_of_live_children_where_a_parent_has_no_pages_of_its_own() -> None:
    found = v2_found(v2_machine(V2_GROUPS))
    assert found == Residuals({b"/a": memory_use(DEAD)}, frozenset({b"/c"}))


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (b"/sys/kernel/btf/vmlinux", b"\0x\0lru_reparent_memcg\0y"),
        (b"/proc/kallsyms", b"0 T lru_reparent_memcg\n"),
    ],
)
def test_v2_zombies_of_kernels_that_give_dead_pages_to_the_parent_hold_none(path: bytes, content: bytes) -> None:
    machine = v2_machine(V2_GROUPS)
    machine[path] = content
    assert v2_found(machine).by_parent[b"/a"] == MemoryUse(0, 0, 0, memory_use(DEAD).swap, 0)


def test_v2_the_root_cannot_be_split() -> None:
    assert v2_found(v2_machine({b"/": Cgroup(zombies=2), **V2_GROUPS}), [b"/"]).unsplit == {b"/"}


def test_v2_without_subtree_control_cannot_be_split() -> None:
    machine = v2_machine(V2_GROUPS)
    del machine[V2_MOUNT + b"/a/cgroup.subtree_control"]
    assert v2_found(machine).unsplit == {b"/a", b"/c"}


def test_v2_without_swap_accounting_has_no_swap() -> None:
    machine = v2_machine(V2_GROUPS)
    del machine[V2_MOUNT + b"/a/memory.swap.current"]
    assert v2_found(machine).by_parent == {b"/a": memory_use(DEAD)._replace(swap=None)}


def test_v2_nothing_left_is_a_figure_and_keeps_that_swap_is_absent() -> None:
    machine = v2_machine({b"/a": Cgroup(zombies=1), b"/a/b": Cgroup(own=BUSY)})
    assert v2_found(machine, [b"/a"]).by_parent == {b"/a": MemoryUse(0, 0, 0, 0, 0)}
    del machine[V2_MOUNT + b"/a/memory.swap.current"]
    assert v2_found(machine, [b"/a"]).by_parent == {b"/a": MemoryUse(0, 0, 0, None, 0)}


def test_v2_a_parent_that_vanishes_has_no_figure() -> None:
    machine = v2_machine(V2_GROUPS)
    del machine[V2_MOUNT + b"/a/memory.stat"]
    assert v2_found(machine).by_parent == {}
    later = ScriptedHost(v2_machine(V2_GROUPS), moments=[{V2_MOUNT + b"/a": None}])
    assert residuals(later, V2, [b"/a"]).by_parent == {}


@pytest.mark.parametrize("path", [b"/a", b"/a/b"])
def test_v2_garbled_is_unknown(path: bytes) -> None:
    found = v2_found({**v2_machine(V2_GROUPS), V2_MOUNT + path + b"/memory.stat": b"anon many\n"})
    assert found.garbled == {b"/a"}
    assert found.by_parent == {}


@given(st.binary(), st.sampled_from([b"/", b"/a", b"/a/b", b"/c/d"]))
def test_any_bytes_give_figures_or_say_unknown(content: bytes, path: bytes) -> None:
    for hierarchy, machine in ((V1, v1_machine(GROUPS)), (V2, v2_machine(GROUPS))):
        files = {**machine, hierarchy.place(path, b"memory.stat"): content}
        found = residuals(ScriptedHost(files), hierarchy, [b"/a", b"/c/d"])
        for use in found.by_parent.values():
            assert all(value is None or 0 <= value < 1 << 64 for value in use)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_v1_and_v2_agree_where_both_can_tell(file: int, shmem: int) -> None:
    groups = {b"/a": Cgroup(dead=Use(file=file, shmem=shmem), zombies=1), b"/a/b": Cgroup(own=BUSY)}
    first = residuals(ScriptedHost(v1_machine(groups)), V1).by_parent.get(b"/a", MemoryUse(0, 0, 0, 0, 0))
    assert first == residuals(ScriptedHost(v2_machine(groups)), V2, [b"/a"]).by_parent[b"/a"]
    assert v2_stat(BUSY)
