# SPDX-License-Identifier: Apache-2.0
"""Counting live memory cgroups: ours against `find ROOT -type d | wc -l`, in CPU seconds, in one run. Needs root.

Targets: the directory count of 5,000 at least 5 times faster; at 10,000 `scan --no-bytes` as a whole process below find
alone, and the full `scan` at most 1.5 times find.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from zombiescope.host.live import LiveHost
from zombiescope.probes.cgroups import read_memory_hierarchy

ROUNDS = 7


def cpu_seconds(work: Callable[[], object]) -> float:
    """User and system time of this process and the children it waited for."""
    before = _spent()
    work()
    return _spent() - before


def _spent() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def processor_time(command: list[str]) -> float:
    return cpu_seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


@contextmanager
def live_cgroups(top: Path, count: int) -> Iterator[None]:
    parent = top / "zombiescope-bench"
    parent.mkdir()
    try:
        for number in range(count):
            (parent / f"live-{number}").mkdir()
        yield
    finally:
        for child in parent.iterdir():
            if child.is_dir():
                child.rmdir()
        parent.rmdir()


def compare(title: str, ours: Callable[[], float], other: Callable[[], float]) -> None:
    """Taking turns, so that what else the machine does falls on both."""
    pairs = [(ours(), other()) for _ in range(ROUNDS)]
    mine, peer = (statistics.median(column) for column in zip(*pairs, strict=True))
    figures = f"ours {mine * 1000:7.1f} ms   find {peer * 1000:7.1f} ms"
    print(f"{title:<46} {figures}   ours/find {mine / peer:5.2f}   find/ours {peer / mine:5.1f}")


def main() -> None:
    hierarchy = read_memory_hierarchy(LiveHost())
    assert not hasattr(hierarchy, "reason"), hierarchy
    top = Path(os.fsdecode(hierarchy.mount_point))
    find = ["sh", "-c", f"find {top} -type d | wc -l"]
    scan = [sys.executable, "-m", "zombiescope", "scan", "--json"]
    host = LiveHost()
    with live_cgroups(top, 5_000):
        compare(
            "directory count, 5,000 live",
            lambda: cpu_seconds(lambda: host.directories(os.fsencode(top))),
            lambda: processor_time(find),
        )
    with live_cgroups(top, 10_000):
        compare(
            "scan --no-bytes, whole process, 10,000 live",
            lambda: processor_time([*scan, "--no-bytes"]),
            lambda: processor_time(find),
        )
        compare("scan, whole process, 10,000 live", lambda: processor_time(scan), lambda: processor_time(find))


if __name__ == "__main__":
    main()
