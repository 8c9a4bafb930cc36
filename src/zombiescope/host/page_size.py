# SPDX-License-Identifier: Apache-2.0
"""Pages: how large one is, the one place that asks the system, and the one that asks a machine; and the batches of fresh and freed
ones, which the kernel keeps for each CPU, whoever runs there.

A recording keeps the size: a machine with pages of 16 or 64 KiB is told in its own, wherever it is replayed.
"""

import mmap
import os
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zombiescope.host.access import Host

PAGE_BYTES = mmap.PAGESIZE
"""Of the kernel that runs us. What is told about a machine is counted in `page_bytes_of`."""

_SMALLEST, _LARGEST = 1 << 12, 1 << 20


def page_bytes_of(host: "Host") -> int:
    """Of a machine; of a folder or a recording that does not say, what nearly every machine has."""
    from zombiescope.facts.cgroups import PAGE_BYTES_UNTOLD  # noqa: PLC0415 (most ask for the size of our own)

    told = (host.experiment("page_bytes", lambda: {"bytes": PAGE_BYTES}) or {}).get("bytes")
    if isinstance(told, int) and _SMALLEST <= told <= _LARGEST and not told & (told - 1):
        return told
    return PAGE_BYTES_UNTOLD


def every_cpu() -> Generator[int]:
    """This thread on one CPU after another, also on those that `taskset` or a service manager left out, for others work on them.
    What a cpuset forbids cannot be reached. Close it, or take it to its end: then the thread may run where it might before."""
    allowed = os.sched_getaffinity(0)
    try:
        for cpu in sorted(allowed | set(range(os.sysconf("SC_NPROCESSORS_CONF")))):
            try:
                os.sched_setaffinity(0, {cpu})
            except OSError:  # offline, or not ours to use
                continue
            yield cpu
    finally:
        with suppress(OSError):  # all of them went offline
            os.sched_setaffinity(0, allowed)
