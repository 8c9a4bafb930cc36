# SPDX-License-Identifier: Apache-2.0
"""What each tier took, against the time CI has for it, and which tests had to be run again: the last words of `make test`.

A tier over its budget is said to be, and fails nothing: a machine may be slow. Tests that are run again write their name to
build/retried, one per line (tests/run_again.py, tests/vm/test_matrix.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

RETRIED = Path("build/retried")
MACHINES = "machines and beside"
INSTALLS = "installs"
BUDGET_MINUTES = {
    INSTALLS: 3,
    MACHINES: 21,
    "test-kernel": 8,
    "test-hostile": 3,
    "test-browser": 4,
    "test-server": 4,
    "test-onefile-short": 2,
    "test-guides": 2,
    "test-kubernetes": 5,
}


class Tier(NamedTuple):
    name: str
    seconds: float
    is_part: bool = False
    """Of the line above it, whose time is the budget's."""


def rows(tiers: Sequence[Tier]) -> Iterator[str]:
    width = max(len("tier"), *(len(tier.name) + 2 * tier.is_part for tier in tiers))
    yield f"{'tier':<{width}}  seconds  budget"
    for tier in tiers:
        minutes = None if tier.is_part else BUDGET_MINUTES.get(tier.name)
        budget = "" if minutes is None else f"{60 * minutes:>6}"
        over = "  over" if minutes is not None and tier.seconds > 60 * minutes else ""
        name = "  " * tier.is_part + tier.name
        yield f"{name:<{width}}  {tier.seconds:>7.0f}  {budget}{over}".rstrip()
    counted = [tier for tier in tiers if not tier.is_part]
    allowed = 60 * sum(BUDGET_MINUTES.get(tier.name, 0) for tier in counted)
    yield f"{'in all':<{width}}  {sum(tier.seconds for tier in counted):>7.0f}  {allowed:>6}"


def forget_retries() -> None:
    RETRIED.unlink(missing_ok=True)


def retries() -> Iterator[str]:
    names = RETRIED.read_text(encoding="utf-8").splitlines() if RETRIED.exists() else []
    yield f"retried: {len(names)}"
    yield from (f"  {name}" for name in names)
