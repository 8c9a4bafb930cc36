# SPDX-License-Identifier: Apache-2.0
"""What each command costs at the size of the incident: wall, CPU and peak memory for each zombie at two sizes, their ratio; and
what each document of the agent's page costs: bytes, wall and CPU. Root.

Zombies of one page in tmpfs each, made and removed here; the machine's others are counted too, so the counts must be at least ours.
Targets: every command answers, with all of ours in its count; what a zombie costs does not grow with their number (ratio at most
1.5); at most 1.5 GB of memory at 65,000; a document of the page has at most 2 MB and takes at most a second of CPU at any size.
Usage: bench_incident_size.py [SMALL LARGE]: 16,000 and 65,000 without arguments. Some 100 KB of memory go into each zombie.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.kernel.zombie_maker import Maker
from tests.server.running import free_port

SIZES = (16_000, 65_000)
MOST_RATIO, MOST_MEGABYTES = 1.5, 1_500.0
MOST_PAGE_BYTES, MOST_PAGE_CPU = 2_000_000, 1.0
PAGES = ("scan", "doctor", "ledger", "history", "config")
BYTES_EACH = 100_000
WALK_SECONDS = 180.0
WINDOW_SECONDS = 2
PROGRAM = (sys.executable, "-m", "zombiescope")


class Cost(NamedTuple):
    zombies: int | None
    wall: float
    cpu: float
    megabytes: float


class Page(NamedTuple):
    size: int
    wall: float
    cpu: float
    """Of the agent and of its children that ended."""


COMMANDS: dict[str, tuple[tuple[str, ...], Callable[[Any], int | None]]] = {
    "scan": (("scan",), lambda answer: answer["memcg"]["zombies"]),
    "autopsy": (("autopsy",), lambda answer: answer["totals"]["zombies"]),
    "doctor": (("doctor", "--seconds", str(WINDOW_SECONDS)), lambda answer: _evidence(answer, "zombies")),
    "plan": (("plan", "--seconds", str(WINDOW_SECONDS)), lambda answer: answer["zombies"]),
}


def _evidence(answer: Any, fact: str) -> int | None:
    found = next(each for each in answer["findings"] if each["id"] == "zombie-population")
    values = [item["value"] for item in found["evidence"] if item["fact"].endswith(fact)]
    return int(values[0]) if values else None


def waited(process: subprocess.Popen[bytes]) -> tuple[int, resource.struct_rusage]:
    """Of the process and of its children that ended."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage


def asked(name: str) -> Cost:
    words, count = COMMANDS[name]
    with tempfile.TemporaryFile() as out:
        began = time.monotonic()
        process = subprocess.Popen([*PROGRAM, *words, "--json"], stdout=out)
        code, usage = waited(process)
        wall = time.monotonic() - began
        out.seek(0)
        said = out.read()
    if code not in (0, 1):
        raise SystemExit(f"{name} ended with {code}")
    return Cost(count(json.loads(said)), wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def agent(ours: int) -> tuple[Cost, dict[str, Page]]:
    """Until it has walked once and tells as many as there are by maker; then each document of its page, once."""
    port, began = free_port(), time.monotonic()
    with tempfile.TemporaryDirectory() as state:
        command = [*PROGRAM, "agent", "--listen", f"127.0.0.1:{port}", "--state", state]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        told = 0
        try:
            while told < ours and time.monotonic() - began < WALK_SECONDS:
                time.sleep(0.5)
                with suppress(OSError):
                    told = _by_maker(port)
            wall = time.monotonic() - began
            pages = {name: page(port, process.pid, name) for name in PAGES}
        finally:
            process.send_signal(signal.SIGTERM)
            _, usage = waited(process)
    return Cost(told, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), pages


def page(port: int, pid: int, name: str) -> Page:
    cpu, began = _cpu(pid), time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{name}", timeout=60) as answer:
        said = answer.read()
    wall = time.monotonic() - began
    json.loads(said)
    return Page(len(said), wall, _cpu(pid) - cpu)


def _cpu(pid: int) -> float:
    """In ticks of the clock: a hundredth of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _by_maker(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = [line.decode() for line in answer]
    return int(
        sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("zombiescope_memcg_maker_zombies{"))
    )


def measured(size: int) -> tuple[dict[str, Cost], dict[str, Page]]:
    with Maker(f"zombiescope-size-{os.getpid()}-{size}") as maker:
        began = time.monotonic()
        maker.many(size)
        print(f"{size:,} zombies made in {time.monotonic() - began:.0f} s", flush=True)
        found: dict[str, Cost] = {}
        pages: dict[str, Page] = {}
        for name in (*COMMANDS, "agent"):
            if name == "agent":
                cost, pages = agent(size)
            else:
                cost = asked(name)
            found[name] = cost
            whole = f"{cost.wall:8.2f} s wall {cost.cpu:8.2f} s CPU {cost.megabytes:8.1f} MB"
            each = [1e6 * cost.wall / size, 1e6 * cost.cpu / size, 1e3 * cost.megabytes / size]
            parts = "{:7.1f} us wall {:7.1f} us CPU {:6.2f} KB".format(*each)
            print(f"  {name:<9}{_count(cost.zombies):>9} counted {whole}   each: {parts}", flush=True)
        for name, each_page in pages.items():
            told = f"{each_page.size:>11,} bytes {each_page.wall:6.3f} s wall {each_page.cpu:6.2f} s CPU"
            print(f"  /api/v1/{name:<9}{told}", flush=True)
    return found, pages


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def wrong(small: int, large: int, costs: dict[int, dict[str, Cost]]) -> int:
    """How many targets were missed."""
    missed = 0
    for name, there in costs[large].items():
        here = costs[small][name]
        cpu, memory = ((getattr(there, what) / large) / (getattr(here, what) / small) for what in ("cpu", "megabytes"))
        counted = all(
            cost.zombies is not None and cost.zombies >= size for size, cost in ((small, here), (large, there))
        )
        is_met = counted and cpu <= MOST_RATIO and there.megabytes <= MOST_MEGABYTES
        missed += not is_met
        print(
            f"{name:<9} ours CPU of each, {large:,} to {small:,}: {cpu:5.2f}; memory {memory:5.2f}; "
            f"target {MOST_RATIO}, {MOST_MEGABYTES:,.0f} MB, all counted: {'met' if is_met else 'NOT met'}"
        )
    return missed


def heavy(pages: dict[str, Page]) -> int:
    """How many documents are above their target."""
    above = [name for name, each in pages.items() if each.size > MOST_PAGE_BYTES or each.cpu > MOST_PAGE_CPU]
    for name in above:
        print(f"/api/v1/{name}: target {MOST_PAGE_BYTES:,} bytes, {MOST_PAGE_CPU} s CPU: NOT met")
    return len(above)


def main() -> None:
    small, large = (int(word.replace(",", "")) for word in sys.argv[1:3]) if len(sys.argv) > 2 else SIZES
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    if free < 2 * large * BYTES_EACH:
        raise SystemExit(
            f"{free / 1e9:.1f} GB are available; {large:,} zombies want {2 * large * BYTES_EACH / 1e9:.1f}"
        )
    found = {size: measured(size) for size in (small, large)}
    missed = wrong(small, large, {size: costs for size, (costs, _) in found.items()})
    missed += sum(heavy(pages) for _, pages in found.values())
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
