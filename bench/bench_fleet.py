# SPDX-License-Identifier: Apache-2.0
"""Which cohort? Planted worlds and null worlds (precision, recall), 10,000 nodes in real servers, 100,000 in a Parquet file.

The peer is PromQL by hand: one query that ranks every value of one label, which is what people do without us.
Aims: `fleet cohorts` over 10,000 nodes in at most 5 s and 300 MB, over 100,000 from Parquet in at most 20 s.
`python bench/bench_fleet.py [NODES] [TABLE_NODES]`.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import duckdb
from tests.fleets.serving import prometheus_with, text_of, victoria_with
from tests.fleets.worlds import CAUSES, HELD_OUT, world
from tests.server.running import fetch

from zombiescope.analysis.cohorts import compare

PROGRAM = [sys.executable, "-m", "zombiescope", "fleet", "cohorts", "--json"]


def main() -> None:
    nodes, table = (int(word) for word in [*sys.argv[1:], "10000", "100000"][:2])
    worlds()
    with tempfile.TemporaryDirectory() as folder:
        servers(Path(folder), nodes)
        parquet(Path(folder), table)


def worlds() -> None:
    print("worlds of 2,500 nodes; tuned: seeds 0 to 9, held out: seeds 1000 to 1009")
    for title, seeds in (("tuned", range(10)), ("held out", HELD_OUT)):
        for kind in (*CAUSES, "null", "null-busy"):
            right = false = 0
            for seed in seeds:
                one = world(seed, 2500, kind)
                sick = [(node.zombies or 0) >= 1000 for node in one.nodes]
                found = {
                    frozenset(cause.cohort.labels) for cause in compare([n.labels for n in one.nodes], sick).causes
                }
                right += found == set(one.causes)
                false += bool(found - set(one.causes))
            print(f"  {title:9} {kind:20} right {right:2} of {len(seeds)}, with a false cause {false}")


def measured(arguments: list[str]) -> tuple[dict[str, object], float, float, float]:
    """The document, wall seconds, CPU seconds and peak MiB of one run."""
    began = time.monotonic()
    with subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout
        out = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return json.loads(out), time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def servers(folder: Path, nodes: int) -> None:
    now = time.time()
    one = world(7, nodes, "pair", now)
    for name, start, scale in (("prometheus", prometheus_with, 1), ("victoria-metrics", victoria_with, 1000)):
        place = folder / name
        place.mkdir()
        with start(place, text_of(one, now, 4 * 86400, 4 * 3600.0, scale)) as address:
            document, wall, cpu, peak = measured(["--prometheus", address])
            by_hand = hand(address)
        first = document["cohorts"][0]  # type: ignore[index]
        is_right = frozenset(first["labels"].items()) in one.causes
        print(
            f"{name}, {nodes:,} nodes: cause {'right' if is_right else 'WRONG'}, {wall:.2f} s wall, {cpu:.2f} s CPU, "
            f"{peak:.0f} MiB; one label by hand {by_hand:.2f} s, "
            f"ratio {wall / by_hand:.1f} (ours compares {document['tested']:,} cohorts)"
        )


def hand(address: str) -> float:
    """The share of sick nodes by zone: one of the queries a person would type."""
    query = "count by (zone) (zombiescope_memcg_zombies > 1000) / count by (zone) (zombiescope_memcg_zombies)"
    began = time.monotonic()
    fetch(f"{address}/api/v1/query?" + urllib.parse.urlencode({"query": query}))
    return time.monotonic() - began


def parquet(folder: Path, nodes: int) -> None:
    one = world(8, nodes, "pair")
    lines = folder / "nodes.jsonl"
    with open(lines, "w", encoding="utf-8") as file:
        for node in one.nodes:
            row = {"node": node.name, "zombies": node.zombies, "live": node.live, **node.labels}
            file.write(json.dumps(row) + "\n")
    path = folder / "nodes.parquet"
    duckdb.connect().execute(f"copy (select * from read_json('{lines}')) to '{path}' (format parquet)")
    document, wall, cpu, peak = measured(["--from", str(path)])
    is_right = frozenset(document["cohorts"][0]["labels"].items()) in one.causes  # type: ignore[index]
    print(
        f"parquet, {nodes:,} nodes: cause {'right' if is_right else 'WRONG'}, {wall:.2f} s wall, {cpu:.2f} s CPU, {peak:.0f} MiB"
    )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
