# SPDX-License-Identifier: Apache-2.0
"""Pushes out of the kernel's per-CPU batches what keeps a few dead cgroups after their pins are gone.

Seen: freed pages wait in the batch of pages to be added to the LRU lists (all kernels); freed swap entries wait in the
cache of swap slots (6.1, 6.12); an inode that was dirtied inside stays with the dead cgroup's writeback structure until it
is written and some cgroup goes offline (v2); a CPU's stock of charges remembers its last few cgroups (7.2).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from zombiescope.host.every_cpu import every_cpu
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.lab.hierarchy import MemoryHierarchy, reclaim
from zombiescope.lab.names import LAB
from zombiescope.lab.pins.files import sync_filesystem

_BATCH_PAGES = 64
_SWAP_BATCH_PAGES = 160
_MADV_PAGEOUT = 21
_STOCK_CGROUPS = 24


def drain_pages() -> None:
    """Fresh pages through every CPU's batch."""
    _on_every_cpu(lambda descriptor: os.write(descriptor, b"d" * PAGE_BYTES * _BATCH_PAGES))


def drain_swap() -> None:
    """Fresh swap entries, made and freed on every CPU: the 65th that a CPU frees pushes the first 64 out of its cache."""
    _on_every_cpu(_swap_out_and_free)


def _swap_out_and_free(descriptor: int) -> None:
    size = PAGE_BYTES * _SWAP_BATCH_PAGES
    os.ftruncate(descriptor, size)
    with mmap.mmap(descriptor, size) as view:
        view[:] = b"d" * size
        view.madvise(_MADV_PAGEOUT)
        # Read back, page by page: that waits for the write to end and frees the entry. To free one that is still being written
        # leaves it behind, in the swap cache, and nothing is pushed out.
        for start in range(0, size, PAGE_BYTES):
            view[start]
    os.ftruncate(descriptor, 0)


def _on_every_cpu(work: Callable[[int], object]) -> None:
    descriptor = os.memfd_create(LAB)
    try:
        with closing(every_cpu()) as cpus:
            for _ in cpus:
                work(descriptor)
    finally:
        os.close(descriptor)


def push_out(hierarchy: MemoryHierarchy, subtree: str, attempt: int) -> None:
    """The cheap ways at once, the dear ones when they were not enough."""
    drain_pages()
    reclaim(hierarchy.folder(subtree))
    if attempt % 20 != 2:
        return
    sync_filesystem("/")
    charge_elsewhere(hierarchy, subtree)
    if _has_swap():
        drain_swap()


def charge_elsewhere(hierarchy: MemoryHierarchy, subtree: str) -> None:
    """No CPU's stock of charges remembers the dead below `subtree` any more."""
    for cpu in list(every_cpu()):
        _charge_on(hierarchy, subtree, cpu)


def _charge_on(hierarchy: MemoryHierarchy, subtree: str, cpu: int) -> None:
    """Other cgroups take the places of a CPU's stock. Their deaths also make the kernel look at dead writeback structures."""
    paths = [f"{subtree}/nudge{number}" for number in range(_STOCK_CGROUPS)]
    for path in paths:
        hierarchy.make(path)
    child = os.fork()
    if child == 0:
        _hop_and_charge(hierarchy, paths, cpu)
    os.waitpid(child, 0)
    for path in paths:
        hierarchy.remove(path)


def _hop_and_charge(hierarchy: MemoryHierarchy, paths: list[str], cpu: int) -> NoReturn:
    try:
        os.sched_setaffinity(0, {cpu})
        for path in paths:
            hierarchy.enter(path)
            with mmap.mmap(-1, PAGE_BYTES, mmap.MAP_PRIVATE) as page:
                page[0] = 1
    finally:
        os._exit(0)


def _has_swap() -> bool:
    try:
        return len(Path("/proc/swaps").read_text().splitlines()) > 1
    except OSError:
        return False
