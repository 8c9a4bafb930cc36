# SPDX-License-Identifier: Apache-2.0
"""What a process was seen doing, put into captures in which it did not run: its samples take the places of others, as it would
have taken their cores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zombiescope.profiler.stacks.call_tree import build_tree
from zombiescope.profiler.stacks.capture import Capture

Frame = tuple[str, str]
"""Function and file."""


class Take(NamedTuple):
    """What one process was seen doing."""

    stacks: tuple[tuple[Frame, ...], ...]
    """The outermost first; that one, the thread's name, is put there anew."""
    modes: tuple[int, ...]
    counts: tuple[int, ...]


class Part(NamedTuple):
    """A stretch of a capture in which it is to have run."""

    take: Take
    process: str
    cgroup: str
    """Empty: that of whoever had the place."""
    core: int | None
    """None: on all of them."""
    begin: float
    seconds: float
    share: float
    """Of the time of each of those cores."""


def take_of(capture: Capture, process: str) -> Take | None:
    """None: no sample of it was taken."""
    if process not in capture.comms:
        return None
    rows = np.flatnonzero((capture.comm == capture.comms.index(process)) & ~capture.idle)
    pairs, counts = np.unique(np.stack([capture.node[rows], capture.mode[rows]]), axis=1, return_counts=True)
    stacks = _stacks(capture)
    found = tuple(stacks[node][1:] for node in pairs[0].tolist())
    return Take(found, tuple(pairs[1].tolist()), tuple(counts.tolist())) if len(rows) else None


def _stacks(capture: Capture) -> list[tuple[Frame, ...]]:
    """Of each node."""
    names = list(zip(capture.frame_names, capture.frame_files, strict=True))
    ends, found = (np.arange(len(capture.tree.size)) + capture.tree.size).tolist(), list[tuple[Frame, ...]]([()])
    open_ones = [0]
    for node, frame in enumerate(capture.tree.frame.tolist()[1:], 1):
        while ends[open_ones[-1]] <= node:
            open_ones.pop()
        found.append((*found[open_ones[-1]], names[frame]))
        open_ones.append(node)
    return found


def put_into(capture: Capture, parts: list[Part], dice: np.random.Generator) -> Capture:
    """The same capture, with them in it."""
    frames = {name: number for number, name in enumerate(zip(capture.frame_names, capture.frame_files, strict=True))}
    comms, cgroups = list(capture.comms), list(capture.cgroups)
    stacks = [tuple(frames[name] for name in stack) for stack in _stacks(capture)]
    node, mode, idle = capture.node.copy(), capture.mode.copy(), capture.idle.copy()
    comm, cgroup, pid, tid = capture.comm.copy(), capture.cgroup.copy(), capture.pid.copy(), capture.tid.copy()
    after = (capture.time - capture.time[0]).astype(np.float64) / 1e9
    for part in parts:
        inside = (after >= part.begin) & (after < part.begin + part.seconds)
        if part.core is not None:
            inside &= capture.cpu == part.core
        rows = np.flatnonzero(inside)
        rows = rows[dice.random(len(rows)) < part.share]
        odds = np.array(part.take.counts, float)
        drawn = dice.choice(len(odds), len(rows), p=odds / odds.sum())
        first, base = _number(frames, (part.process, "")), len(stacks)
        stacks += [(first, *(_number(frames, one) for one in stack)) for stack in part.take.stacks]
        node[rows], mode[rows], idle[rows] = base + drawn, np.array(part.take.modes, np.uint8)[drawn], False
        comm[rows], pid[rows], tid[rows] = _place(comms, part.process), 1 << 21, 1 << 21
        if part.cgroup:
            cgroup[rows] = _place(cgroups, part.cgroup)
    lengths = np.array([len(stack) for stack in stacks], np.int64)
    flat = np.array([frame for stack in stacks for frame in stack], np.uint32)
    used, where = np.unique(node, return_inverse=True)
    tree, leaves = build_tree(flat, (np.cumsum(lengths) - lengths)[used], lengths[used])
    return Capture(
        capture.about, capture.time, capture.cpu, pid, tid, mode, capture.event, comm, cgroup, idle,
        leaves[where].astype(np.uint32), capture.weight, tree, tuple(name for name, _ in frames),
        tuple(file for _, file in frames), tuple(comms), capture.events, tuple(cgroups),
    )  # fmt: skip


def _number(frames: dict[Frame, int], frame: Frame) -> int:
    return frames.setdefault(frame, len(frames))


def _place(names: list[str], name: str) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)
