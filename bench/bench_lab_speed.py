# SPDX-License-Identifier: Apache-2.0
"""How fast the lab makes and removes 20,000 tmpfs zombies; the budget is 60 s for making them."""

from __future__ import annotations

import sys
import time

from zombiescope.lab import runs

COUNT = 20_000
BUDGET_SECONDS = 60.0


def main() -> int:
    run = runs.begin(None)
    with runs.guarded(run):
        truth = runs.make_zombies(run, "tmpfs", COUNT, lambda _: None)
    run.end()
    start = time.monotonic()
    (cleaned_run,), _ = runs.clean(run.name)
    left = cleaned_run.left
    cleaned = time.monotonic() - start
    rate = len(truth.made) / truth.seconds
    print(
        f"{len(truth.made):,} tmpfs zombies made in {truth.seconds:.2f} s ({rate:,.0f}/s), removed in {cleaned:.2f} s"
    )
    print(f"budget {BUDGET_SECONDS:.0f} s: {truth.seconds / BUDGET_SECONDS:.0%} used; left: {left or 'nothing'}")
    return 0 if truth.seconds <= BUDGET_SECONDS and not left else 1


if __name__ == "__main__":
    sys.exit(main())
