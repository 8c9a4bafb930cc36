# SPDX-License-Identifier: Apache-2.0
"""Zombies that no page explains are given their task, namespace or socket, by pid."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest
from tests.kernel.exact_tiers import PAGES_PIN, told_if
from tests.kernel.lab_driver import LabDriver
from tests.kernel.witness import Witness

from zombiescope.analysis.autopsy import Body
from zombiescope.facts.zombies import HeldBy
from zombiescope.host.live import LiveHost
from zombiescope.lab.hierarchy import MemoryHierarchy
from zombiescope.pipeline.autopsy import dissect

pytestmark = pytest.mark.kernel
NEW_CGROUP_NAMESPACE = 0x02000000


def bodies_below(subtree: str) -> list[Body]:
    found = dissect(LiveHost()).autopsy.bodies
    return [body for body in found if body.zombie.path.startswith(os.fsencode(subtree) + b"/")]


@pytest.mark.parametrize(
    ("kind", "pin", "action"), [("socket", "socket", "close_socket"), ("unreaped", "task", "reap_process")]
)
def test_lab_kinds_without_a_page(lab: LabDriver, witness: Witness, kind: str, pin: str, action: str) -> None:
    truth = lab.zombies(kind, 5)
    witness.wait_for_ordinary_deaths()
    bodies = bodies_below(truth["subtree"])
    assert len(bodies) == 5
    for body in bodies:
        assert [found.kind for found in body.zombie.pins] == [pin]
        assert (body.zombie.pins[0].holder or HeldBy(None)).process
        assert body.remedies[0].action.key == action


@told_if(PAGES_PIN)
@pytest.mark.parametrize("kind", ["memfd", "shared-anon"])
def test_shared_memory_without_a_name_is_given_its_holder(lab: LabDriver, witness: Witness, kind: str) -> None:
    truth = lab.zombies(kind, 2)
    witness.wait_for_ordinary_deaths()
    bodies = bodies_below(truth["subtree"])
    assert len(bodies) == 2
    for body in bodies:
        (pin,) = body.zombie.pins
        assert pin.holder is not None and pin.holder.process
        assert [(remedy.action.key, remedy.target) for remedy in body.remedies] == [
            ("restart_process", pin.holder.said)
        ]


@contextmanager
def namespace_made_in(directory: str, then: str) -> Iterator[int]:
    """A process in `then` that keeps the cgroup namespace it made while it was in `directory`.

    It is moved from here: where v2 is mounted with nsdelegate, as systemd does, nobody leaves the root of its own namespace.
    """
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        _make_a_namespace(directory, tell)
    os.close(tell)
    try:
        assert os.read(ready, 1) == b"+"
        with open(f"{then}/cgroup.procs", "w") as procs:
            procs.write(str(child))
        yield child
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(ready)


def _make_a_namespace(directory: str, tell: int) -> NoReturn:
    try:
        with open(f"{directory}/cgroup.procs", "w") as procs:
            procs.write("0")
        if ctypes.CDLL(None).unshare(NEW_CGROUP_NAMESPACE) == 0:
            os.write(tell, b"+")
            time.sleep(60)
    finally:
        os._exit(1)


def test_a_namespace_made_inside_is_named(hierarchy: MemoryHierarchy, witness: Witness) -> None:
    top = f"/zombiescope-lab/namespace-{os.getpid()}"
    hierarchy.make_parents(top)
    hierarchy.make(f"{top}/z")
    hierarchy.make(f"{top}/keep")
    try:
        with namespace_made_in(hierarchy.folder(f"{top}/z"), hierarchy.folder(f"{top}/keep")) as process:
            os.rmdir(hierarchy.folder(f"{top}/z"))
            witness.wait_for_ordinary_deaths()
            (body,) = bodies_below(top)
            assert "namespace" in {pin.kind for pin in body.zombie.pins}
            assert any((pin.holder or HeldBy(None)).process == process for pin in body.zombie.pins)
    finally:
        for path in (f"{top}/z", f"{top}/keep", top):
            hierarchy.remove(path)
