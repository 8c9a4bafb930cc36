# SPDX-License-Identifier: Apache-2.0
"""Story (e): a user without privileges and a container see less. What they cannot see is a gap, never a wrong number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.vm.cells import Cell
from tests.vm.stories.groves import Grove, memory_mount
from tests.vm.stories.pins import PINS
from tests.vm.stories.product import document

EACH = 3
AS_USER = ("setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups")
NUMBERS = ("counted", "live", "zombies", "ratio")

pytestmark = pytest.mark.in_ci("5.10-v2", "6.1-v1", "7.2-v2")


@pytest.fixture
def grove(cell: Cell) -> Iterator[Grove]:
    grove = Grove(cell, "story-views")
    task = next(pin for pin in PINS if pin.kind == "task")  # keeps its group on every kernel and hierarchy
    try:
        for number in range(EACH):
            grove.bury(f"dead{number}", task.bury)
        yield grove
    finally:
        grove.close()


@pytest.fixture
def box(cell: Cell) -> Iterator[Path]:
    """A container's cgroup, with a child: a small live tree that must not be taken for the whole."""
    grove = Grove(cell, "story-box")
    (grove.folder / "inner").mkdir()
    try:
        yield grove.folder / "inner"
    finally:
        grove.close()


def test_unprivileged_user_sees_the_same_or_a_gap(grove: Grove) -> None:
    root, user = document("scan"), document("scan", prefix=AS_USER)
    assert root["memcg"]["zombies"] >= EACH
    for name in NUMBERS:
        assert user["memcg"][name] in {None, root["memcg"][name]}, name
    # What is world-readable must be used: these files are, on every kernel here.
    assert user["memcg"]["zombies"] == root["memcg"]["zombies"]


def container(cell: Cell, box: Path, mounts: str) -> tuple[str, ...]:
    """Enters `box`, then namespaces of its own, then whatever `mounts` does, then the command."""
    inside = f'{mounts}\nexec "$@"'
    enter = f'echo $$ >{box}/cgroup.procs; exec unshare --cgroup --mount --pid --fork --mount-proc sh -c "$0" sh "$@"'
    return ("sh", "-c", enter, inside)


def own_mount(cell: Cell) -> str:
    place = memory_mount(cell)
    kind = "cgroup -o memory" if cell.memory_is_v1 else "cgroup2"
    return f"umount -l {place}; mount -t {kind} cgroup {place} || exit 99"


def bind_mount(cell: Cell, box: Path) -> str:
    return f"mount --bind {box} {memory_mount(cell)} || exit 99"


def check_gaps(answer: dict[str, Any]) -> None:
    assert {name: answer["memcg"][name] for name in NUMBERS} == dict.fromkeys(NUMBERS)
    assert answer["parents"] in ([], None)
    assert answer["severity"] == "unknown"
    assert any("cgroup namespace" in gap["reason"] or "bind mount" in gap["reason"] for gap in answer["gaps"])


def test_container_with_a_mount_of_its_own(cell: Cell, grove: Grove, box: Path) -> None:
    check_gaps(document("scan", prefix=container(cell, box, own_mount(cell)), status=3))


def test_container_with_a_bind_mount(cell: Cell, grove: Grove, box: Path) -> None:
    check_gaps(document("scan", prefix=container(cell, box, bind_mount(cell, box)), status=3))


def test_container_without_any_cgroup_mount(cell: Cell, grove: Grove, box: Path) -> None:
    hide = "umount -l /sys/fs/cgroup || exit 99"
    answer = document("scan", prefix=container(cell, box, hide), status=3)
    assert answer["memcg"]["zombies"] is None
    assert answer["severity"] == "unknown"
