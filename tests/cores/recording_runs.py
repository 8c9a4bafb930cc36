# SPDX-License-Identifier: Apache-2.0
"""Records the labelled runs: `python -m tests.cores.recording_runs` as root, on a host with two cores or more and a v1 hierarchy.

Each run is a window of the product's own reader over a real load, kept as a recording that `zombiescope cores --root` replays, and
the truth of the load's own clock. A run in which somebody else was in the kernel for long (told by sampled call chains, a witness
that the detector does not use) is thrown away and made again. Goes on where it ended; an argument says how many runs at most.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.cores.holding import Truth, hold, reclaim, zombies

from zombiescope import __version__
from zombiescope.host.bundle import pack, publish
from zombiescope.host.live import LiveHost
from zombiescope.host.recorder import RecordingHost
from zombiescope.host.recording import Header
from zombiescope.host.scrub import Scrubber
from zombiescope.probes.readers.kernel_stacks import RATE_HZ, KernelStacks, open_kernel_stacks
from zombiescope.watching.cores import DetailedCoresWatch

FOLDER = Path(__file__).parent / "runs"
LABELS = FOLDER / "labels.json"
SECONDS = 6.0
PLAN = {
    "tuning": (("zeros", 2.0), ("reclaim", 2.0), ("user", 2.0), ("sleep", 2.0)) * 3
    + (("crypt", 2.0), ("maps", 2.0), ("names", 2.0), ("half", 2.0)) * 3,
    "unseen": (("pipes", 2.0), ("cached", 2.0), ("stats", 2.0), ("digest", 2.0)) * 6,
    "later": (
        ("sockets", 1.6), ("holes", 2.2), ("faults", 3.0), ("renames", 1.8),
        ("parse", 2.4), ("packing", 1.6), ("naps", 3.0),
    ) * 2,
}  # fmt: skip
_SLICE_SECONDS = 0.5
_FOREIGN_SHARE = 0.5
_MOST_TRIES = 40


def record(load: str, seconds: float, core: int, file: Path) -> Truth | None:
    """None: somebody else was in the kernel for long."""
    host = RecordingHost(LiveHost(), Scrubber(keeps_names=True))
    window = DetailedCoresWatch(host)
    begin_step = random.randint(12, 20)
    with ExitStack() as left:
        start = reclaim(left.enter_context(zombies(3000))) if load == "reclaim" else None
        time.sleep(1.0)
        stacks = open_kernel_stacks(LiveHost(), [0, 1])
        assert isinstance(stacks, KernelStacks), stacks
        left.callback(stacks.close)
        truth = None
        window.look()
        for step in range(round(SECONDS * 10)):
            if step == begin_step:
                truth = hold(load, core, seconds, start)
            host.wait(0.1)
            window.look()
            if step % 5 == 0:
                stacks.drain()
        assert truth is not None
        told = truth()
        stacks.drain()
    if is_disturbed(stacks, told):
        return None
    publish(str(file), pack(Header(__version__, "a labelled run"), host.answers), replace=True)
    return told


def is_disturbed(stacks: KernelStacks, truth: Truth) -> bool:
    offset = time.time() - time.perf_counter()
    foreign: Counter[tuple[int, int]] = Counter()
    for sample in stacks._samples:
        at = sample.at + offset
        is_its_own = sample.core == truth.core and truth.begin <= at <= truth.begin + truth.seconds
        if not is_its_own:
            foreign[sample.core, int(at / _SLICE_SECONDS)] += 1
    return max(foreign.values(), default=0) > _FOREIGN_SHARE * RATE_HZ * _SLICE_SECONDS


def main(most: int) -> None:
    FOLDER.mkdir(exist_ok=True)
    labels: list[dict[str, Any]] = json.loads(LABELS.read_text()) if LABELS.exists() else []
    recorded = {label["file"] for label in labels}
    for half, plan in PLAN.items():
        for number, (load, seconds) in enumerate(plan):
            file = FOLDER / f"{half}-{number:02}-{load}.tar.gz"
            if file.name in recorded or not most:
                continue
            most -= 1
            for _ in range(_MOST_TRIES):
                truth = record(load, seconds * random.choice((0.6, 1.0, 1.3)), number // 4 % 2, file)
                if truth is not None:
                    break
            else:
                sys.exit(f"{file.name}: the host is never quiet")
            labels.append({"file": file.name, "half": half, **truth._asdict(), "saturates": truth.is_saturating})
            print(f"{file.name:<28} {truth.seconds:.2f} s, kernel {truth.kernel_seconds:.2f} s", flush=True)
            LABELS.write_text(json.dumps(labels, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else -1)
