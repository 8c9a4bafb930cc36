# SPDX-License-Identifier: Apache-2.0
"""An archive of 50 million samples of 200 nodes, made from real captures: found what was planted, in which time, memory and room;
beside pprof files in a folder, in the same run.

bench_archive.py [--nodes N] [--samples N] [--ray PYTHON] [--in FOLDER] [CAPTURE ...]: without captures it records some of
this machine under several loads (root). In one zone of four a function that every node has takes 1.5 points more. Another archive
has nothing planted. `--ray`: a Python that has Ray (build/ray/bin/python after `make test-ray`): the same question on a real
cluster of two nodes. `--in`: the archives stay in that folder, and are asked again when it has them already. Beside the seconds
stand those of CPU: on a machine that others use, too, a question waits for them.
Targets: found first, and nothing in the other; at most 10 s and 1 GB; the same answer on Ray.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.profiler.many_nodes import SICK, Seed, node_capture, own_share, plantable, seed_of

from zombiescope.profiler.archive.places import Where, place_at, ship
from zombiescope.profiler.asking import WRITERS, open_capture
from zombiescope.profiler.stacks.capture import Selection

ROOT = Path(__file__).resolve().parent.parent
MORE = 0.015
ABOUT = 0.004
MOST_SECONDS, MOST_MB = 10.0, 1024
LOADS = {
    "files": "find /usr -type f -exec cat {} + > /dev/null",
    "processes": "while :; do sh -c 'ls /usr/bin | sort | tail -1' > /dev/null; done",
    "memory": "while :; do head -c 200000000 /dev/zero | tail -c 1 > /dev/null; done",
    "python": f"{sys.executable} -c 'import json, zlib\nwhile True: zlib.crc32(json.dumps(list(range(9000))).encode())'",
}


class Spent(NamedTuple):
    seconds: float
    cpu_seconds: float
    memory_mb: int
    said: Any


def record(folder: Path) -> list[str]:
    """Ten seconds of this machine under each load."""
    for name, line in LOADS.items():
        load = subprocess.Popen(["sh", "-c", line], start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            words = ["record", "--seconds", "10", "--segment", "10", "--rate", "1999", "--captures", str(folder / name)]
            subprocess.run([sys.executable, "-m", "zombiescope", "profile", *words], check=True, capture_output=True)
        finally:
            os.killpg(load.pid, 9)
            load.wait()
    return [str(path) for path in sorted(folder.rglob("*.zscap"))]


def spent(command: list[str]) -> Spent:
    """One process: its seconds, its peak memory, the JSON that it printed."""
    with tempfile.TemporaryFile() as out:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        assert status == 0, command
        out.seek(0)
        return Spent(
            seconds,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss // 1024,
            json.loads(out.read().splitlines()[-1] if "ray" in command[1] else out.read()),
        )


def ask(archive: Path, *words: str) -> Spent:
    return spent([sys.executable, "-m", "zombiescope", "profile", "fleet", *words, "--archive", str(archive), "--json"])


class Made(NamedTuple):
    planted: str
    nodes: int
    samples: int
    """Of each node."""
    archive_bytes: int
    pprof_bytes: int


def make(seeds: list[Seed], place: Path, nodes: int, samples: int) -> Made:
    """Two archives, one with nothing planted, and pprof files of the first."""
    key = plantable(seeds, ABOUT)
    usual = sum(own_share(seed, key) for seed in seeds) / len(seeds)
    print(
        f"planted: {key[0]}, itself {100 * usual:.2f} % of the time in the real captures, {100 * MORE:g} points more in zone {SICK}"
    )
    written = 0
    archives = {name: place_at(Where(str(place / name))) for name in ("planted", "null")}
    begun = time.perf_counter()
    for number in range(nodes):
        seed = seeds[number // 4 % len(seeds)]
        capture, labels = node_capture(seed, number, samples, (key, MORE))
        shipped = ship(archives["planted"], capture, f"made-{number:04}", labels)
        written += shipped.bytes_written or 0
        folder = place / "pprof" / labels.zone
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{labels.node}.pb").write_bytes(b"".join(WRITERS["pprof"](capture, Selection())))
        if labels.zone == SICK:
            capture, labels = node_capture(seed, number, samples, None)
        ship(archives["null"], capture, f"made-{number:04}", labels)
    print(f"made in {time.perf_counter() - begun:.0f} s: {nodes} nodes, {nodes * samples:,} samples")
    pprof = sum(path.stat().st_size for path in (place / "pprof").rglob("*.pb"))
    return Made(key[0], nodes, samples, written, pprof)


def told(name: str, one: Spent, answer: str) -> None:
    print(
        f"{name:<44} {one.seconds:6.2f} s   {one.cpu_seconds:6.2f} CPU s   {one.memory_mb:>5} MB   {answer}", flush=True
    )


def first_of(said: Any) -> str:
    return said["found"][0]["function"] if said["found"] else f"nothing ({said['verdict']})"


def questions(place: Path, planted: str, nodes: int, samples: int) -> dict[str, Any]:
    others = ",".join(zone for zone in "abd")
    ask(place / "planted", "top", "--where", "node=node-0000")  # modules are compiled once
    found = ask(place / "planted", "diff", "--where", f"zone={SICK}", "--against", f"zone={others}")
    assert found.said["where"]["samples"] + found.said["against"]["samples"] == nodes * samples
    fine = first_of(found.said) == planted and found.seconds <= MOST_SECONDS and found.memory_mb <= MOST_MB
    told(
        f"fleet diff (at most {MOST_SECONDS:g} s, {MOST_MB} MB)",
        found,
        f"{first_of(found.said)}: {'as wanted' if fine else 'MISSED'}",
    )
    null = ask(place / "null", "diff", "--where", f"zone={SICK}", "--against", f"zone={others}")
    told("the same, nothing planted", null, first_of(null.said) + ("" if not null.said["found"] else ": MISSED"))
    top = ask(place / "planted", "top", "--where", f"zone={SICK}")
    told("fleet top, a quarter of it", top, top.said["functions"][0]["function"])
    find = ask(place / "planted", "find", "--where", f"zone={SICK}", "--function", planted)
    first = find.said["moments"][0]
    told("fleet find, a quarter of it", find, f"{first['node']} core {first['core']} {first['begin'][:19]}")
    peer = spent([sys.executable, str(ROOT / "bench/profile/pprof_folder.py"), str(place / "pprof"), SICK, others])
    names = peer.said["found"]
    told(
        "pprof files in a folder, the diff",
        peer,
        f"{planted}, as {names.index(planted) + 1} of {len(names)}" if planted in names else f"{len(names)} others",
    )
    print(
        f"{'':<44} {peer.seconds / found.seconds:6.2f} times as long as the archive, {peer.cpu_seconds / found.cpu_seconds:.2f} "
        "times the CPU time; they hold no times: no moments, no --since"
    )
    return {"answer": found.said}


def on_ray(python: str, place: Path, ours: Any) -> None:
    words = ["diff", "--where", f"zone={SICK}", "--against", "zone=a,b,d"]
    there = spent([python, str(ROOT / "tests/ray/two_nodes.py"), str(place / "planted"), "0", *words])
    same = there.said["answer"] == ours
    print(
        f"{'on a Ray cluster of two nodes':<44} {there.said['seconds']:6.2f} s   tasks by node {there.said['ran']}   "
        f"{'the same answer, all of it' if same else 'ANOTHER ANSWER'}"
    )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--nodes", type=int, default=200)
    options.add_argument("--samples", type=int, default=250_000)
    options.add_argument("--ray", default="")
    options.add_argument("--in", dest="place", type=Path)
    options.add_argument("captures", nargs="*")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
        place = given.place or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        told = place / "made.json"
        if told.exists():
            made = Made(**json.loads(told.read_text()))
            print(f"{made.nodes} nodes, {made.nodes * made.samples:,} samples; planted: {made.planted}")
        else:
            names = given.captures or record(place / "real")
            seeds = [seed_of(open_capture(b"", name).capture) for name in names]
            print(
                f"from {len(seeds)} real captures with {', '.join(f'{len(seed.rows):,}' for seed in seeds)} samples at work"
            )
            made = make(seeds, place, given.nodes, given.samples)
            told.write_text(json.dumps(made._asdict()))
        whole = made.nodes * made.samples
        print(
            f"archive {made.archive_bytes / whole:.2f} bytes a sample; pprof {made.pprof_bytes / whole:.2f}, without times and "
            f"cores; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        found = questions(place, made.planted, made.nodes, made.samples)
        if given.ray:
            on_ray(given.ray, place, found["answer"])
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
