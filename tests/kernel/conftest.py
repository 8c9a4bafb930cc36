# SPDX-License-Identifier: Apache-2.0
"""The running kernel, as root. A host that cannot do it skips with the reason; ZOMBIESCOPE_REQUIRE=kernel makes that a failure."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from tests.kernel.disturbance import Disturbance
from tests.kernel.lab_driver import LabDriver
from tests.kernel.witness import Witness

from zombiescope.errors import ZombiescopeError
from zombiescope.lab.hierarchy import MemoryHierarchy, find_hierarchy

RETRIED = Path(__file__).resolve().parents[2] / "build" / "retried"


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """A test that failed is run once more, and said so, with the cause where somebody else is known to have had a hand in it."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    disturbance = Disturbance()
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        cause = disturbance.cause() or "no cause is known"
        said = next(report.longreprtext for report in reports if report.failed)
        warnings.warn(f"{item.nodeid} failed and was run again; {cause}: {said[-300:]}", stacklevel=1)
        note_retry(item.nodeid)
        item._initrequest()  # type: ignore[attr-defined]
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def note_retry(name: str) -> None:
    """For the last words of `make test` (tools/tier_times.py)."""
    with suppress(OSError):  # inside a machine of the matrix there may be no such place
        RETRIED.parent.mkdir(exist_ok=True)
        with RETRIED.open("a", encoding="utf-8") as file:
            file.write(name + "\n")


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
