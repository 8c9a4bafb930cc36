# SPDX-License-Identifier: Apache-2.0
"""Mutated perf.data by the thousand: an error that says where, or a partial capture that says what is missing; nothing else.

fuzz.py [COUNT] [--seed N] [--scanner LIBRARY] [--sanitized] [FILE ...]: files are real captures, mutated beside those built here
(file and pipe mode, several events, lost records, compressed). Each mutation is imported by numpy and, where there is one, by the
scanner, and both must say the same. One that hangs ends the run with its stack, one that wants more than 2 GB too. `--sanitized`:
the library was built with the compiler's sanitizers, whose own checks limit memory.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import re
import resource
import signal
import struct
import sys
import time
from collections import Counter
from dataclasses import fields
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.profiler.perf_files import TOOLS, PerfFileBuilder, record, small_capture
from tests.unit.zstd_frames import zstd_packed

from zombiescope.profiler.files.columns import Library, UnusualError
from zombiescope.profiler.files.columns import library as built_library
from zombiescope.profiler.files.direct import Wanted, import_directly
from zombiescope.profiler.files.reading import Choices, decompressor_factory, tools_for
from zombiescope.profiler.files.scanner import Scanner, built_scanner
from zombiescope.profiler.files.symbol_files import SymbolFiles
from zombiescope.profiler.formats.capture_file import decode, encode
from zombiescope.profiler.perf.data_file import open_perf
from zombiescope.profiler.perf.engine import Engine
from zombiescope.profiler.perf.importing import Tools, import_perf
from zombiescope.profiler.stacks.capture import BrokenCapture, Capture

MOST_SECONDS, MOST_BYTES = 60, 2 << 30
INTERESTING = (0, 1, 7, 8, 9, 0x7F, 0x80, 0xFF, 81, 66, 71)
LENGTHS = (0, 1, 7, 8, 16, 40, 0x7FF8, 0xFFF8, 0xFFFF)


NOWHERE = b"/zombiescope-there-is-no-such-folder"
DIRECT = Wanted(NOWHERE, SymbolFiles(NOWHERE), name_callers=True)
LIKE_DIRECT = tools_for(Choices(NOWHERE, cwd_root=NOWHERE))
"""Nothing of this machine is opened, on either way."""


def difference(one: Capture, other: Capture) -> str:
    """The first part in which they are not the same."""
    for part in fields(Capture):
        mine, theirs = getattr(one, part.name), getattr(other, part.name)
        pairs = zip(mine, theirs, strict=True) if part.name == "tree" else [(mine, theirs)]
        for left, right in pairs:
            if not (np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right):
                return f"{part.name}: {left} and {right}"
    return ""


class Seed:
    """A whole capture and where its records begin."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        opened = open_perf(raw)
        self.is_pipe = opened.is_pipe
        self.records: list[int] = []
        at = opened.data_from
        while at + 8 <= min(opened.data_to, len(raw)):
            self.records.append(at)
            at += max(8, int(struct.unpack_from("<H", raw, at + 6)[0]))


def compressed() -> bytes:
    """As `perf record -z` writes it: the samples in records of zstd, the rest plain."""
    built = small_capture()
    samples = zstd_packed(b"".join(built.records[2:40]))
    return PerfFileBuilder(records=[*built.records[:2], record(81, 0, samples)]).file()


def several() -> bytes:
    built = small_capture()
    built.ids = ((7,), (8, 9))
    built.lost(1, 3).ksymbol(2, 0xFFFFFFFFC0000000, 64, b"bpf_prog_x").fork(3, 11, 10).comm(4, 11, b"x", is_exec=True)
    built.sample(5_000_000_500, 1, 11, [], number=9)
    built.records = built.records[:60] + built.records[-5:]
    return built.file()


def seeds(files: list[str]) -> list[Seed]:
    few, all_of_it = PerfFileBuilder(records=small_capture().records[:60]), small_capture()
    raws = [few.file(), few.pipe(), all_of_it.file(), several(), compressed()]
    return [Seed(raw) for raw in raws + [Path(file).read_bytes() for file in files]]


def mutated(seed: Seed, dice: random.Random) -> bytes:
    out = bytearray(seed.raw)
    for _ in range(dice.choice((1, 1, 1, 2, 4, 16, 64))):
        place = dice.randrange(len(out))
        match dice.randrange(6):
            case 0:
                out[place] = dice.choice(INTERESTING)
            case 1:
                out[place] ^= 1 << dice.randrange(8)
            case 2:
                out[place & ~7 : (place & ~7) + 8] = dice.choice((b"\xff" * 8, b"\0" * 8, dice.randbytes(8)))
            case 3:
                other = dice.randrange(len(out))
                out[place : place + 8] = out[other : other + 8]
            case 4:
                struct.pack_into("<H", out, dice.choice(seed.records) + 6, dice.choice(LENGTHS))
            case _:
                at = dice.choice(seed.records)
                inside = min(at + 8 * dice.randrange(1, 10), len(out) - 8) & ~7
                struct.pack_into("<Q", out, inside, dice.choice((0, 1, 127, 1 << 31, (1 << 61) + 1, (1 << 64) - 1)))
    if dice.random() < 0.15:
        del out[dice.randrange(len(out)) :]
    return bytes(out)


class Attempts:
    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.slowest = 0.0

    def make_directly(self, raw: bytes, made: Library, likewise: tuple[str, int]) -> None:
        """The way without numpy: the same file as a capture, or it leaves that to the other."""
        signal.alarm(MOST_SECONDS)
        try:
            direct = import_directly(memoryview(bytearray(raw)), "fuzz", DIRECT, made)
            stored = b"".join(direct.pieces)
        except (UnusualError, BrokenCapture):
            self.outcomes["left to numpy"] += 1
            return
        finally:
            signal.alarm(0)
        self.outcomes["direct"] += 1
        assert difference(decode(stored), import_perf(raw, LIKE_DIRECT, "fuzz")) == "", likewise

    def make(self, raw: bytes, tools: Tools) -> tuple[str, int]:
        """How it ended, and with how many samples."""
        signal.alarm(MOST_SECONDS)
        begin = time.process_time()
        try:
            capture: Capture | None = import_perf(raw, tools, "fuzz")
        except BrokenCapture as error:
            assert error.why
            self.reasons[
                re.sub(r"\d[\d,]*", "N", re.sub(r"(?<=begins with ).*(?=, not)", "other bytes", error.why))
            ] += 1
            capture = None
        self.slowest = max(self.slowest, time.process_time() - begin)
        signal.alarm(0)
        if capture is None:
            outcome, rows = "refused", 0
        else:
            # That no function is named is so for every capture here: there are no binaries.
            missing = [gap for gap in capture.about.gaps if gap.fact != "frames[].name"]
            outcome, rows = "partial" if missing else "whole", len(capture)
            assert len(decode(b"".join(encode(capture)))) == rows
        self.outcomes[outcome] += 1
        return outcome, rows


def cut(seed: Seed, dice: random.Random) -> tuple[bytes, bool]:
    """The seed without its end, and whether that can be seen: a stream may end after any record."""
    place = dice.randrange(len(seed.raw))
    return seed.raw[:place], not (seed.is_pipe and place in seed.records)


def engines(scanner: str | None) -> list[Tools]:
    plain = TOOLS._replace(decompressor=decompressor_factory())
    built: Engine | None = Scanner(Path(scanner)) if scanner else built_scanner()
    return [plain, plain._replace(engine=built)] if built is not None else [plain]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scanner")
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("files", nargs="*")
    given = parser.parse_intermixed_args()
    if not given.sanitized:  # a sanitizer's shadow memory is address space too
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    faulthandler.register(signal.SIGALRM, chain=True)
    dice, attempts, all_tools = random.Random(given.seed), Attempts(), engines(given.scanner)
    known, made = seeds(given.files), built_library(given.scanner) if given.scanner else built_library()
    for number in range(given.count):
        seed = dice.choice(known)
        raw, is_seen = (mutated(seed, dice), False) if number % 10 else cut(seed, dice)
        answers = [attempts.make(raw, tools) for tools in all_tools]
        if made is not None:
            attempts.make_directly(raw, made, answers[0])
        assert len(set(answers)) == 1, f"mutation {number}: the engines differ: {answers}"
        assert not is_seen or answers[0][0] != "whole", f"mutation {number}: a cut file passes for a whole one"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{given.count:,} mutations of {len(known)} captures, {len(all_tools)} engines: {dict(attempts.outcomes)}")
    print(f"slowest import {attempts.slowest:.2f} CPU s, peak {peak} MB; refused because:")
    for reason, count in attempts.reasons.most_common():
        print(f"{count:>8,}  {reason}")


if __name__ == "__main__":
    main()
