# SPDX-License-Identifier: Apache-2.0
"""Our import beside FlameScope on one capture, in CPU seconds of whole processes: flamescope.py CHECKOUT [perf.data [kallsyms]].

CHECKOUT is a clone of FlameScope (github.com/Netflix/flamescope); its functions are called without its server, which saves it that
start. It reads the text of `perf script`, which is made by its quickest way that it understands, and counted. Ours is the command
as it is installed, from its start to the stored capture, which answers heat map and flame graph of any range in milliseconds.
Without a file, the whole machine is recorded for 40 s at 4,999 Hz as it is: 392,000 shallow samples on two cores. Root, perf.
Taking turns; the least of each. Aim: 20 times for a heat map, 45 for a flame graph.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS, SECONDS, RATE = 5, 40, 4999
HEAT = "from app.perf.heatmap import perf_read_offsets as ask; ask({!r})"
FLAME = "from app.perf.flame_graph import perf_generate_flame_graph as ask; ask({!r})"
INSIDE = "from app import config; config.PROFILE_DIR = '/'; "


def record(folder: Path) -> tuple[Path, Path]:
    file, symbols = folder / "perf.data", folder / "kallsyms"
    symbols.write_bytes(Path("/proc/kallsyms").read_bytes())
    words = ["perf", "record", "-q", "-F", str(RATE), "-a", "-g", "-e", "cpu-clock", "-k", "CLOCK_MONOTONIC"]
    words += ["--buildid-mmap", "--no-bpf-event", "-m", "1024", "-o", str(file), "--", "sleep", str(SECONDS)]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    return file, symbols


def spent(command: list[str], folder: str | None = None, output: Path | None = None) -> float:
    """CPU seconds of one process. As installed: modules are compiled once, not in every process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with (output or Path(os.devnull)).open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, cwd=folder, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return usage.ru_utime + usage.ru_stime


def compare(checkout: str, file: Path, symbols: Path, folder: Path) -> None:
    text = folder / "perf.txt"
    ours = [sys.executable, "-m", "zombiescope", "profile", "import", str(file), "--kallsyms", str(symbols)]
    ours += ["--output", str(folder)]
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        turn = {
            "perf script": spent(["perf", "script", "-i", str(file), "--kallsyms", str(symbols)], output=text),
            "heat map": spent([sys.executable, "-c", INSIDE + HEAT.format(str(text))], checkout),
            "flame graph": spent([sys.executable, "-c", INSIDE + FLAME.format(str(text))], checkout),
            "ours": spent(ours),
            "an interpreter with numpy": spent([sys.executable, "-c", "import numpy"]),
        }
        best = {name: min(seconds, best.get(name, seconds)) for name, seconds in turn.items()}
    print(f"{file.stat().st_size / 1e6:.0f} MB, {text.stat().st_size / 1e6:.0f} MB as text; least of {ROUNDS}, CPU s")
    for name, aim in (("heat map", 20), ("flame graph", 45)):
        theirs = best["perf script"] + best[name]
        print(
            f"FlameScope's {name:<12} {theirs:6.2f} (perf script {best['perf script']:.2f} + {best[name]:.2f}), "
            f"ours {best['ours']:.2f}: {theirs / best['ours']:.1f} times (aim {aim})"
        )
    print(f"an interpreter with numpy alone {best['an interpreter with numpy']:.2f}")


def main() -> None:
    if not sys.argv[1:]:
        print("where is a clone of FlameScope? flamescope.py CHECKOUT [perf.data [kallsyms]]")
        return
    with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as temporary:
        folder = Path(temporary)
        if sys.argv[2:]:
            file, symbols = Path(sys.argv[2]), Path(sys.argv[3] if sys.argv[3:] else "/proc/kallsyms")
        else:
            file, symbols = record(folder)
        compare(sys.argv[1], file, symbols, folder)


if __name__ == "__main__":
    main()
