# SPDX-License-Identifier: Apache-2.0
"""This tree beside an earlier one, in one run: bench_house.py [REVISION [SECONDS [ROUNDS]]]; HEAD by default. Needs root.

CPU seconds of whole commands, taking turns, the least of all rounds: `--version`, `scan` of this host, and `scan` and
`doctor` of a recorded machine. Then both agents watch the same zombies at the same time, scraped at one pace: their peak
memory, and their share of a core after the start. Modules of both are compiled before, as pip does.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from bench.bench_agent import COMPILE_SECONDS, START_SECONDS, Watched
from bench.bench_onefile import once
from tests.kernel.zombie_maker import Maker
from tests.server.running import free_port

TOP = Path(__file__).resolve().parents[1]
MACHINE = TOP / "tests/machines/6.1-v2"
COMMANDS = {
    "--version": ["--version"],
    "scan of this host": ["scan", "--json", "--no-bytes"],
    **{name: [name, "--json", "--root", str(MACHINE)] for name in ("scan", "doctor")},
}
ZOMBIES, LIVE = 5_000, 300
PACE_SECONDS = 15.0


def unpacked(revision: str, folder: Path) -> Path:
    packed = subprocess.run(["git", "-C", str(TOP), "archive", revision, "src"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def surroundings(source: Path, compiled: Path) -> dict[str, str]:
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def of_commands(trees: dict[str, dict[str, str]], rounds: int) -> None:
    for title, words in COMMANDS.items():
        best: dict[str, float] = {}
        for _ in range(rounds + 1):  # the first compiles
            for name, environment in trees.items():
                given = [f"{key}={environment[key]}" for key in ("PYTHONPATH", "PYTHONPYCACHEPREFIX")]
                command = ["env", "-u", "PYTHONDONTWRITEBYTECODE", *given, sys.executable, "-m", "zombiescope", *words]
                spent = once(command)
                best[name] = min(spent.cpu, best.get(name, spent.cpu))
        old, new = best.values()
        print(f"{title:<18} {old:8.3f} {new:8.3f} {new / old:7.3f}   CPU s")


def agent(name: str, environment: dict[str, str], state: Path) -> Watched:
    port = free_port()
    command = [sys.executable, "-m", "zombiescope", "agent", "--listen", f"127.0.0.1:{port}", "--state", str(state)]
    return Watched(name, command, f"http://127.0.0.1:{port}/metrics", environment)


def of_agents(trees: dict[str, dict[str, str]], seconds: float, folder: Path) -> None:
    def begun(what: str) -> list[Watched]:
        return [agent(name, environment, folder / f"{what}-{name}") for name, environment in trees.items()]

    with Maker(f"zombiescope-bench-{os.getpid()}") as maker:
        (maker.top / "live").mkdir()
        for number in range(LIVE):
            (maker.top / "live" / f"l{number}").mkdir()
        maker.many(ZOMBIES)
        compiling = begun("compiled")
        time.sleep(COMPILE_SECONDS)
        for each in compiling:
            each.scrape()
            each.end()
        both = begun("state")
        try:
            time.sleep(START_SECONDS)
            before = [each.cpu_seconds() for each in both]
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                for each in both:
                    each.scrape()
                time.sleep(PACE_SECONDS)
            took = time.monotonic() - began
            shares = [100 * (each.cpu_seconds() - cpu) / took for each, cpu in zip(both, before, strict=True)]
            peaks = [each.peak_megabytes() for each in both]
        finally:
            for each in both:
                each.end()
    for title, (old, new), unit in (("agent, peak", peaks, "MB"), (f"agent, {took:.0f} s", shares, "% of a core")):
        print(f"{title:<18} {old:8.3f} {new:8.3f} {new / old:7.3f}   {unit}")


def main(revision: str, seconds: float, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trees = {
            "old": surroundings(unpacked(revision, folder / "old"), folder / "compiled-old"),
            "new": surroundings(TOP / "src", folder / "compiled-new"),
        }
        print(f"{'':<18} {revision[:8]:>8} {'here':>8} {'ratio':>7}")
        of_commands(trees, rounds)
        of_agents(trees, seconds, folder)


if __name__ == "__main__":
    asked = [*sys.argv[1:], *("HEAD", "300", "20")[len(sys.argv) - 1 :]]
    main(asked[0], float(asked[1]), int(asked[2]))
