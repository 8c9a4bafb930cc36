# SPDX-License-Identifier: Apache-2.0
"""Stacks given by name, gathered into a capture; and which of a capture's stacks are to be written."""

from array import array
from dataclasses import dataclass, field

import numpy as np

from zombiescope.profiler.perf.frames import Frames, plain_name
from zombiescope.profiler.stacks.arrays import I64, U64, dense_ids
from zombiescope.profiler.stacks.call_tree import build_tree
from zombiescope.profiler.stacks.capture import (
    KERNEL_MODE,
    USER_MODE,
    About,
    BrokenCapture,
    Capture,
    Selection,
    is_kernel_file,
    judge_idle,
    row_numbers,
)

Frame = tuple[str, str]
_MANGLED = ("_Z", "_R")
MOST_DEPTH = 16_384
_LEAST_FRAMES, _MOST_FRAMES_PER_BYTE = 1 << 18, 2
"""Of all distinct stacks together. A frame of text takes two bytes and more; profiles that refer to places or open and close
calls say more with a byte, seldom much."""
_AGAIN = 4
"""A stack that is known already takes time and no memory: it counts for a quarter."""
_MOST_NUMBER = (1 << 62) - 1
_COLUMNS = 8


@dataclass(slots=True)
class Gathering:
    """One row a sample. Stacks are root first, without the thread's name, which becomes their outermost frame."""

    input_bytes: int = 0
    demangle: bool = True
    """C++, Rust and Go names as their authors wrote them."""
    frames: Frames = field(default_factory=Frames)
    comms: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    stacks: list[tuple[int, ...]] = field(default_factory=list)
    rows: "array[int]" = field(default_factory=lambda: array("Q"))
    """Of each sample, one after the other: stack, time, core, pid, tid, comm, event, weight."""
    now_of: str = "samples"
    """The event that the samples are of which are added from now on."""
    _known: dict[tuple[int, ...], int] = field(default_factory=dict)
    _plainly: dict[Frame, Frame] = field(default_factory=dict)
    _held: int = 0

    def stack_number(self, comm: str, frames: list[Frame]) -> int:
        numbers = (self.frames.add(comm, ""), *(self.frames.add(*self._plain(frame)) for frame in frames[:MOST_DEPTH]))
        number = self._known.setdefault(numbers, len(self.stacks))
        if number == len(self.stacks):
            self.stacks.append(numbers)
            self._held += _AGAIN * len(numbers)
        self._held += len(numbers)
        if self._held > _AGAIN * (_LEAST_FRAMES + _MOST_FRAMES_PER_BYTE * self.input_bytes):
            raise BrokenCapture(
                f"its stacks unfold to {self._held // _AGAIN:,} frames and more", "it is damaged, or made to do harm"
            )
        return number

    def _plain(self, frame: Frame) -> Frame:
        if not self.demangle or not frame[0].startswith(_MANGLED):
            return frame
        if frame not in self._plainly:
            self._plainly[frame] = (plain_name(frame[0]), frame[1])
        return self._plainly[frame]

    def add(
        self, stack: int, comm: str, *, time: int = 0, cpu: int = 0, thread: tuple[int, int] = (0, 0), weight: int = 1
    ) -> None:
        self.rows.extend(
            (
                stack,
                min(time, _MOST_NUMBER),
                min(cpu, _MOST_NUMBER),
                thread[0] & 0xFFFFFFFF,
                thread[1] & 0xFFFFFFFF,
                self.comms.setdefault(comm, len(self.comms)),
                self.events.setdefault(self.now_of, len(self.events)),
                min(weight, _MOST_NUMBER),
            )
        )

    def capture(self, about: About) -> Capture:
        if not self.rows:
            raise BrokenCapture("it holds no stack", "is it the right file?")
        lengths = np.array([len(stack) for stack in self.stacks], np.int64)
        flat = np.fromiter((frame for stack in self.stacks for frame in stack), np.uint32, int(lengths.sum()))
        tree, leaves = build_tree(flat, np.cumsum(lengths) - lengths, lengths)
        rows = np.frombuffer(self.rows, np.uint64).reshape(-1, _COLUMNS)
        stack, time, cpu, pid, tid, comm, event, weight = rows[np.argsort(rows[:, 1], kind="stable")].T
        node = leaves[stack.astype(np.int64)].astype(np.uint32)
        kernel_file = np.array([is_kernel_file(file) for file in self.frames.files], bool)
        return Capture(
            about,
            time.copy(),
            np.minimum(cpu, 65_535).astype(np.uint16),
            pid.astype(np.uint32),
            tid.astype(np.uint32),
            np.where(kernel_file[tree.frame[node]], KERNEL_MODE, USER_MODE).astype(np.uint8),
            np.minimum(event, 255).astype(np.uint8),
            comm.astype(np.uint32),
            np.zeros(len(rows), np.uint32),
            judge_idle(pid, node, tree, self.frames.names),
            node,
            None if bool((weight == 1).all()) else weight.copy(),
            tree,
            tuple(self.frames.names),
            tuple(self.frames.files),
            tuple(self.comms),
            tuple(self.events),
            ("",),
        )


@dataclass(frozen=True, slots=True)
class Taken:
    """What of a capture is to be written: rows, the distinct nodes among them, and each node's frames root first."""

    rows: I64
    nodes: I64
    node_of: I64
    """For each row, which of the distinct nodes."""
    weights: U64


def taken(capture: Capture, selection: Selection) -> Taken:
    rows = row_numbers(capture, selection)
    if not len(rows):
        raise BrokenCapture("no sample is in that range with those filters", "choose a wider range")
    nodes = capture.node[rows]
    ids, chosen = dense_ids(nodes.astype(np.uint64))
    weights = np.ones(len(rows), np.uint64) if capture.weight is None else capture.weight[rows]
    return Taken(rows, nodes[chosen].astype(np.int64), ids, weights)
