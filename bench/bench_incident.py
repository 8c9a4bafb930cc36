# SPDX-License-Identifier: Apache-2.0
"""The incident from cause to cure, at the size of the target: time and figures of each stage. Root; wants an idle machine.

Targets: 20,000 zombies; the neighbour starves beside them and does at least 90 % of its work again after the cure.
Usage: bench_incident.py [COUNT] [ACCOUNT]: 20,000 without an argument; ACCOUNT: write the run there.
bench_incident.py verdicts [COUNT ...]: at each size (1,000 2,000 5,000 20,000), quiet and beside a busy neighbour on every other
core: whether the doctor named the right origin, maker and first remedy, which the lab itself asserts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

PROGRAM = (sys.executable, "-m", "zombiescope", "lab", "incident", "--json")
NEIGHBOUR = {
    "before": "the neighbour before",
    "during": "the neighbour beside the zombies",
    "after": "the neighbour after the cure",
}
RECOVERED = 0.9


def play(count: int, account: str | None) -> dict[str, Any]:
    command = [*PROGRAM, "--count", str(count), *(["--account", account] if account else [])]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)  # stages are told as they end
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def show(document: dict[str, Any], seconds: float) -> None:
    figures = {stage["name"]: stage["figures"] for stage in document["stages"]}
    paces = {when: figures[name] for when, name in NEIGHBOUR.items()}
    print(
        f"{document['count']:,} zombies, {seconds:.0f} s in all with cleaning up, load {os.getloadavg()[0]:.1f} at the end"
    )
    print(f"{'neighbour':12}{'MB/s':>10}{'MB a CPU s':>12}{'worst MiB':>12}{'in kernel':>11}{'work to before':>16}")
    for when, pace in paces.items():
        share = pace.get("work_share", 1.0)
        print(
            f"{when:12}{pace['megabytes_per_second']:10,.0f}{pace['megabytes_per_cpu_second']:12,.0f}"
            f"{1000 * pace['worst_seconds']:9,.0f} ms{100 * pace['system_share']:9.0f} %{100 * share:14.0f} %"
        )
    after = paces["after"]["work_share"]
    verdict = "met" if after >= RECOVERED else "NOT met"
    print(f"back to {100 * after:.0f} % of its work for the same CPU time; target {100 * RECOVERED:.0f} %: {verdict}")
    speed = paces["before"]["megabytes_per_second"] / max(paces["during"]["megabytes_per_second"], 1e-9)
    print(f"beside the zombies it was {speed:,.1f} times slower; worst MiB {paces['during']['worst_seconds']:.2f} s")


def verdicts(counts: list[int]) -> int:
    """How many were wrong."""
    wrong = 0
    for count in counts:
        for load in (0, max((os.cpu_count() or 1) - 1, 1)):
            busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
            try:
                command = [*PROGRAM, "--count", str(count), "--name", f"verdicts-{os.getpid()}-{count}-{load}"]
                done = subprocess.run(command, check=False, capture_output=True, text=True)
            finally:
                for each in busy:
                    each.kill()
                    each.wait()
            where = f"beside {load} busy" if load else "quiet"
            if done.returncode == 0:
                stages = {stage["name"]: stage["figures"] for stage in json.loads(done.stdout)["stages"]}
                said = stages["doctor"]
                print(
                    f"{count:>7,} {where:<14} right: {said['origin']} / {said['maker']} / {said['first_remedy']}",
                    flush=True,
                )
            else:
                wrong += 1
                print(f"{count:>7,} {where:<14} WRONG: {done.stderr.strip().splitlines()[-2:]}", flush=True)
    print(f"ours {wrong} wrong of {2 * len(counts)}; target 0")
    return wrong


def main() -> None:
    if sys.argv[1:2] == ["verdicts"]:
        raise SystemExit(1 if verdicts([int(word) for word in sys.argv[2:]] or [1_000, 2_000, 5_000, 20_000]) else 0)
    count = int(sys.argv[1].replace(",", "")) if len(sys.argv) > 1 else 20_000
    began = time.monotonic()
    document = play(count, sys.argv[2] if len(sys.argv) > 2 else None)
    show(document, time.monotonic() - began)


if __name__ == "__main__":
    main()
