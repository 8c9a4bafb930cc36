# SPDX-License-Identifier: Apache-2.0
"""Five real minutes of one agent with its usual settings, beside whatever else runs: churn that must not be called growth, and a
leak of six a minute that must be, by its maker.

`python -m tests.server.calm begin` starts it in the background and returns; what came of it is in build/calm/outcome.json, for
`test_calm.py`. A session that begins it early and asks late pays only for the rest of the five minutes.
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

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "calm"
OUTCOME, PROCESS = FOLDER / "outcome.json", FOLDER / "process"
SECONDS = 300.0
_FRESH_SECONDS = 3600.0
MAKER = "leaky-beside-churn"


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
                each.wait(60)
            lab("clean", "--name", run).wait(60)
    return {
        "seconds": watched,
        "looks": looks,
        "verdicts": sorted(verdicts),
        "false_alarms": sorted(set(false_alarms)),
        "churned": sum(each["births"] for each in busy),
        "named_after": named_after,
        "at": time.time(),
    }


def is_running() -> bool:
    try:
        process = int(PROCESS.read_text(encoding="ascii"))
        return b"tests.server.calm" in Path(f"/proc/{process}/cmdline").read_bytes()
    except (OSError, ValueError):
        return False


def begin() -> None:
    if is_running() or os.geteuid() != 0:
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    OUTCOME.unlink(missing_ok=True)
    with open(FOLDER / "log", "wb") as log:
        command = [sys.executable, "-m", "tests.server.calm", "watch"]
        started = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    PROCESS.write_text(str(started.pid), encoding="ascii")


def outcome() -> dict[str, Any]:
    """That of a watch in the last hour, of the one that runs, or of one that begins now."""
    if not is_running() and not (OUTCOME.exists() and time.time() - OUTCOME.stat().st_mtime < _FRESH_SECONDS):
        begin()
    end = time.monotonic() + SECONDS + 120
    while is_running() and time.monotonic() < end:
        time.sleep(1)
    log = FOLDER / "log"
    assert OUTCOME.exists(), log.read_text(encoding="utf-8") if log.exists() else "it never began"
    found: dict[str, Any] = json.loads(OUTCOME.read_text(encoding="utf-8"))
    return found


def main() -> None:
    if sys.argv[1:] == ["begin"]:
        begin()
        return
    found = watch()
    beside = OUTCOME.with_suffix(".new")
    beside.write_text(json.dumps(found, indent=1), encoding="utf-8")
    beside.rename(OUTCOME)


if __name__ == "__main__":
    main()
