# SPDX-License-Identifier: Apache-2.0
"""Fresh pages wait in a batch of each CPU before they reach the list where a walk can find them.

The kernel empties a CPU's batches itself before it ages pages of a process there, so we ask it to age one page of ours, on
every CPU we may run on. Nothing but the place of pages on their way changes, and only as it would a moment later.
"""

from __future__ import annotations

import mmap
import os

from zombiescope.host.page_size import PAGE_BYTES

_MADV_COLD = 20  # kernels from 5.4; where it is refused the batches stay as they are


def settle_batches() -> None:
    try:
        allowed = os.sched_getaffinity(0)
    except OSError:
        return
    with mmap.mmap(-1, PAGE_BYTES) as page:
        page[0] = 1
        try:
            for cpu in allowed:
                os.sched_setaffinity(0, {cpu})
                page.madvise(_MADV_COLD)
        except OSError:  # a CPU went offline, or an older kernel
            pass
        finally:
            os.sched_setaffinity(0, allowed)
