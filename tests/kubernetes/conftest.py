# SPDX-License-Identifier: Apache-2.0
"""One cluster for all tests of this tier. Where there is none that is a skip, and a failure where the tier is required."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.build import PROGRAM
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.machine_cluster import MachineCluster
from tests.vm.build import say
from tools.image.__main__ import write_image

IS_REQUIRED = "kubernetes" in os.environ.get("ZOMBIESCOPE_REQUIRE", "")
BUILT = ["x86_64", *(["aarch64"] if PROGRAM.with_name("zombiescope-aarch64").exists() else [])]
"""Both platforms where `make image` built them; CI builds one."""


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
def cluster(own_image: Path) -> Iterator[Cluster]:
    if os.geteuid() != 0:
        refuse("a node needs root")
    with Cluster.started([own_image]) as started:
        yield started


@pytest.fixture(scope="session")
def machine_cluster(own_image: Path) -> Iterator[MachineCluster]:
    with MachineCluster.started([own_image]) as started:
        yield started
    assert started.outcome
    say(f"kubernetes: node of the machine ready after {started.seconds_to_ready} s; in all {started.outcome.cost()}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a killed cluster leaves can be seen only while there is no other."""
    items.sort(key=lambda item: item.path.name != "test_clearing.py")
