# SPDX-License-Identifier: Apache-2.0
"""Strangers' files by the thousand, each mutated, read by the command itself: an answer or an error with its reason, nothing else.

fuzz.py [COUNT] [--seed N] [--only WORD]: COUNT mutations for every reader, in forked children with at most 256 MiB more than they
began with and 5 s of processor time for each. A traceback, a death, or more of either is a failure; the file is kept in build/fuzz.
The same COUNT and seed give the same files.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.fuzzing.readers import Reader, all_readers, dice_of, prepare  # noqa: E402 (found from the line above)

from zombiescope.cli.main import main as command  # noqa: E402
from zombiescope.errors import EXIT_BUG, ZombiescopeError  # noqa: E402

MOST_BYTES, MOST_SECONDS = 256 << 20, 5.0
BATCH = 50
"""Mutations that a child reads before the next one: a fork costs as much as ten of them."""
FAILED = ROOT / "build/fuzz"
_NOTE = struct.Struct("<IId")
"""What a child tells of each mutation: its number, the outcome, the processor time."""
_OWN_FAULT = 9
OUTCOMES = ("begun", "refused", "partial", "whole", "traceback")


class Row(NamedTuple):
    outcomes: Counter[str]
    slowest: float
    most_mib: int
    failures: list[str]


def mutated(name: str, reader: Reader, seed: int, number: int) -> bytes:
    dice = dice_of(name, seed, number)
    return reader.change(dice.choice(reader.seeds), dice)


def attempt(reader: Reader, folder: Path, number: int, ordinary: int) -> tuple[str, str]:
    """How it ended, and the traceback where there is one."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            if reader.words is None:
                reader.look(folder)
                return "whole", ""
            code = command(["--debug", *reader.words(folder, number)])
        except ZombiescopeError:
            return "refused", ""
        except BaseException:  # noqa: BLE001 (whatever it is, it is what we look for)
            return "traceback", traceback.format_exc()
    if code == EXIT_BUG:
        return "traceback", errors.getvalue()
    if code in (2, 3) and not out.getvalue().startswith("{"):
        return "refused", ""
    return ("partial" if gaps_in(out.getvalue()) > ordinary else "whole"), ""


def gaps_in(answer: str) -> int:
    try:
        return len(json.loads(answer).get("gaps", ()))
    except (ValueError, AttributeError):
        return 0


def lay(folder: Path, reader: Reader, content: bytes) -> None:
    place = folder / reader.file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


def read_batch(name: str, reader: Reader, plan: tuple[int, range, int], folder: Path, notes: int) -> None:
    """In a child."""
    seed, numbers, ordinary = plan
    with open("/proc/self/statm", "rb") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_BYTES, taken + MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in numbers:
        content = mutated(name, reader, seed, number)
        shutil.rmtree(folder, ignore_errors=True)
        lay(folder, reader, content)
        os.write(notes, _NOTE.pack(number, 0, 0.0))
        begun = _cpu()
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)  # ends this child, whatever it is in
        outcome, trace = attempt(reader, folder, number, ordinary)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if trace:
            (folder.parent / f"{number}.trace").write_text(trace)
        os.write(notes, _NOTE.pack(number, OUTCOMES.index(outcome), _cpu() - begun))


def _cpu() -> float:
    mine, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime


def fuzz(name: str, reader: Reader, count: int, seed: int) -> Row:
    row = Row(Counter(), 0.0, 0, [])
    with tempfile.TemporaryDirectory(prefix="zombiescope-fuzz-") as place:
        folder = Path(place, "stranger")
        prepare(Path(place))
        lay(folder, reader, reader.seeds[0])
        ordinary = _ordinary(reader, folder)
        at = 0
        while at < count:
            row, at = _batch(name, reader, (seed, range(at, min(at + BATCH, count)), ordinary), folder, row)
    return row


def _ordinary(reader: Reader, folder: Path) -> int:
    """The gaps of a whole file: nothing runs in an image, no binary is here. Loads all that is needed, before the forks."""
    if reader.words is None:
        return 0
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        command(reader.words(folder, 0))
    return gaps_in(out.getvalue())


def _batch(name: str, reader: Reader, plan: tuple[int, range, int], folder: Path, row: Row) -> tuple[Row, int]:
    """The row with what a child told, and the number to go on with: after the one that it died of."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            read_batch(name, reader, plan, folder, writing)
        except BaseException:  # noqa: BLE001 (the parent is told, and ends)
            traceback.print_exc()
            os._exit(_OWN_FAULT)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        notes = [_NOTE.unpack(note) for note in iter(lambda: file.read(_NOTE.size), b"")]
    _, status, used = os.wait4(child, 0)
    assert os.waitstatus_to_exitcode(status) != _OWN_FAULT, f"{name}: the fuzzer itself failed"
    told = {number: (OUTCOMES[outcome], seconds) for number, outcome, seconds in notes}
    outcomes, slowest, failures = row.outcomes, row.slowest, row.failures
    for number, (outcome, seconds) in told.items():
        outcome = "died" if outcome == "begun" else outcome
        outcomes[outcome] += 1
        slowest = max(slowest, seconds)
        if outcome in ("died", "traceback") or seconds > MOST_SECONDS:
            trace = folder.parent / f"{number}.trace"
            why = trace.read_text() if trace.exists() else f"{outcome}, wait status {status}, {seconds:.1f} s"
            failures.append(_kept(name, mutated(name, reader, plan[0], number), number, why))
    return Row(outcomes, slowest, max(row.most_mib, used.ru_maxrss >> 10), failures), max(told, default=plan[1][-1]) + 1


def _kept(name: str, content: bytes, number: int, why: str) -> str:
    FAILED.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace(': ', '-').replace(' ', '-')}-{number}"
    (FAILED / f"{stem}.bin").write_bytes(content)
    (FAILED / f"{stem}.txt").write_text(why)
    return f"{stem}: {why.strip().splitlines()[-1]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="readers whose name has this in it")
    given = parser.parse_args()
    print(
        f"{'reader':<22}{'mutations':>10}{'refused':>9}{'partial':>9}{'whole':>8}{'slowest CPU':>13}{'memory':>9}  failures"
    )
    failures: list[str] = []
    begun = time.monotonic()
    for name, reader in all_readers():
        if given.only not in name:
            continue
        row = fuzz(name, reader, given.count, given.seed)
        failures += row.failures
        counts = "".join(
            f"{row.outcomes[kind]:>{width},}" for kind, width in (("refused", 9), ("partial", 9), ("whole", 8))
        )
        cost = f"{row.slowest:>11.2f} s{row.most_mib:>5} MiB"
        print(f"{name:<22}{row.outcomes.total():>10,}{counts}{cost}  {len(row.failures)}", flush=True)
    print(
        f"{len(failures)} failures, {time.monotonic() - begun:.0f} s"
        + (f"; the files are in {FAILED}" if failures else "")
    )
    for failure in failures[:40]:
        print(f"  {failure}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
