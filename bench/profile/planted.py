# SPDX-License-Identifier: Apache-2.0
"""Ten moments planted in a real ring, three times: planted.py [SEED [first|second|third|all [FOLDER]]]. Root; five minutes each.

A recorder runs over real load. Into ten of its captures, drawn from all, one real process works for some seconds at what no other
does (`planting.py`). Then each is asked for by its function, cause, process, cgroup, core. Found first: the first answer names
that capture, and a stretch of it that overlaps. The search was made on the first two sets, the third was held out. With a FOLDER
the captures stay there, and are asked again when it has them already.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.profile.planting import HEAD, SETS, TAIL, Plant, Ten

from zombiescope.pipeline.profile_events import cause_words
from zombiescope.profiler.files.ring import held
from zombiescope.profiler.finding import find_in_folder

CAPTURES = 34
TOLD = "told.json"


@contextmanager
def cgroup() -> Iterator[str]:
    """One that perf can name, of our own."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    tops = [words[1] for words in mounts if "perf_event" in words[3]]
    tops += [words[1] for words in mounts if words[2] == "cgroup2"]
    path = f"{tops[0]}/zombiescope-planted-{secrets.token_hex(4)}"
    os.mkdir(path)
    try:
        yield path
    finally:
        os.rmdir(path)


def record(folder: str, group: str, ten: Ten, dice: random.Random) -> dict[str, tuple[float, float]]:
    """When each of them worked, on the steady clock."""
    words = [sys.executable, "-m", "zombiescope", "profile", "record", "--with", "own", "--rate", str(ten.rate)]
    words += ["--segment", str(ten.segment), "--seconds", str(ten.segment * CAPTURES), "--captures", folder]
    neighbours = [subprocess.Popen([sys.executable, "-c", ten.neighbour]) for _ in range(os.cpu_count() or 1)]
    recorder = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begun: dict[str, tuple[float, float]] = {}
    try:
        while not list(Path(folder).glob("*.recording")):
            time.sleep(0.1)
        first = time.monotonic()
        places = sorted(dice.sample(range(2, CAPTURES - 2), len(ten.plants)))
        for place, plant in zip(places, dice.sample(ten.plants, len(ten.plants)), strict=True):
            length = dice.uniform(*ten.lengths)
            at = first + place * ten.segment + dice.uniform(0.5, ten.segment - length - 0.5)
            time.sleep(max(0.0, at - time.monotonic()))
            script = [sys.executable, "-c", HEAD + plant.work + TAIL, f"plant-{plant.what}"[:15], str(length)]
            script += [group, folder]
            said = subprocess.run(script, check=True, capture_output=True, text=True).stdout.split()
            begun[plant.what] = (float(said[0]), float(said[1]))
        recorder.wait()
    finally:
        for one in (*neighbours, recorder):
            one.kill()
            one.wait()
    return begun


def report(name: str, folder: str, plants: list[Plant], begun: dict[str, tuple[float, float]]) -> None:
    captures = {one.name: one for one in held(os.fsencode(folder))}
    right = 0
    spent = 0.0
    for plant in plants:
        begin, end = begun[plant.what]
        before = time.process_time()
        hits = find_in_folder(os.fsencode(folder), plant.question, cause_words()[0]).hits
        spent += time.process_time() - before
        overlaps = []
        for hit in hits:
            at = (captures[hit.name].span.first_ns or 0) / 1e9
            overlaps.append(at + hit.at < end and at + hit.until > begin)
        place = overlaps.index(True) + 1 if True in overlaps else 0
        right += place == 1
        asked = ", ".join(f"{kind} {glob}" for kind, glob in plant.question.asked())
        said = "found first" if place == 1 else f"found as {place:>2}" if place else "not found  "
        print(f"{said}  {plant.what} (asked for {asked})", flush=True)
    print(
        f"{name} set: {right} of {len(plants)} found first among {len(captures)} real captures (at least 9), "
        f"{1000 * spent / len(plants):.0f} ms of CPU per question, load {os.getloadavg()[0]:.1f}"
    )


def ask(name: str, folder: str, dice: random.Random) -> None:
    told = Path(folder, TOLD)
    if told.exists():
        kept = json.loads(told.read_text())
        report(name, folder, SETS[name](kept["group"]).plants, kept["begun"])
        return
    with cgroup() as group:
        ten = SETS[name](group)
        begun = record(folder, group, ten, dice)
    told.write_text(json.dumps({"group": group, "begun": begun}))
    report(name, folder, ten.plants, begun)


def main() -> None:
    given = sys.argv[1:]
    dice = random.Random(int(given[0]) if given else time.time_ns())
    for name in (given[1],) if given[1:] and given[1] in SETS else tuple(SETS):
        if len(given) > 2:
            Path(given[2], name).mkdir(parents=True, exist_ok=True)
            ask(name, str(Path(given[2], name)), dice)
        else:
            with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
                ask(name, folder, dice)


if __name__ == "__main__":
    main()
