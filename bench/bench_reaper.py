# SPDX-License-Identifier: Apache-2.0
"""Three leaks of 60 a minute at once: page cache with a reaper, page cache without, tmpfs with a reaper. Root.

Beside each of the first two a live sibling reads a file from its cache. The two take turns on one core, never at the same
time, and whose turn is first alternates: what disturbs the machine disturbs both. Targets with the reaper: the stock stays under
500, at most 1 % of a core, the sibling's CPU time and refaults within 5 % of the other's; tmpfs: nothing freed, said so, almost
no cost. Usage: bench_reaper.py [MINUTES]: 20 for the whole target, 2 without an argument.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from zombiescope.lab.hierarchy import MemoryHierarchy, find_hierarchy

PROGRAM = (sys.executable, "-m", "zombiescope")
FILE_BYTES = 64 << 20
ROUND_SECONDS = 0.5
BLOCK_ROUNDS = 20
LOOK_SECONDS = 60.0
MOST_ZOMBIES, MOST_SHARE, MOST_DIFFERENCE = 500, 0.01, 0.05
_TOOK = struct.Struct("dd")


class Sibling:
    """Reads its whole file when told to, in a cgroup of its own, and says what that took."""

    def __init__(self, hierarchy: MemoryHierarchy, path: str, file: Path, core: int) -> None:
        self._hierarchy, self.path = hierarchy, path
        file.write_bytes(os.urandom(FILE_BYTES))
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        hierarchy.make(path)
        order_read, self._orders = os.pipe()
        self._answers, answer_write = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._orders)
            hierarchy.enter(path)
            os.sched_setaffinity(0, {core})
            _serve(file, order_read, answer_write)
        os.close(order_read)
        os.close(answer_write)

    def read(self) -> tuple[float, float]:
        """CPU and wall seconds of one round."""
        os.write(self._orders, b"r")
        cpu, wall = _TOOK.unpack(os.read(self._answers, _TOOK.size))
        return cpu, wall

    def refaults(self) -> int:
        words = Path(self._hierarchy.file(self.path, "memory.stat")).read_text().split()
        values = dict(zip(words[::2], words[1::2], strict=True))
        name = "workingset_refault_file" if "workingset_refault_file" in values else "workingset_refault"
        return int(values[name])

    def end(self) -> None:
        os.write(self._orders, b"q")  # a sibling made later keeps this pipe open too
        os.close(self._orders)
        os.close(self._answers)
        os.waitpid(self._child, 0)
        self._hierarchy.remove(self.path)


def _serve(file: Path, orders: int, answers: int) -> None:
    buffer = bytearray(1 << 20)
    with file.open("rb", buffering=0) as source:
        while os.read(orders, 1) == b"r":
            began, used = time.monotonic(), time.process_time()
            source.seek(0)
            while source.readinto(buffer):
                pass
            os.write(answers, _TOOK.pack(time.process_time() - used, time.monotonic() - began))
    os._exit(0)


@contextmanager
def leak(hierarchy: MemoryHierarchy, name: str, pin: str, seconds: float) -> Iterator[str]:
    subtree = f"/zombiescope-lab/{name}"
    words = ["--maker", "leaky", "--per-minute", "60", "--pin", pin, "--seconds", str(seconds), "--name", name]
    process = _lab("leak", *words)
    try:
        while not hierarchy.exists(f"{subtree}/system.slice"):
            if process.poll() is not None:
                raise SystemExit("the leak ended at once: zombiescope lab leak, by hand, says why")
            time.sleep(0.05)
        yield subtree
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        _lab("clean", "--name", name).wait()


def _lab(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, "lab", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Reaper:
    def __init__(self, subtree: str, state: Path) -> None:
        command = [*PROGRAM, "reap", "--watch", "--yes", "--json", "--parent", subtree, "--state", str(state)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.answer: dict[str, Any] = {}

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        out, _ = self._process.communicate()
        self.answer = json.loads(out)


def stocks(subtrees: dict[str, str]) -> dict[str, int]:
    done = subprocess.run([*PROGRAM, "autopsy", "--json", "--limit", "0"], check=True, capture_output=True, text=True)
    paths = [zombie["path"] for zombie in json.loads(done.stdout)["zombies"]]
    return {what: sum(path.startswith(subtree + "/") for path in paths) for what, subtree in subtrees.items()}


class Race:
    """The two siblings, turn by turn, and the stocks now and then."""

    def __init__(self, reaped: Sibling, other: Sibling) -> None:
        self._pair = (reaped, other)
        self.rounds: list[tuple[tuple[float, float], tuple[float, float]]] = []
        self.stocks: list[dict[str, int]] = []

    def run(self, seconds: float, subtrees: dict[str, str]) -> None:
        reaped, other = self._pair
        for sibling in self._pair:
            sibling.read()  # from disk
        began = time.monotonic()
        looked = began
        while time.monotonic() - began < seconds:
            if len(self.rounds) % 2:
                second, first = other.read(), reaped.read()
            else:
                first, second = reaped.read(), other.read()
            self.rounds.append((first, second))
            if time.monotonic() - looked > LOOK_SECONDS:
                self.stocks.append(stocks(subtrees))
                looked = time.monotonic()
            time.sleep(ROUND_SECONDS)
        self.stocks.append(stocks(subtrees))

    def ratios(self, which: int) -> list[float]:
        """Reaped to the other, block by block; `which`: 0 for CPU, 1 for wall time."""
        blocks = [self.rounds[at : at + BLOCK_ROUNDS] for at in range(0, len(self.rounds), BLOCK_ROUNDS)]
        whole = [block for block in blocks if len(block) == BLOCK_ROUNDS] or blocks
        return [
            statistics.median(a[which] for a, _ in block) / statistics.median(b[which] for _, b in block)
            for block in whole
        ]


def show_race(race: Race, refaults: tuple[int, int]) -> None:
    for which, what in enumerate(("CPU", "run")):
        ratios = race.ratios(which)
        middle = statistics.median(ratios)
        verdict = "met" if abs(middle - 1) <= MOST_DIFFERENCE else "NOT met"
        milliseconds = [1000 * statistics.median(pair[side][which] for pair in race.rounds) for side in (0, 1)]
        print(
            f"sibling's {what} time a round: {milliseconds[0]:.2f} ms with, {milliseconds[1]:.2f} ms without; ratio"
            f" {middle:.3f} (blocks {min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} of {BLOCK_ROUNDS} rounds);"
            f" target within {MOST_DIFFERENCE:.2f} of 1: {verdict}"
        )
    allowed = refaults[1] * (1 + MOST_DIFFERENCE)
    verdict = "met" if refaults[0] <= allowed else "NOT met"
    print(f"sibling's refaults: {refaults[0]:,} with, {refaults[1]:,} without: {verdict}")


def show_reaper(title: str, answer: dict[str, Any]) -> None:
    cost, freed = answer["cost"], answer["freed"]
    share = cost["cpu_seconds"] / cost["seconds"]
    verdict = "met" if share <= MOST_SHARE else "NOT met"
    print(
        f"{title}: freed {freed['zombies']:,}; {cost['cpu_seconds']:.2f} s of CPU in {cost['seconds']:.0f} s:"
        f" {100 * share:.3f} % of a core, target {100 * MOST_SHARE:.0f}: {verdict}; {cost['passes']} passes,"
        f" {cost['walks']} walks; last: {answer['state']}"
    )
    for left in answer["left"]:
        print(f"    left {left['zombies']:,}: {left['why']}")


def main(minutes: float) -> None:
    hierarchy, run, seconds = find_hierarchy(), f"bench-reap-{os.getpid()}", 60 * minutes
    core = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place, ExitStack() as stack:
        folder = Path(place)
        subtrees = {
            what: stack.enter_context(leak(hierarchy, f"{run}-{what}", pin, seconds + 60))
            for what, pin in (("reaped", "page-cache"), ("other", "page-cache"), ("tmpfs", "tmpfs"))
        }
        siblings = {
            what: Sibling(hierarchy, f"{subtrees[what]}/system.slice/sibling", folder / what, core)
            for what in ("reaped", "other")
        }
        reapers = {what: Reaper(subtrees[what], folder / f"state-{what}") for what in ("reaped", "tmpfs")}
        race = Race(siblings["reaped"], siblings["other"])
        try:
            race.run(seconds, subtrees)
            refaults = (siblings["reaped"].refaults(), siblings["other"].refaults())
        finally:
            for reaper in reapers.values():
                reaper.end()
            for sibling in siblings.values():
                sibling.end()
        highest = {what: max(look[what] for look in race.stocks) for what in subtrees}
        verdict = "met" if highest["reaped"] < MOST_ZOMBIES else "NOT met"
        print(f"{minutes:g} minutes, load {os.getloadavg()[0]:.1f} at the end; stock at most, of a look a minute:")
        print(
            f"  page cache with the reaper {highest['reaped']:,} (target under {MOST_ZOMBIES}: {verdict}), without"
            f" {highest['other']:,}; tmpfs with the reaper {highest['tmpfs']:,}"
        )
        show_race(race, refaults)
        show_reaper("reaper of page cache", reapers["reaped"].answer)
        show_reaper("reaper of tmpfs", reapers["tmpfs"].answer)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
