# SPDX-License-Identifier: Apache-2.0
"""3,000 cgroups a second: what the BPF ledger loses and what the agent costs, beside a stream through tracefs. Needs root.

Targets over 60 seconds: zero events lost, at most 1 % of a core. Usage: bench_ledger.py [SECONDS] [RATE]; 10 seconds without.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.kernel.zombie_maker import HIERARCHY
from tests.server.running import free_port, wait_for

TICKS = os.sysconf("SC_CLK_TCK")
_libc = ctypes.CDLL(None)
_AT_REMOVEDIR = 0x200
GENERATORS = 2
REACHED = 0.99


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def churn(top: bytes, rate: float, seconds: float) -> tuple[int, float]:
    """By processes of their own: as many as were made, and how long it took. Whoever falls behind makes up for it."""
    begun = time.monotonic()
    pipes = []
    for number in range(GENERATORS):
        reading, writing = os.pipe()
        if os.fork() == 0:
            try:
                made = _make_and_remove(top, b"g%dc" % number, rate / GENERATORS, begun + seconds)
                os.write(writing, b"%d" % made)
            finally:
                os._exit(0)
        os.close(writing)
        pipes.append(reading)
    made = 0
    for reading in pipes:
        with os.fdopen(reading, "rb") as answer:
            made += int(answer.read() or b"0")
    took = time.monotonic() - begun
    for _ in pipes:
        os.wait()
    return made, took


def _make_and_remove(top: bytes, stem: bytes, rate: float, until: float) -> int:
    """Plain mkdirat and unlinkat, beside the open directory."""
    folder = os.open(top, os.O_PATH | os.O_DIRECTORY)
    begun, made = time.monotonic(), 0
    while (now := time.monotonic()) < until:
        due = int((now - begun) * rate) - made
        if due <= 0:
            time.sleep(0.001)
        for _ in range(min(due, 100)):
            name = b"%s%d" % (stem, made)
            if _libc.mkdirat(folder, name, 0o755) or _libc.unlinkat(folder, name, _AT_REMOVEDIR):
                raise RuntimeError("a cgroup could not be made or removed")
            made += 1
    return made


def measure(events: str, rate: float, seconds: float) -> None:
    top = HIERARCHY / f"zombiescope-bench-{os.getpid()}-{events}"
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "a.toml"
        config.write_text(f'[agent]\nevents = "{events}"\ninterval_seconds = 5\n')
        arguments = ["--listen", f"127.0.0.1:{port}", "--state", folder, "--config", str(config)]
        agent = subprocess.Popen([sys.executable, "-m", "zombiescope", "agent", *arguments], stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: ledger(port), 30)
            time.sleep(8)  # past the walk and the first heavy look
            top.mkdir()
            before, begun = cpu_seconds(agent.pid), time.monotonic()
            made, took = churn(os.fsencode(top), rate, seconds)
            share = 100 * (cpu_seconds(agent.pid) - before) / (time.monotonic() - begun)
            time.sleep(7)
            found = ledger(port)
            mine = [each for each in found["makers"] if f"-{events}/" in each["maker"]]
        finally:
            agent.terminate()
            agent.wait()
            top.rmdir()
    births, deaths, releases = (sum(each[kind] or 0 for each in mine) for kind in ("births", "deaths", "releases"))
    pace = f"{made / took:7,.0f} a second for {took:.0f} s"
    if made / took < REACHED * rate:
        pace += f" (this machine did not reach {rate:,.0f})"
    print(
        f"{events:<8} {pace}: made {made:,}, seen {births:,}/{deaths:,}/{releases:,}, "
        f"missing {3 * made - births - deaths - releases:,}, said lost {found['lost']:,}; agent {share:.2f} % of a core"
    )


def ledger(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/ledger", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    rate = float(sys.argv[2]) if len(sys.argv) > 2 else 3000.0
    for events in ("bpf", "tracefs"):
        measure(events, rate, seconds)


if __name__ == "__main__":
    main()
