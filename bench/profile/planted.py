# SPDX-License-Identifier: Apache-2.0
"""Ten moments planted in a real ring, five times: planted.py [SEED [first|second|third|fourth|fifth|all [FOLDER]]]. Root; five
minutes each.

A recorder runs over real load. Into ten of its captures, drawn from all, one real process works for some seconds at what no other
does (`planting.py`). Then each is asked for by its function, cause, process, cgroup, core. Found first: the first answer names
that capture, and a stretch of it that overlaps. What the machine does besides is in the captures too: an answer most of which is
the work of processes that were not started here has no label, and is counted apart. The search was made on the first two sets, the
others were held out. With a FOLDER the captures stay there, and are asked again when it has them already.
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

from bench.profile.planting import HEAD, NAMED, SETS, TAIL, Plant, Ten

from zombiescope.pipeline.profile_events import cause_words
from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.files.ring import held
from zombiescope.profiler.finding import find_in_folder
from zombiescope.profiler.stacks.searching import Hit, Question, look_for

CAPTURES = 34
TOLD = "told.json"
OURS = ("plant-*", "neighbour*", "find")


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
    neighbours = [subprocess.Popen([sys.executable, "-c", NAMED + ten.neighbour]) for _ in range(os.cpu_count() or 1)]
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


def share_of_ours(folder: str, hit: Hit, question: Question) -> float:
    """Of what was asked for, in that stretch: what our neighbours and what we planted did."""
    opened = open_capture(os.fsencode(folder), hit.name)
    counts = []
    for process in ("*", *OURS):
        seen = look_for(opened.capture, opened.shape, question._replace(process=process), cause_words()[0])
        inside = 0 if seen is None else int(((seen.second >= int(hit.at)) & (seen.second < hit.until)).sum())
        counts.append(inside)
    return sum(counts[1:]) / max(1, counts[0])


def judged(folder: str, plant: Plant, begun: tuple[float, float]) -> tuple[int, int]:
    """Which answer names the moment, 0: none; and how many of those before it are of processes that were not started here."""
    captures = {one.name: one for one in held(os.fsencode(folder))}
    hits = find_in_folder(os.fsencode(folder), plant.question, cause_words()[0]).hits
    for place, hit in enumerate(hits):
        at = (captures[hit.name].span.first_ns or 0) / 1e9
        if at + hit.at < begun[1] and at + hit.until > begun[0]:
            earlier = [] if plant.question.process else hits[:place]
            return place + 1, sum(share_of_ours(folder, each, plant.question) < 0.5 for each in earlier)
    return 0, 0


def report(name: str, folder: str, plants: list[Plant], begun: dict[str, tuple[float, float]]) -> None:
    right = ours = 0
    before = time.process_time()
    for plant in plants:
        place, foreign = judged(folder, plant, begun[plant.what])
        right += place == 1
        ours += bool(place) and place == foreign + 1
        asked = ", ".join(f"{kind} {glob}" for kind, glob in plant.question.asked())
        said = "found first" if place == 1 else f"found as {place:>2}" if place else "not found  "
        why = f"; {foreign} before it of processes that were not started here" if foreign else ""
        print(f"{said}  {plant.what} (asked for {asked}{why})", flush=True)
    spent = 1000 * (time.process_time() - before) / len(plants)
    print(
        f"{name} set: {right} of {len(plants)} found first (at least 9), {ours} where moments of processes that were not started "
        f"here are left out; {len(held(os.fsencode(folder)))} real captures, {spent:.0f} ms of CPU per question, "
        f"load {os.getloadavg()[0]:.1f}"
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
