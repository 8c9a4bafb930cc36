# SPDX-License-Identifier: Apache-2.0
"""The loops that make zombies. They run in processes of their own, never in the command.

The hopping process moves itself from cgroup to cgroup and then ends, so that no memory of its own stays charged to the
dead. Before anything hops, every mapped file is read: a page of a library first touched inside a cgroup would be charged
there and become a pin nobody asked for.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

from zombiescope.errors import ActionFailedError
from zombiescope.lab.hierarchy import MemoryHierarchy
from zombiescope.lab.names import zombie_name
from zombiescope.lab.pins.pin import Bench, Pin
from zombiescope.lab.truth import Made

KID = "kid"
Tell = Callable[[list[Made]], None]


def make_visible(pin: Pin, tell: Tell) -> None:
    bench = pin.bench
    for index in range(bench.count):
        path = f"{bench.subtree}/{zombie_name(index)}"
        tell([Made(bench.hierarchy.make(path), path, pin.kind, None, 0)])


def make_unreaped(pin: Pin, tell: Tell) -> None:
    """The calling process stays and never waits for the children that end inside."""
    bench = pin.bench
    for index in range(bench.count):
        path = f"{bench.subtree}/{zombie_name(index)}"
        cgroup_id = bench.hierarchy.make(path)
        try:
            child = os.fork()
        except OSError as error:
            raise ActionFailedError(
                f"cannot start child {index + 1} of {bench.count}",
                f"{error.strerror}: the limit on processes is reached",
                "a smaller --count; cat /proc/sys/kernel/pid_max",
            ) from error
        if child == 0:
            _enter_and_end(bench.hierarchy, path)
        # Ended but not reaped: WNOWAIT leaves it as it is.
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        if ended is None or ended.si_status != 0:
            raise ActionFailedError(
                f"cannot enter the cgroup {path}", "the kernel refused to move a process there", "zombiescope lab clean"
            )
        bench.hierarchy.remove(path)
        tell([Made(cgroup_id, path, pin.kind, None, 0)])


def _enter_and_end(hierarchy: MemoryHierarchy, path: str) -> None:
    code = 1
    try:
        hierarchy.enter(path)
        code = 0
    finally:
        os._exit(code)


def hop(pin: Pin, tell: Tell) -> None:
    """Charges one cgroup after the other and removes each as soon as the next is entered; the last one is left.

    Of a pin that dies last all are left.
    """
    bench = pin.bench
    gc.disable()
    previous: str | None = None
    for index in range(bench.count):
        path = f"{bench.subtree}/{zombie_name(index)}"
        made, inside = _make_place(pin, index, path)
        folder = bench.hierarchy.folder(inside)
        pin.arm(folder)
        bench.hierarchy.enter(inside)
        pin.charge(index, folder)
        if previous is not None and not pin.dies_last:
            bury(bench, pin, previous)
        tell(made)
        previous = path
    pin.hand_over()


def _make_place(pin: Pin, index: int, path: str) -> tuple[list[Made], str]:
    hierarchy = pin.bench.hierarchy
    if not pin.is_nested:
        return [Made(hierarchy.make(path), path, pin.kind, pin.file(index), pin.bytes_each)], path
    kid = f"{path}/{KID}"
    outer = Made(hierarchy.make(path), path, pin.kind, None, 0)
    hierarchy.make_parents(path)
    return [outer, Made(hierarchy.make(kid), kid, "tmpfs", pin.file(index), pin.bytes_each)], kid


def bury(bench: Bench, pin: Pin, path: str) -> None:
    if pin.is_nested:
        bench.hierarchy.remove(f"{path}/{KID}")
    bench.hierarchy.remove(path)


def read_mapped_files() -> None:
    """Brings every file this process has mapped into the page cache."""
    names = {line.split(None, 5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
    for name in names:
        try:
            with open(name, "rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass
        except OSError:
            continue
