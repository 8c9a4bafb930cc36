# SPDX-License-Identifier: Apache-2.0
"""Collapsed stacks: `comm;outer;inner COUNT`, a line a stack. Keeps no time."""

import re
from collections.abc import Iterator

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.profiler.formats.gathering import Frame, Gathering, taken
from zombiescope.profiler.stacks.capture import About, BrokenCapture, Capture, Selection, is_kernel_file
from zombiescope.profiler.stacks.flame_graph import paths


def read_collapsed(content: bytes, source: str, *, demangle: bool = True) -> Capture:
    gathering, passed_over = Gathering(len(content), demangle), 0
    for line in content.split(b"\n"):
        stack, _, count = line.rstrip().rpartition(b" ")
        if not stack or not count.isdigit() or len(count) > 18:
            passed_over += bool(line.strip())
            continue
        names = [shown(name) for name in stack.split(b";")]
        number = gathering.stack_number(names[0], [_frame(name) for name in names[1:]])
        gathering.add(number, names[0], weight=int(count))
    if not gathering.rows:
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


_HEADING = re.compile(
    rb"^\s*(?P<comm>\S.*?)\s+(?:(?P<pid>-?\d{1,10})/\s*)?(?P<tid>-?\d{1,10})\s+(?:\[(?P<cpu>\d{1,9})\]\s+)?"
    rb"(?P<seconds>\d{1,10})\.(?P<part>\d{1,9}):(?:\s+\d+)?(?:\s+(?P<event>\S+):)?"
)
_KERNEL_FILES = (b"[kernel.kallsyms]", b"[guest.kernel.kallsyms]")
_LOOK_LINES = 200
_LONGEST_HEADING = 512
"""A thread's name has 16 bytes, an event's some dozens: a pattern over more would only cost time."""
_OFFSET = re.compile(rb"\+0x[0-9a-f]+$")


def looks_like_perf_script(content: bytes) -> bool:
    return any(
        _HEADING.match(line[:_LONGEST_HEADING])
        for line in content[:65_536].split(b"\n")[:_LOOK_LINES]
        if not line.startswith(b"#")
    )


def read_perf_script(content: bytes, source: str, *, demangle: bool = True) -> Capture:
    gathering = Gathering(len(content), demangle)
    known: dict[bytes, int] = {}
    passed_over, has_cpu = 0, True
    for block in content.split(b"\n\n"):
        heading, _, stack = _without_comments(block).partition(b"\n")
        match = _HEADING.match(heading[:_LONGEST_HEADING])
        if match is None:
            passed_over += bool(heading.strip())
            continue
        comm = shown(match["comm"])
        key = match["comm"] + b"\0" + stack
        if key not in known:
            known[key] = gathering.stack_number(comm, _frames(stack))
        tid = int(match["tid"])
        has_cpu &= match["cpu"] is not None
        gathering.now_of = shown(match["event"] or b"samples")
        gathering.add(
            known[key],
            comm,
            time=int(match["seconds"]) * 10**9 + int(match["part"].ljust(9, b"0")),
            cpu=int(match["cpu"] or 0),
            thread=(int(match["pid"] or tid), tid),
        )
    gaps = (
        (passed_over, Gap("samples", f"{passed_over:,} pieces of text are no sample and are left out")),
        (
            not content.endswith(b"\n"),
            Gap("samples", "the text ends within a line: its last sample is cut off", "copy it again"),
        ),
        (not has_cpu, Gap("samples[].cpu", "the text does not say which core", "perf record -a, perf script -F +cpu")),
    )
    return gathering.capture(About(source, gaps=tuple(gap for is_so, gap in gaps if is_so)))


def _without_comments(block: bytes) -> bytes:
    block = block.lstrip(b"\n")
    while block.startswith(b"#"):
        block = block.partition(b"\n")[2]
    return block


def _frames(stack: bytes) -> list[Frame]:
    lines = [parts for line in reversed(stack.split(b"\n")) if (parts := _parts(line.strip())) is not None]
    return [(shown(name or b"[unknown]"), "[kernel]" if file in _KERNEL_FILES else shown(file)) for name, file in lines]


def _parts(line: bytes) -> tuple[bytes, bytes] | None:
    """Name and file of `ADDRESS NAME+0xOFFSET (FILE)`, where FILE may have one pair of brackets: `/memfd:x (deleted)`. By hand: a
    pattern could be made to try again from every byte."""
    address, _, rest = line.partition(b" ")
    if not rest.endswith(b")") or address.strip(b"0123456789abcdef") or not address:
        return None
    inner = rest.rfind(b"(", 0, -1)
    opening = inner if b")" not in rest[inner + 1 : -1] else rest.rfind(b"(", 0, max(0, inner))
    if opening < 0 or b")" in rest[opening + 1 : inner] or not rest[:opening][-1:].isspace():
        return None
    return _OFFSET.sub(b"", rest[:opening].strip()), rest[opening + 1 : -1]
