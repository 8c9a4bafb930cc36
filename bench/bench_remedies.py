# SPDX-License-Identifier: Apache-2.0
"""Predicted against actual zombies freed, on real lab zombies of every kind that a step of ours frees. Root.

    .venv/bin/python -m bench.bench_remedies [COUNT]

Target: within 10 % for page cache, tmpfs and SysV segments; elsewhere within 10 % or said to be unknown.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from typing import Any

TARGET = 0.1
KINDS = {"page-cache": True, "tmpfs": True, "sysv-shm": True, "dirty-file": False, "mapped-file": False}
"""Whether a number is owed."""


def ask(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "zombiescope", *words, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(kind: str, count: int, state: str) -> tuple[int, int | None, int, int]:
    """Zombies in the plan, predicted (None: said to be unknown), at most, actual."""
    name = f"bench-remedies-{kind}"
    ask("lab", "zombies", "--pin", kind, "--count", str(count), "--name", name)
    try:
        scope = ("--below", f"/zombiescope-lab/{name}", "--seconds", "0")
        names = [step["name"] for step in ask("plan", *scope)["steps"] if not step["instead_of"]]
        consents = [word for each in names for word in ("--consent", each)]
        done = ask("apply", *scope, "--yes", "--again", "--window", "0", "--state", state, *consents)
    finally:
        ask("lab", "clean", "--name", name)
    expected = [step["expected"] for step in done["steps"] if step["expected"] and not step["instead_of"]]
    known = [each["zombies_freed"] for each in expected]
    predicted = None if None in known else sum(known)
    actual = sum(step["freed"]["zombies"] or 0 for step in done["steps"])
    return len(names), predicted, sum(each["up_to"] for each in expected), actual


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    failed = 0
    print(f"{'kind':<14}{'predicted':>10}{'at most':>9}{'actual':>8}{'error':>8}{'target':>8}")
    with tempfile.TemporaryDirectory() as state:
        for kind, is_owed in KINDS.items():
            _, predicted, most, actual = measure(kind, count, state)
            error = None if predicted is None else abs(predicted - actual) / max(predicted, 1)
            bad = (predicted is None and is_owed) or (error is not None and error > TARGET) or actual > most
            failed += bad
            shown = "unknown" if predicted is None else str(predicted)
            told = "-" if error is None else f"{error:.1%}"
            print(f"{kind:<14}{shown:>10}{most:>9}{actual:>8}{told:>8}{TARGET:>8.0%}{'   MISSED' if bad else ''}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"CPU {used.ru_utime + used.ru_stime:.1f} s for {len(KINDS)} kinds of {count}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
