# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks: `comm;outer;inner COUNT`, a line a stack. Keeps no time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiling.broken import BrokenCapture
from zombiescope.profiling.capture import About, Capture, is_kernel_file
from zombiescope.profiling.formats.stacks import Gathering, paths, taken
from zombiescope.profiling.selection import Selection


def read_collapsed(content: bytes, source: str) -> Capture:
    gathering = Gathering(len(content))
    passed_over = 0
    for line in content.split(b"\n"):
        stack, _, count = line.rstrip().rpartition(b" ")
        if not stack or not count.isdigit() or len(count) > 18:
            passed_over += bool(line.strip())
            continue
        names = [shown(name) for name in stack.split(b";")]
        number = gathering.stack_number(names[0], [_frame(name) for name in names[1:]])
        gathering.add(number, names[0], weight=int(count))
    if not gathering.stack:
        raise BrokenCapture(
            "no line of it reads 'frame;frame COUNT'",
            "perf.data, perf script text, collapsed stacks, pprof and speedscope can be imported",
        )
    gaps: tuple[Gap, ...] = (Gap("samples[].time", "collapsed stacks have no times"),)
    if passed_over:
        gaps += (Gap("samples", f"{passed_over:,} lines make no sense and are left out"),)
    return gathering.capture(About(source, has_time=False, gaps=gaps))


def _frame(name: str) -> tuple[str, str]:
    """`_[k]` and `_[i]` are the marks of common collapsers for kernel and inlined frames."""
    return (name[:-4], "[kernel]") if name.endswith("_[k]") else (name, "")


def write_collapsed(capture: Capture, selection: Selection) -> Iterator[bytes]:
    chosen = taken(capture, selection)
    counts = np.bincount(chosen.node_of, chosen.weights).astype(np.int64).tolist()
    names = [
        name.replace(";", ":").replace("\n", " ") + ("_[k]" if is_kernel_file(file) else "")
        for name, file in zip(capture.frame_names, capture.frame_files, strict=True)
    ]
    for path, count in zip(paths(capture, chosen.nodes), counts, strict=True):
        yield f"{';'.join([names[frame] for frame in path])} {count}\n".encode()
