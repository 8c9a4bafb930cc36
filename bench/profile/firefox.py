# SPDX-License-Identifier: Apache-2.0
"""Our export read by Firefox Profiler itself: firefox.py CAPTURE NODE PROFILER_CLI.

PROFILER_CLI is `dist/profiler-cli.js` of the npm package @firefox-devtools/profiler-cli: the code of profiler.firefox.com without
its page; it wants Node 24 (npm package `node`). Nothing else here needs either. On every core it is asked for each function's own
and total samples, which are compared with those of the capture.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from zombiescope.profiler.asking import Opened, open_capture, write_elsewhere
from zombiescope.profiler.stacks.capture import Selection, row_numbers
from zombiescope.profiler.stacks.flame_graph import paths

_TRIES = 8
Counts = dict[tuple[str, str], tuple[int, int]]


class Profiler:
    """One session of its daemon, with a home of its own. It gives its daemon half a second to start, which may take some tries."""

    def __init__(self, program: list[str], folder: Path, file: Path) -> None:
        self._program, self._environment = program, {**os.environ, "HOME": str(folder)}
        for _ in range(_TRIES):
            found = re.search(r"Session started: (\S+)", self._run("load", str(file)))
            if found:
                self._session = found[1]
                return
        self.close()
        raise SystemExit("Firefox Profiler did not load it")

    def _run(self, *words: str) -> str:
        command = [*self._program, *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=self._environment)
        if done.returncode:
            print(done.stderr.partition("\n")[0])
        return done.stdout

    def ask(self, *words: str) -> Any:
        return json.loads(self._run(*words, "--session", self._session, "--json"))

    def close(self) -> None:
        self._run("stop", "--all")

    def counts(self, thread: str) -> Counts:
        answer = self.ask("thread", "functions", "--thread", thread, "--limit", "0", "--include-idle")
        return {
            (one["name"], one.get("library") or ""): (one["selfSamples"], one["totalSamples"])
            for one in answer["functions"]
        }


def given(opened: Opened, selection: Selection) -> Counts:
    """Own and total samples of every function; one that calls itself counts once a sample."""
    capture = opened.capture
    files = ["" if file == "[unknown]" else file for file in capture.frame_files]
    frames = list(zip(capture.frame_names, files, strict=True))
    nodes, times = np.unique(capture.node[row_numbers(capture, selection)], return_counts=True)
    own: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for path, count in zip(paths(capture, nodes.astype(np.int64)), times.tolist(), strict=True):
        named = [frames[frame] for frame in path]
        own[named[-1]] += count
        for frame in set(named):
            total[frame] += count
    return {frame: (own[frame], count) for frame, count in total.items()}


def main() -> int:
    opened = open_capture(b"", os.path.abspath(sys.argv[1]))
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
        file = Path(folder) / "profile.json"
        with file.open("wb") as out:
            out.writelines(write_elsewhere(opened, Selection(), "firefox"))
        profiler = Profiler(sys.argv[2:4], Path(folder), file)
        try:
            for thread in profiler.ask("thread", "list")["threads"]:
                core = int(thread["name"].removeprefix("cpu "))
                theirs, ours = profiler.counts(thread["threadHandle"]), given(opened, Selection(cpus=(core,)))
                differ = [frame for frame in ours.keys() | theirs.keys() if ours.get(frame) != theirs.get(frame)]
                wrong += len(differ)
                samples = sum(own for own, _ in theirs.values())
                print(f"core {core}: {samples:,} samples in {len(theirs):,} functions; {len(differ):,} not as given")
                for frame in differ[:5]:
                    print(f"  {frame}: given {ours.get(frame)}, counted {theirs.get(frame)}")
        finally:
            profiler.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
