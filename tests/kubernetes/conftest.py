# SPDX-License-Identifier: Apache-2.0
"""One cluster for all tests of this tier. Where there is none that is a skip, and a failure where the tier is required."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.kubernetes import leaving
from tests.kubernetes.build import PROGRAM
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.machine_cluster import MachineCluster
from tests.vm.build import say
from tools.image.__main__ import write_image

IS_REQUIRED = "kubernetes" in os.environ.get("ZOMBIESCOPE_REQUIRE", "")
BUILT = ["x86_64", *(["aarch64"] if PROGRAM.with_name("zombiescope-aarch64").exists() else [])]
"""Both platforms where `make image` built them; CI builds one."""

FIRST = "test_clearing.py"
LAST = {"test_foretold.py": 1, "test_story.py": 2}


def asks_a_cluster(item: pytest.Item) -> bool:
    """Of this machine: by a fixture, or as a parameter of the story."""
    call = getattr(item, "callspec", None)
    return "cluster" in getattr(item, "fixturenames", ()) or (call is not None and "cluster" in call.params.values())


def refuse(why: str) -> None:
    (pytest.fail if IS_REQUIRED else pytest.skip)(why)


@pytest.fixture(scope="session")
def own_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PROGRAM.exists():
        refuse(f"{PROGRAM} is not built: make onefile-x86_64")
    target = tmp_path_factory.mktemp("image") / "zombiescope-image.tar"
    write_image(PROGRAM.parent, target, BUILT)
    return target


@pytest.fixture(scope="session")
def starting(request: pytest.FixtureRequest) -> Iterator[Future[Cluster] | None]:
    """A cluster's start is mostly waiting: it begins before the tests that need none, and in it what a later test waits for."""
    asking = [item for item in request.session.items if asks_a_cluster(item)]
    if not asking or os.geteuid() != 0:
        yield None
        return
    image = request.getfixturevalue("own_image")
    with ThreadPoolExecutor(1) as beside:
        begun = beside.submit(
            started_with,
            [image],
            leaving.begin if any("leaving" in getattr(item, "fixturenames", ()) for item in asking) else None,
        )
        yield begun
        if not begun.exception():
            begun.result().stop()


def started_with(images: list[Path], begin: Callable[[Cluster], None] | None) -> Cluster:
    cluster = Cluster.started(images)
    try:
        if begin:
            begin(cluster)
    except BaseException:
        cluster.stop()
        raise
    return cluster


@pytest.fixture(autouse=True)
def begun(request: pytest.FixtureRequest) -> None:
    if request.path.name != FIRST:
        request.getfixturevalue("starting")


@pytest.fixture(scope="session")
def cluster(starting: Future[Cluster] | None) -> Cluster:
    if starting is None:
        refuse("a node needs root")
    assert starting
    return starting.result()


@pytest.fixture(scope="session")
def machine_cluster(own_image: Path) -> Iterator[MachineCluster]:
    with MachineCluster.started([own_image]) as started:
        yield started
    assert started.outcome
    say(f"kubernetes: node of the machine ready after {started.seconds_to_ready} s; in all {started.outcome.cost()}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a killed cluster leaves can be seen only while there is no other; what asks no cluster runs while one starts; and what
    waits for a loop comes late."""
    items.sort(key=lambda item: (item.path.name != FIRST, asks_a_cluster(item), LAST.get(item.path.name, 0)))
