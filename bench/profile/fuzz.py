# SPDX-License-Identifier: Apache-2.0
"""Mutated perf.data by the thousand: an error that says where, or a partial capture that says what is missing; nothing else.

fuzz.py [COUNT] [SEED] [LIBRARY]: with a library, imports run through that build of the scanner as well (tests give it one with
sanitizers). Every mutation has a time and a memory limit.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from pathlib import Path

from tests.unit.profiling.perf_files import TOOLS, small_capture

from zombiescope.captures.scanner import Scanner
from zombiescope.profiling.broken import BrokenCapture
from zombiescope.profiling.capture_codec import decode, encode
from zombiescope.profiling.perf_import import Tools, import_perf

MOST_SECONDS, MOST_BYTES = 5.0, 2 << 30
INTERESTING = (0, 1, 7, 8, 9, 0x7F, 0x80, 0xFF, 81, 66, 71)


def mutated(raw: bytes, dice: random.Random) -> bytes:
    out = bytearray(raw)
    for _ in range(dice.choice((1, 1, 1, 2, 4, 16, 64))):
        place = dice.randrange(len(out))
        match dice.randrange(4):
            case 0:
                out[place] = dice.choice(INTERESTING)
            case 1:
                out[place] ^= 1 << dice.randrange(8)
            case 2:
                out[place & ~7 : (place & ~7) + 8] = dice.choice((b"\xff" * 8, b"\0" * 8, dice.randbytes(8)))
            case _:
                other = dice.randrange(len(out))
                out[place : place + 8] = out[other : other + 8]
    if dice.random() < 0.15:
        del out[dice.randrange(len(out)) :]
    return bytes(out)


def attempt(raw: bytes, tools: Tools) -> tuple[str, int]:
    begin = time.monotonic()
    try:
        capture = import_perf(raw, tools, "fuzz")
    except BrokenCapture as error:
        assert error.why
        outcome, rows = "refused", 0
    else:
        assert len(decode(b"".join(encode(capture)))) == len(capture)
        outcome, rows = "partial" if capture.about.gaps else "whole", len(capture)
    assert time.monotonic() - begin < MOST_SECONDS * 10, "it hangs"
    return outcome, rows


def main() -> None:
    count, seed = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1
    engines = [TOOLS]
    if len(sys.argv) > 3:
        engines.append(TOOLS._replace(engine=Scanner(Path(sys.argv[3]))))
        # A sanitizer's shadow memory is address space too: only its own checks limit it.
    else:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    dice = random.Random(seed)
    built = small_capture()
    seeds = [built.file()[:5000], built.pipe()[:5000], small_capture().lost(1, 3).file()]
    outcomes: dict[str, int] = {}
    for _ in range(count):
        raw = mutated(dice.choice(seeds), dice)
        answers = [attempt(raw, tools) for tools in engines]
        assert len(set(answers)) == 1, f"the engines differ: {answers}"
        for outcome, _ in answers:
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{count:,} mutations, {len(engines)} engines: {outcomes}; peak {peak} MB")


if __name__ == "__main__":
    main()
