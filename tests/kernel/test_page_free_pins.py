# SPDX-License-Identifier: Apache-2.0
"""Pins that hold no page, on the running kernel."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.zombie_maker import Maker, wait_until

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.page_pins import DeletedTasks, SocketCandidates
from zombiescope.host.live import LiveHost
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.holders import read_deleted_tasks, read_socket_pins

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
HOST = LiveHost()


@pytest.fixture
def maker() -> Iterator[Maker]:
    with Maker(f"free-{os.getpid()}-{time.monotonic_ns() % 1_000_000}") as made:
        yield made


def memory() -> Hierarchy:
    found = read_memory_hierarchy(HOST)
    assert isinstance(found, Hierarchy), found
    return found


def unified() -> bytes | None:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return next((os.fsencode(line.split()[4]) for line in lines if " - cgroup2 " in line), None)


def test_a_child_nobody_reaps_names_its_zombie(maker: Maker) -> None:
    place = maker.top / "was (deleted) here"
    place.mkdir()
    child = os.fork()
    if child == 0:
        try:
            (place / "cgroup.procs").write_text("0")
        finally:
            os._exit(0)
    try:
        assert wait_until(lambda: Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
        place.rmdir()
        found = read_deleted_tasks(HOST, memory())
        assert isinstance(found, DeletedTasks), found
        (task,) = [each for each in found.tasks if each.process == child]
        is_v2 = memory().version is HierarchyVersion.V2
        assert task.cgroup == (maker.prefix + b"/was (deleted) here" if is_v2 else None)
        assert (task.process, task.parent, task.state) == (child, os.getpid(), "Z")
    finally:
        os.waitpid(child, 0)
    again = read_deleted_tasks(HOST, memory())
    assert isinstance(again, DeletedTasks)
    assert not [each for each in again.tasks if each.process == child]


def test_a_live_cgroup_with_such_a_name_is_no_zombie(maker: Maker) -> None:
    place = maker.top / "odd (deleted)"
    place.mkdir()
    child = os.fork()
    if child == 0:
        try:
            (place / "cgroup.procs").write_text("0")
            signal.pause()
        finally:
            os._exit(0)
    try:
        assert wait_until(lambda: (place / "cgroup.procs").read_text().split() == [str(child)])
        found = read_deleted_tasks(HOST, memory())
        assert isinstance(found, DeletedTasks)
        assert not [each for each in found.tasks if each.process == child]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.skipif(unified() is None, reason="no cgroup2 file system is mounted")
def test_a_socket_tells_the_dead_cgroup_it_was_made_in() -> None:
    mount = unified()
    assert mount is not None
    hierarchy = Hierarchy(HierarchyVersion.V2, mount, is_hybrid=True, partial_view="")
    place = Path(os.fsdecode(mount)) / f"zombiescope-test-{os.getpid()}"
    place.mkdir()
    number = place.stat().st_ino
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            (place / "cgroup.procs").write_text("0")
            with socket.socket() as server:
                server.bind(("127.0.0.1", 0))
                server.listen()
                socket.send_fds(there, [b"x"], [server.fileno()])
        finally:
            os._exit(0)
    descriptors = socket.recv_fds(here, 1, 1)[1]
    os.waitpid(child, 0)
    alive = read_socket_pins(HOST, hierarchy)
    assert isinstance(alive, SocketCandidates)
    assert number not in {each.cgroup for each in alive.dead}
    place.rmdir()
    try:
        found = read_socket_pins(HOST, hierarchy)
        assert isinstance(found, SocketCandidates), found
        if any("could be asked" in gap.reason for gap in found.gaps) and not found.dead:
            return  # a kernel without inet_diag: the gap is what must be told
        (dead,) = [each for each in found.dead if each.cgroup == number]
        assert dead.protocol == "tcp"
        assert dead.processes == (os.getpid(),)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        here.close()
        there.close()


@pytest.mark.skipif(unified() is None, reason="no cgroup2 file system is mounted")
def test_v2_names_the_zombie_an_unreaped_child_holds() -> None:
    mount = unified()
    assert mount is not None
    hierarchy = Hierarchy(HierarchyVersion.V2, mount, is_hybrid=True, partial_view="")
    place = Path(os.fsdecode(mount)) / f"zombiescope-task-{os.getpid()}"
    place.mkdir()
    child = os.fork()
    if child == 0:
        try:
            (place / "cgroup.procs").write_text("0")
        finally:
            os._exit(0)
    try:
        assert wait_until(lambda: Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
        place.rmdir()
        found = read_deleted_tasks(HOST, hierarchy)
        assert isinstance(found, DeletedTasks), found
        (task,) = [each for each in found.tasks if each.process == child]
        assert task.cgroup == b"/" + os.fsencode(place.name)
        assert task.state == "Z" and task.parent == os.getpid()
    finally:
        os.waitpid(child, 0)
