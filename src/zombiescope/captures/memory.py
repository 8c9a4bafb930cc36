# SPDX-License-Identifier: Apache-2.0
"""Memory for an import: asked for in large pages, and kept when a step frees it. Fresh small pages, which the kernel clears one by
one, would cost a fifth of an import."""

from __future__ import annotations

import ctypes

from zombiescope.host.page_size import PAGE_BYTES

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_KEPT = (1 << 31) - 1
_LARGEST = 1 << 30
_LARGE_PAGES = 14


def prepare(expected_bytes: int) -> bool:
    """Until the process ends; for commands that work once and go. False where the C library has no such choice."""
    try:
        library = ctypes.CDLL(None)
        choose, take, give_back, advise = library.mallopt, library.malloc, library.free, library.madvise
    except (OSError, AttributeError):
        return False
    take.restype, take.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    give_back.argtypes = (ctypes.c_void_p,)
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if not choose(_MMAP_THRESHOLD, _LARGEST) or not choose(_TRIM_THRESHOLD, _MOST_KEPT):
        return False
    # Nothing is touched here: the allocator gets a stretch of addresses and keeps it, the kernel is told how to fill it.
    block = take(min(expected_bytes, _LARGEST))
    if block:
        begin = -(-block // PAGE_BYTES) * PAGE_BYTES
        advise(begin, (block + min(expected_bytes, _LARGEST) - begin) // PAGE_BYTES * PAGE_BYTES, _LARGE_PAGES)
        give_back(block)
    return True
