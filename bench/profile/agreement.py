# SPDX-License-Identifier: Apache-2.0
"""Frame by frame against `perf script` on a real capture: agreement.py perf.data [kallsyms].

Samples are paired by time, core and thread. A function with several names at one address (ELF and kallsyms aliases) counts as
itself. Frames are named as perf names them (`as_perf_names`), so that what is left are real differences; they are printed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from zombiescope.profiler.files.reading import Choices, read_capture
from zombiescope.profiler.files.symbol_files import map_file
from zombiescope.profiler.perf.elf_symbols import BrokenElf, open_elf
from zombiescope.profiler.stacks.flame_graph import paths

HEADING = re.compile(r"^\s*(.*?)\s+(-?\d+) \[(\d+)\]\s+(\d+)\.(\d+):")
Frame = tuple[str, str]
PLACES_OF_PROCESSES = ("[unknown]", "[vdso]", "[vsyscall]", "[stack]", "[heap]")


def perf_samples(file: str, kallsyms: str) -> Iterator[tuple[tuple[int, int, int], str, list[Frame]]]:
    command = ["perf", "script", "-i", file, "--kallsyms", kallsyms, "--no-demangle", "--ns"]
    command += ["-F", "comm,tid,cpu,time,event,ip,sym,dso"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, errors="replace", stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        heading: re.Match[str] | None = None
        frames: list[tuple[str, str]] = []
        for line in process.stdout:
            if line == "\n":
                if heading is not None:
                    key = (int(heading[4]) * 10**9 + int(heading[5].ljust(9, "0")), int(heading[3]), int(heading[2]))
                    yield key, heading[1], frames
                heading, frames = None, []
            elif heading is None:
                heading = HEADING.match(line)
            else:
                name, _, file_name = line.strip().partition(" ")[2].rpartition(" (")
                while file_name.count(")") > file_name.count("(") + 1 and " (" in name:
                    name, _, more = name.rpartition(" (")
                    file_name = f"{more} ({file_name}"
                frames.append((name, file_name[:-1]))


class Aliases:
    """Which names lie at one address of a file."""

    def __init__(self, kallsyms: str) -> None:
        self._kallsyms = kallsyms
        self._tables: dict[str, dict[str, set[int]]] = {}

    def same(self, name: str, other: str, file: str) -> bool:
        table = self._tables.get(file)
        if table is None:
            table = self._tables[file] = self._kernel() if file.startswith("[") else self._elf(file)
        return bool(table.get(name, set()) & (table.get(other, set()) | table.get(other.partition("@")[0], set())))

    def _kernel(self) -> dict[str, set[int]]:
        table: dict[str, set[int]] = defaultdict(set)
        for line in Path(self._kallsyms).read_text().splitlines():
            address, _, name = line.split()[:3]
            table[name].add(int(address, 16))
        return table

    def _elf(self, file: str) -> dict[str, set[int]]:
        table: dict[str, set[int]] = defaultdict(set)
        try:
            build_id = open_elf(map_file(file.encode())).build_id()
        except (OSError, BrokenElf):
            return table
        debug = Path(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
        for place in [file, *([str(debug)] if build_id and debug.exists() else [])]:
            for option in ("-a", "-D"):
                listing = subprocess.run(["nm", option, place], capture_output=True, check=False).stdout
                for line in listing.decode(errors="replace").splitlines():
                    parts = line.split()
                    if len(parts) == 3:
                        table[parts[2]].add(int(parts[0], 16))
                        table[parts[2].partition("@")[0]].add(int(parts[0], 16))
        return table


def kind_of(name: str, theirs: str, path: str, *, in_process: bool) -> str:
    """What the two disagree about. `in_process`: its callee is code of a process."""
    if in_process and path.startswith("[") and path not in PLACES_OF_PROCESSES:
        return "a word that is no address, in a process's stack, and looks like one of the kernel's: perf names none"
    if "execve" in theirs and name == "[unknown]":
        return "the call of execve, in a process whose maps are already those of the new program"
    if path == "[bpf]" or theirs.startswith("bpf_"):
        return "a program of BPF"
    if "@plt" in name or "@plt" in theirs:
        return "a stub of a call into a library"
    if path == "[vdso]":
        return "the vdso"
    if name == "[unknown]":
        return "named by perf alone"
    return "named by us alone" if theirs == "[unknown]" else "two names"


class Tally:
    """Frame by frame, by kind."""

    def __init__(self, kallsyms: str) -> None:
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str, str]] = Counter()
        self._aliases = Aliases(kallsyms)
        self._known: dict[tuple[str, str, str], bool] = {}

    def add(self, comm: str, mine: list[Frame], frames: list[Frame]) -> None:
        counts = self.counts
        depth = len(mine) - 1
        counts["samples"] += 1
        counts["comm equal"] += mine[0][0] == comm
        counts["depth equal"] += depth == len(frames)
        whole = depth == len(frames)
        in_process = False
        for (name, path), (theirs, _) in zip(reversed(mine[1:]), frames, strict=False):
            counts["frames"] += 1
            pair = (name, theirs.partition("+0x")[0], path)
            equal = self._equal(pair)
            counts["frames equal"] += equal
            whole &= equal
            if not equal:
                self.pairs[pair] += 1
                self.kinds[kind_of(*pair, in_process=in_process)] += 1
            in_process |= not path.startswith("[") or path in PLACES_OF_PROCESSES
        if depth != len(frames):
            counts["frames"] += abs(depth - len(frames))
            # perf drops a whole stack in which a word is neither an address nor a mark that it knows.
            kind = "a stack that perf drops, for a word that is no address" if not frames else "a frame that one lacks"
            self.kinds[kind] += abs(depth - len(frames))
        counts["stacks equal"] += whole

    def _equal(self, pair: tuple[str, str, str]) -> bool:
        equal = self._known.get(pair)
        if equal is None:
            equal = self._known[pair] = pair[0] == pair[1] or self._aliases.same(pair[0], pair[1], pair[2])
        return equal

    def show(self) -> None:
        for name in ("comm equal", "depth equal", "stacks equal", "frames equal"):
            of = self.counts["frames" if name.startswith("frames") else "samples"]
            share = 100 * self.counts[name] / max(1, of)
            aim = "  (at least 99.9)" if name.startswith("frames") else ""
            print(f"{name:<14} {self.counts[name]:>10,} of {of:>10,}  {share:.4f} %{aim}")
        print("frames that differ, by kind:" if self.kinds else "no frame differs")
        for kind, count in self.kinds.most_common():
            print(f"{count:>8,}  {kind}")
        for (name, theirs, path), count in self.pairs.most_common(12):
            print(f"{count:>8,}  ours {name}  perf {theirs}  in {path}")


def main() -> None:
    file, kallsyms = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "/proc/kallsyms"
    capture = read_capture(file.encode(), Choices(kallsyms.encode(), as_perf_names=True, demangle=False))
    names = list(zip(capture.frame_names, capture.frame_files, strict=True))
    keys = zip(capture.time.tolist(), capture.cpu.tolist(), capture.tid.tolist(), strict=True)
    rows: dict[tuple[int, int, int], int] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, row)
    leaves, which = np.unique(capture.node, return_inverse=True)
    stacks = [[names[frame] for frame in path] for path in paths(capture, leaves.astype(np.int64))]
    tally, missing = Tally(kallsyms), 0
    for key, comm, frames in perf_samples(file, kallsyms):
        found = rows.get((key[0], key[1], key[2] & 0xFFFFFFFF))
        if found is None:
            missing += 1
        else:
            tally.add(comm, stacks[which[found]], frames)
    tally.show()
    print(f"samples of perf script that we do not have: {missing:,}; ours: {len(capture):,}")
    if not tally.counts["samples"]:
        sys.exit("perf script printed no sample: was it recorded with perf record -a?")


if __name__ == "__main__":
    main()
