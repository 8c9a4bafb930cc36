# SPDX-License-Identifier: Apache-2.0
"""What zombies cost a neighbour: a reader under the same parent's limit, with more and more zombies. Needs root.

Prints the reader's speed, the worst single read, its system time, what our window says of reclaim, and the ratio to no zombies.
Usage: bench_reclaim_walk.py [ZOMBIES ...]; 0 1000 4000 without an argument. Everything happens below a cgroup of its own.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.kernel.confined import answer_of_child
from tests.kernel.zombie_maker import Maker

from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimKind
from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.reclaim_rates import ReclaimWindow

SECONDS = 5.0
FILE_BYTES, ROOM_BYTES, CHUNK = 192 << 20, 48 << 20, 1 << 20


def set_limit(maker: Maker, size: int) -> None:
    name = "memory.max" if (maker.top / "memory.max").exists() else "memory.limit_in_bytes"
    (maker.top / name).write_text(str(size))


def read_again_and_again(path: Path, place: bytes) -> list[float]:
    """In a cgroup of the parent: bytes a second, the worst read, system seconds."""
    with open(place + b"/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
    descriptor = os.open(path, os.O_RDONLY)
    end, size, worst = time.monotonic() + SECONDS, 0, 0.0
    while time.monotonic() < end:
        start = time.monotonic()
        part = os.pread(descriptor, CHUNK, size % FILE_BYTES)
        worst = max(worst, time.monotonic() - start)
        size += len(part)
    return [size / SECONDS, worst, resource.getrusage(resource.RUSAGE_SELF).ru_stime]


def run(zombies: int) -> float:
    with Maker(f"neighbour-{os.getpid()}-{zombies}") as maker:
        maker.many(zombies) if zombies else None
        path = maker.disk / "read-me"
        with open(path, "wb") as file:
            file.writelines(os.urandom(CHUNK) for _ in range(FILE_BYTES // CHUNK))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # what is read again is charged to the reader
        place = maker.make(b"reader")
        set_limit(maker, ROOM_BYTES + zombies * 4096 * 8)
        window = ReclaimWindow(LiveHost())
        speed, worst, system = answer_of_child(lambda: read_again_and_again(path, place))
        seen = window.seen()
        window.close()
        with suppress(OSError):
            set_limit(maker, 1 << 40)
    told = "not to be had" if isinstance(seen, Gap) else ""
    if not isinstance(seen, Gap):
        limit = next(kind for kind in seen.kinds if kind.kind is ReclaimKind.LIMIT)
        told = (
            f"{limit.calls:,} calls, {limit.seconds / max(limit.calls, 1) * 1e3:.2f} ms each, "
            f"longest {limit.longest_seconds * 1e3:.1f} ms, "
            f"{limit.cpu_seconds:.2f} s on a core, {limit.pages:,} pages"
        )
    print(
        f"{zombies:>6,} zombies: {speed / 1e6:8.1f} MB/s, worst read {worst * 1e3:7.1f} ms, system {system:.2f} s; reclaim {told}"
    )
    return float(speed)


def main(counts: list[int]) -> None:
    speeds = {count: run(count) for count in counts}
    first = speeds[counts[0]]
    for count in counts[1:]:
        print(f"{count:,} zombies: {first / speeds[count]:.1f} times slower than with {counts[0]:,}")


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [0, 1000, 4000])
