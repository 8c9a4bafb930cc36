# SPDX-License-Identifier: Apache-2.0
"""How soon a leak of six a minute is named, and that churn without a leak is not: a real agent, the real kernel. Needs root.

Targets: `zombie-growth` with the right maker within 300 seconds; none in 300 seconds of churn. Usage: bench_growth.py [SECONDS]:
so long is churn watched alone before the leak begins beside it; 60 without an argument.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.server.running import PROGRAM, fetch, running_agent

RUN = f"bench-{os.getpid()}"
MAKER = "leaky-bench"


def lab(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, "lab", *arguments], stdout=subprocess.DEVNULL)


def leaking(address: str) -> tuple[str, list[str]]:
    """The verdict, and the makers in its evidence that are ours."""
    found: dict[str, Any] = json.loads(fetch(address + "/api/v1/doctor")[1])
    finding = next(each for each in found["findings"] if each["id"] == "zombie-growth")
    facts = [each["fact"] for each in finding["evidence"] if each["fact"].endswith(".grown")]
    return finding["verdict"], [fact for fact in facts if RUN in fact or MAKER in fact]


def main(churn_seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder, running_agent(Path(folder), "[agent]\n") as (address, _):
        busy = lab("churn", "--rate", "200", "--seconds", str(churn_seconds + 400), "--name", f"{RUN}-busy")
        leak = None
        try:
            begun, false_alarms, verdicts = time.monotonic(), 0, set()
            while time.monotonic() - begun < churn_seconds:
                verdict, ours = leaking(address)
                verdicts.add(verdict)
                false_alarms += bool(ours)
                time.sleep(5)
            print(
                f"churn of 200 a second for {churn_seconds:.0f} s: {false_alarms} false alarms (verdicts {sorted(verdicts)})"
            )
            leak = lab("leak", "--maker", MAKER, "--per-minute", "6", "--seconds", "400", "--name", RUN)
            begun, ours = time.monotonic(), []
            while not ours and time.monotonic() - begun < 400:
                time.sleep(2)
                _, ours = leaking(address)
            print(f"leak of 6 a minute named after {time.monotonic() - begun:.0f} s (at most 300): {ours}")
        finally:
            for each in (busy, leak):
                if each is not None:
                    each.send_signal(signal.SIGTERM)
                    each.wait()
            lab("clean", "--name", RUN).wait()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
