# SPDX-License-Identifier: Apache-2.0
"""The running kernel, as root. A host that cannot do it skips with the reason; ZOMBIESCOPE_REQUIRE=kernel makes that a failure."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.kernel.disturbance import Disturbance
from tests.kernel.lab_driver import LabDriver
from tests.kernel.witness import Witness
from tests.run_again import run_and_again

from zombiescope.errors import ZombiescopeError
from zombiescope.lab.hierarchy import MemoryHierarchy, find_hierarchy


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """With the cause where somebody else is known to have had a hand in it."""
    return run_and_again(item, nextitem, Disturbance().cause)


def not_here(reason: str) -> None:
    if "kernel" in os.environ.get("ZOMBIESCOPE_REQUIRE", "").split(","):
        pytest.fail(f"required, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def hierarchy() -> MemoryHierarchy:
    if os.geteuid() != 0:
        not_here("these tests need root")
    try:
        return find_hierarchy()
    except ZombiescopeError as error:
        not_here(error.why)
        raise AssertionError from error


@pytest.fixture(scope="session")
def witness(hierarchy: MemoryHierarchy) -> Iterator[Witness]:
    try:
        watching = Witness(hierarchy)
    except OSError as error:
        not_here(f"the cgroup events cannot be followed: {error}")
        raise
    try:
        yield watching
    finally:
        watching.close()


@pytest.fixture
def lab(hierarchy: MemoryHierarchy) -> Iterator[LabDriver]:
    driver = LabDriver(hierarchy)
    try:
        yield driver
    finally:
        driver.clean_all()
