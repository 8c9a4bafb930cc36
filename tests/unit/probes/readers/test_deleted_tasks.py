# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

from tests.build import V1, V2, V2_MOUNT, ScriptedHost, Step

from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import DeletedTask, DeletedTasks
from zombiescope.probes.readers.holders import read_deleted_tasks

Files = dict[bytes, Step | list[Step]]
DEAD = b"0::/a/b (deleted)\n"


def process(number: int, state: bytes, cgroup: Step) -> Files:
    return {
        b"/proc/%d/stat" % number: b"%d (agent) %s 4 1 1" % (number, state),
        b"/proc/%d/cgroup" % number: cgroup,
    }


def test_v2_names_the_zombie() -> None:
    host = ScriptedHost({**process(4, b"S", b"0::/live\n"), **process(9, b"Z", DEAD)})
    assert read_deleted_tasks(host, V2) == DeletedTasks((DeletedTask(b"/a/b", None, 9, b"agent", "Z", 4),))
    assert host.waited > 0


def test_one_that_goes_between_the_looks_was_on_its_way() -> None:
    host = ScriptedHost(process(9, b"X", DEAD), moments=[{b"/proc/9": None}])
    assert read_deleted_tasks(host, V2) == DeletedTasks(())


def test_a_live_directory_of_that_name_is_no_zombie() -> None:
    host = ScriptedHost({**process(9, b"S", DEAD), V2_MOUNT + b"/a/b (deleted)/cgroup.procs": b"9\n"})
    assert read_deleted_tasks(host, V2) == DeletedTasks(())


def test_v1_knows_only_that_nobody_reaps_it() -> None:
    tasks = {**process(4, b"S", b"4:memory:/a\n"), **process(9, b"Z", b"4:memory:/\n" + DEAD)}
    found = read_deleted_tasks(ScriptedHost(tasks), V1)
    assert found == DeletedTasks((DeletedTask(None, b"/a/b", 9, b"agent", "Z", 4),))


def test_some_refused_is_a_gap_beside_the_others() -> None:
    found = read_deleted_tasks(ScriptedHost({**process(4, b"S", errno.EACCES), **process(9, b"Z", DEAD)}), V2)
    assert isinstance(found, DeletedTasks)
    assert [task.process for task in found.tasks] == [9]
    assert len(found.gaps) == 1 and found.gaps[0].hint == "run as root"


def test_all_refused_is_a_gap() -> None:
    assert isinstance(read_deleted_tasks(ScriptedHost(process(4, b"S", errno.EACCES)), V2), Gap)
    assert isinstance(read_deleted_tasks(ScriptedHost({b"/etc/x": b""}), V2), Gap)


def test_garbage_names_nobody() -> None:
    host = ScriptedHost({b"/proc/4/stat": b"\xff\n(", b"/proc/4/cgroup": DEAD})
    assert read_deleted_tasks(host, V2) == DeletedTasks(())
