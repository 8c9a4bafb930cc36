# SPDX-License-Identifier: Apache-2.0
"""Labelled captures for `find`: built ones from a seed, each with what really happened; quiet, noisy and saturated hosts.

A host of 2 to 8 cores sampled at 99 or 199 Hz. Every core has a kernel share of its own that wanders; neighbours burst; now and
then one core is saturated by a kernel stack, alone or while user code competes for it. Samples are drawn, some get lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zombiescope.profiler.stacks.call_tree import build_tree
from zombiescope.profiler.stacks.capture import KERNEL_MODE, USER_MODE, About, Capture

FRAMES = (
    "swapper",
    "pv_native_safe_halt",
    "app",
    "main",
    "do_syscall_64",
    "vfs_read",
    "mem_cgroup_css_rstat_flush",
    "net_rx_action",
)
FILES = ("", "[kernel]", "", "/bin/app", "[kernel]", "[kernel]", "[kernel]", "[kernel]")
STACKS = ((0, 1), (2, 3), (2, 3, 4, 5), (2, 3, 4, 6), (0, 7))
IDLE, USER, SYSCALL, FLUSH, SOFTIRQ = range(5)


@dataclass(frozen=True, slots=True)
class Truth:
    cpu: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Labelled:
    kind: str
    capture: Capture
    truths: tuple[Truth, ...]


def build(seed: int) -> Labelled:
    dice = np.random.default_rng(seed)
    kind = ("quiet", "noisy", "saturated", "saturated among noise", "several")[seed % 5]
    rate, cores, seconds = float(dice.choice((99, 199))), int(dice.integers(2, 9)), int(dice.integers(30, 61))
    ticks = int(rate * seconds)
    when = np.arange(ticks) / rate
    kernel, busy = np.empty((cores, ticks)), np.empty((cores, ticks))
    for core in range(cores):
        noisy = kind in ("noisy", "saturated among noise", "several") and dice.random() < 0.8
        busy[core] = np.clip(dice.uniform(0.05, 0.4) + _wander(dice, ticks, rate, 0.1), 0.01, 1)
        kernel[core] = np.clip(dice.uniform(0.1, 0.3) + _wander(dice, ticks, rate, 0.05), 0.02, 0.6)
        for _ in range(int(dice.integers(2, 8)) if noisy else 0):
            _burst(dice, when, busy[core], kernel[core], seconds)
    truths: list[Truth] = []
    for _ in range({"saturated": 1, "saturated among noise": 1, "several": 3}.get(kind, 0)):
        core, length = int(dice.integers(cores)), float(dice.uniform(0.8, 6.0))
        begin = float(dice.uniform(2.0, seconds - length - 1.0))
        if any(one.cpu == core and begin < one.end + 1.5 and one.begin - 1.5 < begin + length for one in truths):
            continue
        inside = (when >= begin) & (when < begin + length)
        busy[core][inside] = 1.0
        kernel[core][inside] = dice.uniform(0.78, 1.0)
        truths.append(Truth(core, begin, begin + length))
    return Labelled(kind, _sampled(dice, busy, kernel, when, rate, truths), tuple(truths))


def _wander(dice: np.random.Generator, ticks: int, rate: float, size: float) -> np.ndarray:
    steps = dice.normal(0, size, int(ticks / rate) + 2)
    return np.interp(np.arange(ticks) / rate, np.arange(len(steps)), steps)


def _burst(dice: np.random.Generator, when: np.ndarray, busy: np.ndarray, kernel: np.ndarray, seconds: int) -> None:
    """A neighbour: user code with ordinary system calls for seconds, or a very short stretch of kernel work."""
    begin = dice.uniform(0, seconds)
    if dice.random() < 0.3:
        inside = (when >= begin) & (when < begin + dice.uniform(0.05, 0.25))
        busy[inside], kernel[inside] = 1.0, 0.95
    else:
        inside = (when >= begin) & (when < begin + dice.uniform(1, 8))
        busy[inside], kernel[inside] = dice.uniform(0.7, 1.0), dice.uniform(0.05, 0.4)


def _sampled(
    dice: np.random.Generator, busy: np.ndarray, kernel: np.ndarray, when: np.ndarray, rate: float, truths: list[Truth]
) -> Capture:
    cores, ticks = busy.shape
    works = dice.random((cores, ticks)) < busy
    in_kernel = works & (dice.random((cores, ticks)) < kernel)
    stack = np.where(in_kernel, SYSCALL, np.where(works, USER, IDLE))
    stack[(~works) & (dice.random((cores, ticks)) < 0.02)] = SOFTIRQ
    for truth in truths:
        stack[truth.cpu][(when >= truth.begin) & (when < truth.end) & in_kernel[truth.cpu]] = FLUSH
    there = dice.random((cores, ticks)) > 0.02
    core, tick = np.nonzero(there)
    order = np.argsort(tick, kind="stable")
    core, tick = core[order], tick[order]
    chosen = stack[core, tick]
    lengths = np.array([len(one) for one in STACKS])
    tree, leaves = build_tree(
        np.array([f for s in STACKS for f in s], np.uint32), np.cumsum(lengths) - lengths, lengths
    )
    comm = np.where((chosen == IDLE) | (chosen == SOFTIRQ), 0, 1).astype(np.uint32)
    zeros = np.zeros(len(chosen), np.uint32)
    return Capture(
        About("built", rate_hz=rate),
        (when[tick] * 1e9).astype(np.uint64) + core.astype(np.uint64),
        core.astype(np.uint16),
        comm * np.uint32(7),
        comm * np.uint32(7),
        np.where(chosen == USER, USER_MODE, KERNEL_MODE).astype(np.uint8),
        zeros.astype(np.uint8),
        comm,
        zeros,
        chosen == IDLE,
        leaves[chosen].astype(np.uint32),
        None,
        tree,
        FRAMES,
        FILES,
        ("swapper", "app"),
        ("cpu-clock",),
        ("",),
    )
