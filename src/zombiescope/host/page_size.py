# SPDX-License-Identifier: Apache-2.0
"""How large a page is: the one place that asks the system, and the one that asks a machine.

A recording keeps the answer: a machine with pages of 16 or 64 KiB is told in its own, wherever it is replayed.
"""

from __future__ import annotations

import mmap

from zombiescope.facts.cgroups import PAGE_BYTES_UNTOLD
from zombiescope.host.access import Host

PAGE_BYTES = mmap.PAGESIZE
"""Of the kernel that runs us. What is told about a machine is counted in `page_bytes_of`."""
_EXPERIMENT = "page_bytes"
_SMALLEST, _LARGEST = 1 << 12, 1 << 20


def page_bytes_of(host: Host) -> int:
    """Of a machine; of a folder or a recording that does not say, what nearly every machine has."""
    outcome = host.experiment(_EXPERIMENT, lambda: {"bytes": PAGE_BYTES}) or {}
    told = outcome.get("bytes")
    if isinstance(told, int) and _SMALLEST <= told <= _LARGEST and not told & (told - 1):
        return told
    return PAGE_BYTES_UNTOLD
