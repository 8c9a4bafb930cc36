# SPDX-License-Identifier: Apache-2.0
"""A ring of captures of one machine, as a recorder would leave it, with ten moments planted in it: each of a few seconds, in one
capture, among what the machine does all the time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zombiescope.profiler.files import store
from zombiescope.profiler.files.beside import write_beside
from zombiescope.profiler.files.summing import Summing
from zombiescope.profiler.formats.capture_file import encode
from zombiescope.profiler.stacks.call_tree import build_tree
from zombiescope.profiler.stacks.capture import KERNEL_MODE, USER_MODE, About, Capture, Clock
from zombiescope.profiler.stacks.searching import Question
from zombiescope.profiler.stacks.summary import CauseOf

RATE, CORES, SECONDS, CAPTURES = 49, 4, 60, 40
WALL = 1_700_000_000.0
KERNEL = "[kernel]"


class Plant(NamedTuple):
    question: Question
    stack: tuple[str, ...]
    """The kernel's functions; empty: in user code."""
    process: str
    cgroup: str
    core: int | None
    """None: on every core."""
    seconds: float
    share: float
    """Of the time of each of those cores."""


PLANTS = (
    Plant(Question(function="shrink_slab"), ("do_syscall_64", "shrink_node", "shrink_slab"), "java", "/pods/a", 1, 3, 0.95),
    Plant(Question(cause="statistics"), ("do_syscall_64", "mem_cgroup_css_rstat_flush"), "kubelet", "/kubelet", 0, 2, 0.9),
    Plant(Question(cause="softirq"), ("net_rx_action", "napi_poll"), "ksoftirqd/2", "/", 2, 1.5, 0.95),
    Plant(Question(process="backup"), (), "backup", "/pods/b", 3, 4, 0.8),
    Plant(Question(cgroup="/pods/c"), ("do_syscall_64", "vfs_read"), "python", "/pods/c", None, 2, 0.5),
    Plant(Question(core="3"), ("do_syscall_64", "ext4_sync_file"), "postgres", "/pods/d", 3, 2.5, 0.95),
    Plant(Question(function="*compact_zone*"), ("kcompactd", "compact_zone"), "kcompactd0", "/", 0, 3, 0.7),
    Plant(Question(cause="cgroup life", process="systemd"), ("cgroup_rmdir",), "systemd", "/init", 1, 2, 0.6),
    Plant(Question(function="*spin_lock_slowpath"), ("native_queued_spin_lock_slowpath",), "app", "/pods/a", None, 1.5, 0.6),
    Plant(Question(), ("do_syscall_64", "list_lru_walk_one"), "umount", "/", 2, 4, 0.98),
)  # fmt: skip
_USUAL = (
    ("app", "/pods/a", ("main", "handle"), 0.30),
    ("app", "/pods/a", ("main", "handle", "do_syscall_64", "vfs_read"), 0.08),
    ("python", "/pods/c", ("eval", "call"), 0.06),
    ("kubelet", "/kubelet", ("housekeeping", "do_syscall_64", "mem_cgroup_css_rstat_flush"), 0.02),
    ("systemd", "/init", ("event_loop", "do_syscall_64", "ep_poll"), 0.01),
    ("ksoftirqd/2", "/", ("net_rx_action", "napi_poll"), 0.03),
    ("java", "/pods/a", ("run", "do_syscall_64", "shrink_node", "shrink_slab"), 0.01),
    ("backup", "/pods/b", ("compress",), 0.01),
)
_OF_KERNEL = {name for plant in PLANTS for name in plant.stack} | {"vfs_read", "ep_poll", "do_syscall_64"}


def question_of(plant: Plant, name: str) -> Question:
    """Where nothing is asked for: what stood out in three captures."""
    if plant.question.asked():
        return plant.question
    begin = WALL + int(name[-2:]) * SECONDS
    return Question(since=begin - SECONDS / 2, until=begin + 1.5 * SECONDS)


def make_ring(folder: Path, dice: np.random.Generator, cause_of: CauseOf) -> dict[Plant, tuple[str, float]]:
    """Where each was planted: the capture, and the second in it."""
    # The last one is asked for by a time alone: nothing else is planted beside it.
    last = int(dice.integers(1, CAPTURES - 1))
    others = dice.choice([each for each in range(CAPTURES) if abs(each - last) > 1], len(PLANTS) - 1, replace=False)
    places = [*others.tolist(), last]
    summing, planted = Summing(cause_of), dict[Plant, tuple[str, float]]()
    for number in range(CAPTURES):
        mine = [plant for plant, place in zip(PLANTS, places, strict=True) if place == number]
        begins = [float(dice.uniform(5, SECONDS - 10)) for _ in mine]
        capture = _capture(dice, number, list(zip(mine, begins, strict=True)))
        name = f"part-{number:02}"
        path = store.save(os.fsencode(folder), name.encode(), encode(capture))
        assert write_beside(path, summing.summary_of(capture))
        planted.update({plant: (name, begin) for plant, begin in zip(mine, begins, strict=True)})
    return planted


def usual_capture(dice: np.random.Generator, number: int) -> Capture:
    """What the machine does all the time, nothing planted."""
    return _capture(dice, number, [])


def _capture(dice: np.random.Generator, number: int, plants: list[tuple[Plant, float]]) -> Capture:
    """Every core is sampled at its rate; what it did is drawn, with processes that burst now and then."""
    kinds: list[tuple[str, str, tuple[str, ...]]] = [("swapper", "", ("pv_native_safe_halt",))]
    kinds += [each[:3] for each in _USUAL]
    kinds += [(plant.process, plant.cgroup, plant.stack or ("work", "inner")) for plant, _ in plants]
    ticks = RATE * SECONDS
    when = np.arange(ticks) / RATE
    columns = []
    for core in range(CORES):
        shares = np.zeros((len(kinds), ticks))
        for place, each in enumerate(_USUAL, 1):
            bursts = dice.gamma(2.0, 0.5, SECONDS // 2 + 1)[(when // 2).astype(int)]
            shares[place] = each[3] * bursts
        for place, (plant, begin) in enumerate(plants, 1 + len(_USUAL)):
            if plant.core in (None, core):
                inside = (when >= begin) & (when < begin + plant.seconds)
                shares[:, inside] *= 1 - plant.share
                shares[place, inside] = plant.share
        total = shares.sum(axis=0)
        shares[:, total > 1] /= total[total > 1]
        shares[0] = np.maximum(0, 1 - shares[1:].sum(axis=0))
        chosen = (dice.random(ticks)[None, :] > np.cumsum(shares, axis=0)).sum(axis=0).clip(0, len(kinds) - 1)
        columns.append((when + core * 1e-4, np.full(ticks, core), chosen))
    times, cpus, rows = (np.concatenate([each[place] for each in columns]) for place in range(3))
    order = np.argsort(times, kind="stable")
    return _of_rows(number, times[order], cpus[order], rows[order].astype(np.int64), kinds)


def _of_rows(
    number: int,
    times: np.ndarray[tuple[int], np.dtype[np.float64]],
    cpus: np.ndarray[tuple[int], np.dtype[np.int64]],
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    kinds: list[tuple[str, str, tuple[str, ...]]],
) -> Capture:
    names = ["", *dict.fromkeys(name for kind in kinds for name in (kind[0], *kind[2]))]
    comms, cgroups = (
        list(dict.fromkeys(kind[0] for kind in kinds)),
        ["", *dict.fromkeys(kind[1] for kind in kinds if kind[1])],
    )
    stacks = [[names.index(kind[0]), *(names.index(name) for name in kind[2])] for kind in kinds]
    lengths = np.array([len(stack) for stack in stacks], np.int64)
    frames = np.array([frame for stack in stacks for frame in stack], np.uint32)
    tree, leaves = build_tree(frames, np.cumsum(lengths) - lengths, lengths)
    in_kernel = np.array([kind[2][-1] in _OF_KERNEL or kind[0] == "swapper" for kind in kinds])
    files = [
        "" if name in comms else KERNEL if name in _OF_KERNEL or name.startswith("pv_") else "/bin/x" for name in names
    ]
    first = 10**12 + number * SECONDS * 10**9
    clock = Clock(round((WALL + number * SECONDS) * 1e9), first)
    count = len(rows)
    return Capture(
        About("planted", "host", "6.1", clock, float(RATE), ring="ring", serial=number + 1, boot="boot"),
        (first + np.round(times * 1e9)).astype(np.uint64),
        cpus.astype(np.uint16),
        np.ones(count, np.uint32),
        np.ones(count, np.uint32),
        np.where(in_kernel[rows], KERNEL_MODE, USER_MODE).astype(np.uint8),
        np.zeros(count, np.uint8),
        np.array([comms.index(kind[0]) for kind in kinds], np.uint32)[rows],
        np.array([cgroups.index(kind[1]) for kind in kinds], np.uint32)[rows],
        rows == 0,
        leaves[rows].astype(np.uint32),
        None,
        tree,
        tuple(names),
        tuple(files),
        tuple(comms),
        ("cpu-clock",),
        tuple(cgroups),
    )
