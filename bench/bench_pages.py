# SPDX-License-Identifier: Apache-2.0
"""The pages tier on 20,000 real zombies with a tmpfs file each: CPU to name every file, with and without a parent that owns
pages itself; the BPF walk over the same zombies beside it. Needs root.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kernel.zombie_maker import Maker, run_inside

from zombiescope.facts.cgroups import Hierarchy, MemoryUse, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import PagePins
from zombiescope.facts.zombies import Walk
from zombiescope.host.live import LiveHost
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.page_pins import read_page_pins
from zombiescope.probes.readers.zombie_walk import read_zombie_walk

Answer = TypeVar("Answer")
COUNT = 20_000
REPEATS = 3


def best_of(work: Callable[[], Answer]) -> tuple[float, Answer]:
    """The least CPU seconds of this process, and the last answer."""
    timed = []
    for _ in range(REPEATS):
        before = time.process_time()
        answer = work()
        timed.append((time.process_time() - before, answer))
    return min(seconds for seconds, _ in timed), timed[-1][1]


def name_all(host: LiveHost, hierarchy: Hierarchy, parent: bytes, title: str) -> float:
    residuals = Residuals({parent: MemoryUse(0, COUNT * 4096, 0, 0, 0)}, frozenset())
    seconds, pins = best_of(lambda: read_page_pins(host, hierarchy, residuals, 120))
    assert isinstance(pins, PagePins), pins
    proofs = ", ".join(sorted({file.proof.value for file in pins.files}))
    print(f"{title:<44} {seconds:8.3f} s CPU   {len(pins.files):,} of {COUNT:,} files named ({proofs})")
    assert len(pins.files) == COUNT, pins.gaps
    return seconds


def main() -> None:
    if os.geteuid() != 0:
        print("needs root")
        return
    host = LiveHost()
    hierarchy = read_memory_hierarchy(host)
    assert not isinstance(hierarchy, Gap), hierarchy
    with Maker(f"bench-pages-{os.getpid()}") as maker:
        maker.many(COUNT)
        pages = name_all(host, hierarchy, maker.prefix, "pages tier, the parent owns none")
        run_inside(os.fsencode(maker.top), maker.tmpfs(b"own", 1))
        name_all(host, hierarchy, maker.prefix, "pages tier, the parent owns one: by mapping")
        walk, walked = best_of(lambda: read_zombie_walk(host))
        if isinstance(walked, Walk):
            found = sum(zombie.parent == maker.prefix for zombie in walked.zombies)
            print(
                f"{'BPF walk of every zombie, for comparison':<44} {walk:8.3f} s CPU   {found:,} of {COUNT:,} zombies"
            )
            print(f"{'pages tier / BPF walk':<44} {pages / walk:8.1f}")


if __name__ == "__main__":
    main()
