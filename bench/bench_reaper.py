# SPDX-License-Identifier: Apache-2.0
"""A steady leak of 60 a minute of clean page cache beside a live sibling that uses its cache, without a reaper and with one. Root.

Targets with the reaper: the stock stays under 500, at most 1 % of a core, the sibling's refaults and run time within 5 % of
the same time without it. Then tmpfs pins: nothing freed, said so, almost no cost. Usage: bench_reaper.py [MINUTES]: of each
half; 20 for the whole target, 2 without an argument.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from zombiescope.lab.hierarchy import MemoryHierarchy, find_hierarchy

PROGRAM = (sys.executable, "-m", "zombiescope")
FILE_BYTES = 64 << 20
ROUND_SECONDS = 0.25


class Sibling(NamedTuple):
    rounds: int
    cpu_seconds: float
    refaults: int

    @property
    def cpu_milliseconds_a_round(self) -> float:
        return 1000 * self.cpu_seconds / max(self.rounds, 1)


class Half(NamedTuple):
    highest: int
    last: int
    sibling: Sibling
    reaper: dict[str, Any] | None


def lab(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, "lab", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def refaults_of(hierarchy: MemoryHierarchy, path: str) -> int:
    words = Path(hierarchy.file(path, "memory.stat")).read_text().split()
    values = dict(zip(words[::2], words[1::2], strict=True))
    return int(values.get("workingset_refault_file", values.get("workingset_refault", 0)))


def read_again_and_again(file: str, until: float, answer: int) -> None:
    """The sibling: the whole file from its cache, four times a second."""
    buffer, rounds = bytearray(1 << 20), 0
    with open(file, "rb", buffering=0) as source:
        began = time.process_time()
        while time.monotonic() < until:
            source.seek(0)
            while source.readinto(buffer):
                pass
            rounds += 1
            time.sleep(ROUND_SECONDS)
        os.write(answer, json.dumps([rounds, time.process_time() - began]).encode())


@contextmanager
def sibling(hierarchy: MemoryHierarchy, path: str, file: str, seconds: float) -> Iterator[list[Sibling]]:
    reading, writing = os.pipe()
    hierarchy.make(path)
    child = os.fork()
    if child == 0:
        hierarchy.enter(path)
        read_again_and_again(file, time.monotonic() + seconds, writing)
        os._exit(0)
    found: list[Sibling] = []
    try:
        yield found
    finally:
        rounds, cpu = json.loads(os.read(reading, 1000))
        found.append(Sibling(rounds, cpu, refaults_of(hierarchy, path)))
        os.waitpid(child, 0)
        hierarchy.remove(path)


def stock(subtree: str) -> int:
    done = subprocess.run([*PROGRAM, "autopsy", "--json", "--limit", "0"], check=True, capture_output=True, text=True)
    return sum(zombie["path"].startswith(subtree) for zombie in json.loads(done.stdout)["zombies"])


def run_half(folder: Path, seconds: float, pin: str, *, reaping: bool) -> Half:
    hierarchy, name = find_hierarchy(), f"bench-reap-{os.getpid()}-{pin}-{int(reaping)}"
    subtree = f"/zombiescope-lab/{name}"
    leak = lab(
        "leak", "--maker", "leaky", "--per-minute", "60", "--pin", pin, "--seconds", str(seconds), "--name", name
    )
    while not hierarchy.exists(f"{subtree}/system.slice"):
        time.sleep(0.05)
    watch = None
    if reaping:
        command = [*PROGRAM, "reap", "--watch", "--yes", "--json", "--parent", subtree, "--state", str(folder / name)]
        watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    counts: list[int] = []
    try:
        with sibling(hierarchy, f"{subtree}/system.slice/sibling", str(folder / "cached"), seconds) as found:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                counts.append(stock(subtree))
                time.sleep(min(20.0, max(end - time.monotonic(), 0)))
        counts.append(stock(subtree))
    finally:
        answer = _ended(watch)
        leak.send_signal(signal.SIGTERM)
        leak.wait()
        lab("clean", "--name", name).wait()
    return Half(max(counts), counts[-1], found[0], answer)


def _ended(watch: subprocess.Popen[str] | None) -> dict[str, Any] | None:
    if watch is None:
        return None
    watch.send_signal(signal.SIGTERM)
    out, _ = watch.communicate()
    answer: dict[str, Any] = json.loads(out)
    return answer


def show(title: str, half: Half) -> None:
    own = half.sibling
    print(
        f"{title:24} zombies at most {half.highest:5,}, at the end {half.last:5,}; sibling: {own.rounds:,} rounds,"
        f" {own.cpu_milliseconds_a_round:.2f} ms of CPU each, {own.refaults:,} refaults"
    )
    if half.reaper:
        cost, freed = half.reaper["cost"], half.reaper["freed"]
        share = 100 * cost["cpu_seconds"] / cost["seconds"]
        print(
            f"{'':24} reaper: freed {freed['zombies']:,}, {cost['cpu_seconds']:.2f} s of CPU in {cost['seconds']:.0f} s:"
            f" {share:.3f} % of a core (at most 1), {cost['passes']} passes, {cost['walks']} walks; last: {half.reaper['state']}"
        )
        for left in half.reaper["left"]:
            print(f"{'':24}   left {left['zombies']:,}: {left['why']}")


def main(minutes: float) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        folder, seconds = Path(place), 60 * minutes
        (folder / "cached").write_bytes(os.urandom(FILE_BYTES))
        os.sync()
        without = run_half(folder, seconds, "page-cache", reaping=False)
        show("page cache, no reaper", without)
        with_reaper = run_half(folder, seconds, "page-cache", reaping=True)
        show("page cache, reaper", with_reaper)
        ratio = with_reaper.sibling.cpu_milliseconds_a_round / without.sibling.cpu_milliseconds_a_round
        print(f"{'':24} sibling's CPU a round with to without: {ratio:.3f} (within 0.05 of 1)")
        show("tmpfs, reaper", run_half(folder, seconds, "tmpfs", reaping=True))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
