# SPDX-License-Identifier: Apache-2.0
"""This thread on one CPU after another: the kernel keeps fresh and freed pages in a batch of each CPU, whoever runs there.

Also on CPUs that `taskset` or a service manager left out, for others work on them. What a cpuset forbids cannot be reached.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import suppress


def every_cpu() -> Generator[int]:
    """Close it, or take it to its end: then the thread may run where it might before."""
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
