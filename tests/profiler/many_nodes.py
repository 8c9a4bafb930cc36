# SPDX-License-Identifier: Apache-2.0
"""Captures of many nodes made from a few real ones: each node draws its samples from one of them, with habits of its own, and in
one zone a function that is everywhere takes more of the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from zombiescope.profiler.archive.schema import Labels
from zombiescope.profiler.stacks.branches import merged_keys
from zombiescope.profiler.stacks.capture import About, Capture, Clock, is_kernel_file
from zombiescope.profiler.stacks.flame_graph import Key

WALL = 1_790_000_000
ZONES = "abcd"
SICK = "c"
CORES, RATE = 32, 49


class Seed(NamedTuple):
    """A real capture, its samples at work, and of each the thread and the function it ended in."""

    capture: Capture
    rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    thread: np.ndarray[tuple[int], np.dtype[np.int64]]
    leaf: np.ndarray[tuple[int], np.dtype[np.int64]]
    keys: tuple[Key, ...]


def seed_of(capture: Capture) -> Seed:
    rows = np.flatnonzero(~capture.idle)
    keys, number = merged_keys(capture.frame_names, capture.frame_files)
    nodes = capture.node[rows].astype(np.int64)
    leaf = number[capture.tree.frame[nodes].astype(np.int64).clip(0, len(number) - 1)]
    return Seed(capture, rows, capture.comm[rows].astype(np.int64), leaf, keys)


def own_share(seed: Seed, key: Key) -> float:
    return float((seed.leaf == seed.keys.index(key)).mean()) if key in seed.keys else 0.0


def plantable(seeds: Sequence[Seed], about: float) -> Key:
    """A function of the kernel that every real capture has, whose own share is nearest to this."""
    common = set.intersection(*({seed.keys[each] for each in np.unique(seed.leaf).tolist()} for seed in seeds))
    kernel = sorted(key for key in common if is_kernel_file(key[1]) and not key[0].startswith("["))
    return min(kernel, key=lambda key: abs(float(np.mean([own_share(seed, key) for seed in seeds])) - about))


def node_capture(seed: Seed, number: int, samples: int, plant: tuple[Key, float] | None) -> tuple[Capture, Labels]:
    """`plant`: this function takes so much more of the time, on nodes of the sick zone."""
    dice = np.random.default_rng(number)
    zone = ZONES[number % len(ZONES)]
    labels = Labels(f"node-{number:04}", zone, f"image-{number % 3}", "6.1.0" if number % 5 else "6.6.0")
    weights = dice.lognormal(0, 0.4, int(seed.thread.max()) + 1)[seed.thread]
    weights *= dice.lognormal(0, 0.3, len(seed.keys))[seed.leaf]
    weights /= weights.sum()
    if plant is not None and zone == SICK:
        hot = seed.leaf == seed.keys.index(plant[0])
        more = plant[1] * float(dice.lognormal(0, 0.2))
        share = float(weights[hot].sum())
        weights[hot] *= (share + more) / share
        weights[~hot] *= (1 - share - more) / (1 - share)
    rows = seed.rows[dice.choice(len(seed.rows), samples, p=weights / weights.sum())]
    return _sampled(seed.capture, rows, number, dice), labels


def _sampled(
    real: Capture, rows: np.ndarray[tuple[int], np.dtype[np.int64]], number: int, dice: np.random.Generator
) -> Capture:
    """Every core at its rate, a little late as timers are."""
    count = len(rows)
    ticks = np.arange(count) // CORES
    late = dice.exponential(20_000, count)
    time = 10**12 + ticks * (10**9 // RATE) + (np.arange(count) % CORES) * 1_000 + late.astype(np.int64)
    core = (np.arange(count) % CORES).astype(np.uint16)
    order = np.argsort(time, kind="stable")
    clock = Clock((WALL + 60 * (number % 7)) * 10**9, 10**12)
    about = About("made from real captures", f"node-{number:04}", real.about.kernel, clock, float(RATE))
    picked = rows[order]
    return replace(
        real,
        about=about,
        time=time[order].astype(np.uint64),
        cpu=core[order],
        pid=real.pid[picked],
        tid=real.tid[picked],
        mode=real.mode[picked],
        event=real.event[picked],
        comm=real.comm[picked],
        cgroup=real.cgroup[picked],
        idle=real.idle[picked],
        node=real.node[picked],
        weight=None if real.weight is None else real.weight[picked],
    )
