# SPDX-License-Identifier: Apache-2.0
"""A test that asks a real machine and failed is run once more, aloud: `make test` ends with the names of all of them.

Only where the machine has a hand in it: tests that start processes, listen, or look at the kernel, a browser, a server
or a cluster.
What is pure fails at once, so does a law by hypothesis (its next examples are others), and so does an attack that won.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parents[1]
RETRIED = ROOT / "build" / "retried"
REAL_TIERS = frozenset(
    (
        "browser",
        "gate",
        "guides",
        "kernel",
        "kubernetes",
        "onefile",
        "packages",
        "recorder",
        "release",
        "server",
        "strange",
    )
)
MIXED_TIERS = frozenset(("house", "profiler", "unit"))
_REAL = ("multiprocessing", "signal", "socket", "subprocess", "threading")
"""A module of the mixed tiers that imports one of these asks the machine."""


def asks_the_machine(item: pytest.Item) -> bool:
    place = item.path.relative_to(ROOT / "tests") if item.path.is_relative_to(ROOT / "tests") else Path()
    tier = place.parts[0] if place.parts else ""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return False
    return tier in REAL_TIERS or (tier in MIXED_TIERS and any(name in vars(item.module) for name in _REAL))  # type: ignore[attr-defined]


def run_and_again(item: pytest.Item, nextitem: pytest.Item | None, cause: Callable[[], str]) -> bool:
    """As pytest runs it; a second time after a failure. What happened is told by the last run."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        said = next(report.longreprtext for report in reports if report.failed)
        warnings.warn(
            f"{item.nodeid} failed and was run again; {cause() or 'no cause is known'}: {said[-300:]}", stacklevel=1
        )
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
