# SPDX-License-Identifier: Apache-2.0
"""What the agent costs with 20,000 zombies and 1,000 live cgroups, beside node_exporter scraped at the same pace. Needs root.

Targets over ten minutes: peak RSS (VmHWM) at most 40 MB, at most 0.3 % of a core, at most 120 series. Without an argument it
watches for 60 seconds, in which starting up weighs more; `600` is the whole measure. The short-lived children are in the CPU.
The agent's modules are compiled before, as pip does when it installs the package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kernel.zombie_maker import Maker
from tests.server.running import free_port

ZOMBIES, LIVE = 20_000, 1_000
PACE_SECONDS = 15.0
START_SECONDS = 30.0
COMPILE_SECONDS = 10.0
"""By then it has looked heavily and walked once."""
TICKS = os.sysconf("SC_CLK_TCK")


class Watched:
    def __init__(self, name: str, command: list[str], address: str, environment: dict[str, str] | None = None) -> None:
        self.name, self.address = name, address
        silent = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=silent, stderr=silent, env=environment)
        self.series = 0

    def scrape(self) -> None:
        with urllib.request.urlopen(self.address, timeout=30) as answer:
            self.series = sum(1 for line in answer if not line.startswith(b"#"))

    def cpu_seconds(self) -> float:
        """User and system, its children that ended included."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS

    def peak_megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def agent(port: int, state: Path, compiled: Path) -> Watched:
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "zombiescope", "agent", "--listen", f"127.0.0.1:{port}", "--state", str(state)]
    return Watched("agent", command, f"http://127.0.0.1:{port}/metrics", environment)


def compile_modules(folder: Path) -> None:
    """By a first run of it that is not measured."""
    first = agent(free_port(), folder / "first", folder / "compiled")
    try:
        time.sleep(COMPILE_SECONDS)
        first.scrape()
    finally:
        first.end()


@contextmanager
def crowd() -> Iterator[None]:
    with Maker(f"zombiescope-bench-{os.getpid()}") as maker:
        (maker.top / "live").mkdir()
        for number in range(LIVE):
            (maker.top / "live" / f"l{number}").mkdir()
        maker.many(ZOMBIES)
        yield


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name, crowd():
        folder = Path(name)
        compile_modules(folder)
        ours, other = free_port(), free_port()
        begun = time.monotonic()
        watched = [agent(ours, folder / "state", folder / "compiled")]
        if shutil.which("prometheus-node-exporter"):
            command = ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{other}"]
            watched.append(Watched("node_exporter", command, f"http://127.0.0.1:{other}/metrics"))
        try:
            time.sleep(5)
            settled: list[tuple[float, float]] = []
            while time.monotonic() - begun < seconds:
                for each in watched:
                    each.scrape()
                if not settled and time.monotonic() - begun >= START_SECONDS:
                    settled = [(time.monotonic(), each.cpu_seconds()) for each in watched]
                time.sleep(PACE_SECONDS)
            took = time.monotonic() - begun
            later = [
                100 * (each.cpu_seconds() - cpu) / (time.monotonic() - at)
                for each, (at, cpu) in zip(watched, settled, strict=False)
            ]
            figures = [(each.peak_megabytes(), 100 * each.cpu_seconds() / took, each.series) for each in watched]
        finally:
            for each in watched:
                each.end()
    print(f"{ZOMBIES:,} zombies, {LIVE:,} live, {took:.0f} s, a scrape every {PACE_SECONDS:.0f} s")
    for each, (peak, share, series) in zip(watched, figures, strict=True):
        print(f"{each.name:<14} peak {peak:5.1f} MB   {share:5.3f} % of a core   {series} series")
    for each, share in zip(watched, later, strict=False):
        print(f"{each.name:<14} after the first {START_SECONDS:.0f} s, starting up left out: {share:5.3f} % of a core")
    if len(figures) == 2:
        ratios = [mine / theirs for mine, theirs in zip(figures[0], figures[1], strict=True)]
        print(f"ours/other     peak {ratios[0]:5.2f}      cpu {ratios[1]:5.2f}              series {ratios[2]:4.2f}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
