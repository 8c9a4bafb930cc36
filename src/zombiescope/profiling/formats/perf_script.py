# SPDX-License-Identifier: Apache-2.0
"""The text of `perf script`: a heading a sample, then its frames, leaf first. Each distinct stack of text is read once."""

from __future__ import annotations

import re

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiling.capture import About, Capture
from zombiescope.profiling.formats.stacks import Frame, Gathering

_HEADING = re.compile(
    rb"^\s*(?P<comm>\S.*?)\s+(?:(?P<pid>-?\d+)/\s*)?(?P<tid>-?\d+)\s+(?:\[(?P<cpu>\d+)\]\s+)?"
    rb"(?P<seconds>\d{1,10})\.(?P<part>\d{1,9}):(?:\s+\d+)?(?:\s+(?P<event>\S+):)?"
)
_FRAME = re.compile(
    rb"^\s*[0-9a-f]+\s+(?:(?P<name>.*?)\+0x[0-9a-f]+|(?P<plain>.*?))\s+\((?P<file>[^()]*(?:\([^()]*\))?[^()]*)\)\s*$"
)
_KERNEL_FILES = (b"[kernel.kallsyms]", b"[guest.kernel.kallsyms]")
_LOOK_LINES = 200


def looks_like_perf_script(content: bytes) -> bool:
    return any(
        _HEADING.match(line) for line in content[:65_536].split(b"\n")[:_LOOK_LINES] if not line.startswith(b"#")
    )


def read_perf_script(content: bytes, source: str) -> Capture:
    gathering = Gathering()
    known: dict[bytes, int] = {}
    passed_over = 0
    has_cpu = True
    for block in content.split(b"\n\n"):
        heading, _, stack = _without_comments(block).partition(b"\n")
        match = _HEADING.match(heading)
        if match is None:
            passed_over += bool(heading.strip())
            continue
        comm = shown(match["comm"])
        key = match["comm"] + b"\0" + stack
        number = known.get(key)
        if number is None:
            number = known[key] = gathering.stack_number(comm, _frames(stack))
        tid = int(match["tid"])
        has_cpu &= match["cpu"] is not None
        gathering.now_of = shown(match["event"] or b"samples")
        gathering.add(
            number,
            comm,
            time=int(match["seconds"]) * 10**9 + int(match["part"].ljust(9, b"0")),
            cpu=int(match["cpu"] or 0),
            thread=(int(match["pid"] or tid), tid),
        )
    gaps = []
    if passed_over:
        gaps.append(Gap("samples", f"{passed_over:,} pieces of text are no sample and are left out"))
    if not content.endswith(b"\n"):
        gaps.append(Gap("samples", "the text ends within a line: its last sample is cut off", "copy it again"))
    if not has_cpu:
        gaps.append(Gap("samples[].cpu", "the text does not say which core", "perf record -a, perf script -F +cpu"))
    return gathering.capture(About(source, gaps=tuple(gaps)))


def _without_comments(block: bytes) -> bytes:
    block = block.lstrip(b"\n")
    while block.startswith(b"#"):
        block = block.partition(b"\n")[2]
    return block


def _frames(stack: bytes) -> list[Frame]:
    frames: list[Frame] = []
    for line in stack.split(b"\n"):
        match = _FRAME.match(line)
        if match is not None:
            file = match["file"]
            frames.append(
                (
                    shown(match["name"] or match["plain"] or b"[unknown]"),
                    "[kernel]" if file in _KERNEL_FILES else shown(file),
                )
            )
    frames.reverse()
    return frames
