# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.build import V1, V2, V2_MOUNT, Cgroup, Machine, ScriptedHost, Use, v2_machine

from zombiescope.facts.cgroups import HandedOn, LiveTree, MemoryUse
from zombiescope.facts.gap import Gap
from zombiescope.probes.readers.memcg_residual import read_handed_on

BUSY = Use(file=100_000, shmem=4096, anon=8192, swap=512, unevictable=64)
LEFT = Use(file=40_960, shmem=20_480, anon=0, swap=8192, unevictable=0)
GROUPS = {
    b"/a": Cgroup(dead=LEFT),
    b"/a/b": Cgroup(own=BUSY),
    b"/c": Cgroup(own=BUSY),
    b"/c/d": Cgroup(own=BUSY),
}
TREE = LiveTree((b"/", b"/a", b"/c", b"/a/b", b"/c/d"), (b"/a/b", b"/c/d"))


def machine(symbols: bytes = b"0 T lru_reparent_memcg\n") -> Machine:
    found = v2_machine(GROUPS)
    found[b"/proc/kallsyms"] = symbols
    for path in (b"/c", b"/a/b", b"/c/d"):  # those with processes of their own
        found[V2_MOUNT + path + b"/cgroup.subtree_control"] = b"\n"
    return found


def test_what_no_live_child_of_a_parent_without_processes_owns_was_left_to_it() -> None:
    found = read_handed_on(ScriptedHost(machine()), V2, TREE)
    assert found == HandedOn(True, {b"/a": MemoryUse(40_960, 20_480, 0, 0, 0)}, 2), "the root and /c cannot be told"
    assert found.total == 61_440


def test_a_parent_of_which_everything_below_has_died_is_told_too() -> None:
    groups = v2_machine({b"/a": Cgroup(dead=LEFT)})
    groups[b"/proc/kallsyms"] = b"0 T lru_reparent_memcg\n"
    groups[V2_MOUNT + b"/a/cgroup.subtree_control"] = b"memory\n"
    found = read_handed_on(ScriptedHost(groups), V2, LiveTree((b"/", b"/a"), (b"/a",)))
    assert isinstance(found, HandedOn)
    assert found.by_parent == {b"/a": MemoryUse(40_960, 20_480, 0, 0, 0)}


def test_a_kernel_that_keeps_the_dead_hands_nothing_on() -> None:
    assert read_handed_on(ScriptedHost(machine(b"0 T other\n")), V2, TREE) == HandedOn(False, {})


def test_where_it_cannot_be_told_it_is_a_gap() -> None:
    found = read_handed_on(ScriptedHost(machine()), V1, TREE)
    assert isinstance(found, Gap)
    assert found.fact == "handed_on"
    missing = read_handed_on(ScriptedHost(machine()), V2, Gap("live", "no"))
    assert missing == Gap("handed_on", "no")
