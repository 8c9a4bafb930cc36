# SPDX-License-Identifier: Apache-2.0
"""How often is a function that takes more of the time in one zone found first, and how often is anything found where nothing is?

fleet_worlds.py WORLDS SEED CAPTURE ...: small fleets (48 nodes, 12,000 samples each) drawn from real captures. In each a random
kernel function takes 0.5, 1 or 2 points more in one zone of four; a zone in which nothing was planted is asked about, too.
"""

from __future__ import annotations

import random
import sys
import tempfile

import numpy as np
from tests.profiler.many_nodes import node_capture, own_share, seed_of

from zombiescope.analysis.exact_test import compare_groups
from zombiescope.profiler.archive.asking import Question, ask_difference, count_here
from zombiescope.profiler.archive.catalogue import Times, read_terms
from zombiescope.profiler.archive.counting import Asked
from zombiescope.profiler.archive.places import Where, place_at, ship
from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.stacks.across_nodes import Difference
from zombiescope.profiler.stacks.capture import is_kernel_file
from zombiescope.profiler.stacks.flame_graph import Key

NODES, SAMPLES, LEAST = 48, 12_000, 0.0005


def asked(folder: str, zone: str) -> Difference:
    where = Where(folder)
    terms = [read_terms([text], "--where") for text in (f"zone={zone}", "zone=a,b")]
    return ask_difference(
        Question(where, terms[0], terms[1], Times(), Asked(where, 0, 0, 0)), count_here, compare_groups
    )


def main() -> None:
    worlds, dice = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    seeds = [seed_of(open_capture(b"", name).capture) for name in sys.argv[3:]]
    common: set[Key] = set.intersection(
        *({seed.keys[each] for each in np.unique(seed.leaf).tolist()} for seed in seeds)
    )
    kernel = [key for key in sorted(common) if is_kernel_file(key[1]) and not key[0].startswith("[")]
    kernel = [key for key in kernel if min(own_share(seed, key) for seed in seeds) >= LEAST]
    first = wrong = 0
    for world in range(worlds):
        key, more = dice.choice(kernel), dice.choice((0.005, 0.01, 0.02))
        with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
            place = place_at(Where(folder))
            for number in range(NODES):
                seed = seeds[number // 4 % len(seeds)]
                number_of_all = number + 1000 * (1 + world + 100 * int(sys.argv[2]))
                capture, labels = node_capture(seed, number_of_all, SAMPLES, (key, more))
                ship(place, capture, "made", labels)
            sick, well = asked(folder, "c"), asked(folder, "d")
        is_first = bool(sick.found) and sick.found[0].key == key
        first, wrong = first + is_first, wrong + bool(well.found)
        usual = float(np.mean([own_share(seed, key) for seed in seeds]))
        print(
            f"{key[0]:<36} {100 * usual:.2f} % and {100 * more:g} points more: {'first' if is_first else 'not first'}",
            flush=True,
        )
    print(f"{first} of {worlds} found first; something found in {wrong} of {worlds} where nothing was planted")


if __name__ == "__main__":
    main()
