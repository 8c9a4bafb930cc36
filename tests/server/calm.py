# SPDX-License-Identifier: Apache-2.0
"""Five real minutes of one agent with its usual settings, beside whatever else runs: churn that must not be called growth, and a
leak of six a minute that must be, by its maker.

What came of it is kept for an hour in build/calm/outcome.json: `make test` watches beside other tiers (`make test-calm`), and the
server tier, later in the same run, reads what was seen.
"""

from __future__ import annotations

import json
import os
import random
import signal
import string
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.server.running import PATIENCE_SECONDS, PROGRAM, fetch, running_agent

ROOT = Path(__file__).resolve().parents[2]
OUTCOME = ROOT / "build" / "calm" / "outcome.json"
SECONDS = 300.0
_FRESH_SECONDS = 3600.0
MAKER = "leaky-beside-churn-" + "".join(random.SystemRandom().choices(string.ascii_lowercase, k=6))
"""Letters of its own: numbers are folded in a maker's name, and what another watch leaves or cleans up is not ours."""


def lab(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, "lab", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def named(address: str) -> tuple[str, list[str]]:
    """The verdict on growth, and the makers it names."""
    document: dict[str, Any] = json.loads(fetch(address + "/api/v1/doctor")[1])
    finding = next(each for each in document["findings"] if each["id"] == "zombie-growth")
    facts = [each["fact"] for each in finding["evidence"] if each["fact"].endswith(".grown")]
    return finding["verdict"], [fact.removeprefix("maker[").removesuffix("].grown") for fact in facts]


def is_busy(maker: str) -> bool:
    """That of the churn; numbers are folded in a maker's name."""
    return "/calm-" in maker and "-busy" in maker


def watch(seconds: float = SECONDS) -> dict[str, Any]:
    run = f"calm-{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder, running_agent(Path(folder), "[agent]\n") as (address, _):
        orders = (
            ("churn", "--rate", "50", "--seconds", str(seconds + 60), "--name", f"{run}-busy"),
            ("leak", "--maker", MAKER, "--per-minute", "6", "--seconds", str(seconds + 60), "--name", run),
        )
        makers, begun = [lab(*order) for order in orders], time.monotonic()
        named_after, false_alarms, verdicts, looks = None, list[str](), set[str](), 0
        try:
            while (passed := time.monotonic() - begun) < seconds:
                verdict, found = named(address)
                looks += 1
                verdicts.add(verdict)
                false_alarms += [maker for maker in found if is_busy(maker)]
                if named_after is None and any(MAKER in maker for maker in found):
                    named_after = passed
                time.sleep(5)
            watched = time.monotonic() - begun
            ledger = json.loads(fetch(address + "/api/v1/ledger")[1])
            busy = [each for each in ledger["makers"] if is_busy(each["maker"])]
        finally:
            for each in makers:
                each.send_signal(signal.SIGTERM)
                each.wait(PATIENCE_SECONDS)
            lab("clean", "--name", run).wait(PATIENCE_SECONDS)
    return {
        "seconds": watched,
        "looks": looks,
        "verdicts": sorted(verdicts),
        "false_alarms": sorted(set(false_alarms)),
        "churned": sum(each["births"] for each in busy),
        "named_after": named_after,
        "at": time.time(),
    }


def outcome() -> dict[str, Any]:
    """That of a watch in the last hour, or of one that is made now."""
    if OUTCOME.exists() and time.time() - OUTCOME.stat().st_mtime < _FRESH_SECONDS:
        found: dict[str, Any] = json.loads(OUTCOME.read_text(encoding="utf-8"))
        return found
    found = watch()
    OUTCOME.parent.mkdir(parents=True, exist_ok=True)
    beside = OUTCOME.with_suffix(".new")
    beside.write_text(json.dumps(found, indent=1), encoding="utf-8")
    beside.rename(OUTCOME)
    return found
