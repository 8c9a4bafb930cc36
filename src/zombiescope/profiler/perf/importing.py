# SPDX-License-Identifier: Apache-2.0
"""perf.data to a capture, without perf: walk, columns, address spaces, distinct stacks, symbols, tree."""

import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.profiler.perf.data_file import COMPRESSED, COMPRESSED2, PerfFile, open_perf
from zombiescope.profiler.perf.engine import ArrayEngine, Engine
from zombiescope.profiler.perf.frames import VDSO, Frames
from zombiescope.profiler.perf.kernel_code import KernelSymbols, Spell, moved, no_kernel_symbols, own_symbols, spells
from zombiescope.profiler.perf.processes import Spaces, Threads, follow
from zombiescope.profiler.perf.samples import Samples, Walk, read_samples
from zombiescope.profiler.perf.side_records import (
    KernelSymbol,
    Mapped,
    Side,
    about_it,
    file_gaps,
    read_side,
    records_at,
    sample_gaps,
    stream_gaps,
    walk_gaps,
)
from zombiescope.profiler.perf.symbolise import SymbolSources, symbolise
from zombiescope.profiler.stacks.arrays import U32, U64, dense_ids
from zombiescope.profiler.stacks.capture import About, BrokenCapture, Capture, judge_idle

MOST_UNPACKED_BYTES = 2 << 30
_LEAST_ALLOWED_BYTES, _LARGEST_RATIO = 32 << 20, 40
"""`perf record -z` packs to a fifth, an idle machine's samples to a twentieth."""


class Stream(NamedTuple):
    words: U64
    walk: Walk
    gaps: tuple[Gap, ...]


Walker = Callable[[U64, int], Walk]


def plain_stream(
    opened: PerfFile, decompressor: Callable[[], Callable[[bytes], bytes]] | None, walk_records: Walker
) -> Stream:
    data = opened.buffer[opened.data_from : opened.data_to]
    words = np.require(
        np.frombuffer(data[: len(data) & ~7], "<u8"), requirements="A"
    )  # a lying header may begin anywhere
    least = min(event.layout().least_words for event in opened.events.all)
    walk = walk_records(words, least)
    if not walk.is_compressed:
        return Stream(words, walk, stream_gaps(opened, walk.why, walk.end, len(words)))
    if decompressor is None:
        missing = Gap(
            "samples", "the records are compressed with zstd, which is not available here", "pip install zstandard"
        )
        return Stream(words, walk, (missing,))
    unpacked, gaps = _unpack(data, decompressor())
    words = np.require(np.frombuffer(unpacked[: len(unpacked) & ~7], "<u8"), requirements="A")
    walk = walk_records(words, least)
    return Stream(words, walk, (*gaps, *walk_gaps(walk.why, walk.end, len(words), 0)))


def _unpack(data: memoryview, decompress: Callable[[bytes], bytes]) -> tuple[bytes, tuple[Gap, ...]]:
    """Plain records first, then the unpacked stream: both are whole records, and samples are sorted by time later."""
    plain, unpacked, size_unpacked, at = list[bytes](), list[bytes](), 0, 0
    limit = min(MOST_UNPACKED_BYTES, _LEAST_ALLOWED_BYTES + len(data) * _LARGEST_RATIO)
    while at + 8 <= len(data):
        kind, _, size = struct.unpack_from("<IHH", data, at)
        if size < 8 or at + size > len(data):
            return _joined(plain, unpacked, f"at byte {at:,} of the records: one of {size} bytes that cannot be")
        if kind not in (COMPRESSED, COMPRESSED2):
            plain.append(bytes(data[at : at + size]) if size & 7 == 0 else b"")
        else:
            begin, end = _payload(data, kind, at, size)
            try:
                unpacked.append(decompress(bytes(data[begin:end])))
            except ValueError as error:
                return _joined(plain, unpacked, f"at byte {at:,} of the records: {error}")
            size_unpacked += len(unpacked[-1])
            if size_unpacked > limit:
                return _joined(plain, unpacked, f"it unpacks to more than {limit:,} bytes")
        at += size
    return _joined(plain, unpacked, f"at byte {at:,} of the records: one that is cut off" if at < len(data) else "")


def _payload(data: memoryview, kind: int, at: int, size: int) -> tuple[int, int]:
    if kind == COMPRESSED2 and size >= 16:
        return at + 16, at + 16 + min(struct.unpack_from("<Q", data, at + 8)[0], size - 16)
    return at + 8, at + size


def _joined(plain: list[bytes], unpacked: list[bytes], why: str) -> tuple[bytes, tuple[Gap, ...]]:
    gaps = (Gap("samples", f"{why}; what follows is not read", "record it again"),) if why else ()
    return b"".join([*plain, *unpacked]), gaps


KernelSource = Callable[[int | None, bool], KernelSymbols | Gap]
"""Given where the recorded kernel's text began, and whether by what was recorded no code of it came or went meanwhile."""
_MOST_CPUS = 65_535


class Tools(NamedTuple):
    """What an import needs from outside."""

    kernel: KernelSource
    sources: SymbolSources
    decompressor: Callable[[], Callable[[bytes], bytes]] | None = None
    """Makes a function that takes the next piece of a zstd stream."""
    engine: Engine = ArrayEngine()
    name_callers: bool = True
    """A return address belongs to the call before it; perf itself names what comes after."""


def import_perf(raw: bytes | memoryview, tools: Tools, source: str) -> Capture:
    opened = open_perf(raw)
    stream = plain_stream(opened, tools.decompressor, tools.engine.walk)
    samples = read_samples(stream.words, stream.walk.samples, opened.events, tools.engine.columns)
    side = read_side(records_at(stream.words.data.cast("B"), stream.walk.others), opened.events.all[0])
    side.build_ids.update(opened.build_ids)
    side.build_ids[VDSO] = opened.kernel or ""
    known = side.build_ids
    spaces = follow(
        [
            one._replace(build_id=one.build_id or known.get(one.path, "")) if isinstance(one, Mapped) else one
            for one in side.changes
        ]
    )
    gaps = list(stream.gaps) + sample_gaps(opened, samples.broken, side)
    if not len(samples.time):
        if not gaps:
            raise BrokenCapture("it holds no sample: perf recorded nothing", "record again, for longer")
        raise BrokenCapture(f"it holds no sample: {gaps[0].reason}", gaps[0].hint or "copy it again, or record again")
    return _assemble(stream.words, opened, samples, (side, spaces), tools, About(source, gaps=tuple(gaps)))


def _assemble(
    words: U64, opened: PerfFile, samples: Samples, told: tuple[Side, Spaces], tools: Tools, about: About
) -> Capture:
    side, spaces = told
    table = Frames()
    held = spells(side.kernel_symbols)
    words = moved(words, samples, [one for one in held if one.changes])
    ids, first = tools.engine.numbers(samples.tid.astype(np.uint64) << np.uint64(32) | samples.pid)
    threads = Threads(ids, samples.pid[first].tolist(), samples.tid[first].tolist())
    owners = spaces.of_samples(threads, samples.time)
    comm_of, comms = spaces.names_of_samples(threads, samples.time)
    comm_frames = np.array([table.add(name, "") for name in comms], np.uint32)
    stack_of, chosen = tools.engine.distinct(
        words,
        samples.chain_at,
        samples.chain_words,
        owners.astype(np.uint64) << np.uint64(32) | comm_of.view(np.uint64),
    )
    kernel, kernel_gaps = _kernel(tools, side, held, is_same=opened.events.all[0].tells_code and not side.told_of_code)
    stacks = tools.engine.addresses(
        words,
        samples.chain_at[chosen],
        samples.chain_words[chosen],
        owners[chosen],
        callers=tools.name_callers,
    )
    frames, unnamed = symbolise(stacks.addresses, stacks.owners, spaces, kernel, tools.sources, table)
    tree, leaves = tools.engine.tree(stacks, frames, comm_frames[comm_of[chosen]])
    node = leaves[stack_of].astype(np.uint32)
    cgroup_ids, cgroups = _cgroups(samples.cgroup, side)
    return Capture(
        about_it(about, opened, side, (*kernel_gaps, *file_gaps(unnamed))),
        samples.time,
        np.minimum(samples.cpu, _MOST_CPUS).astype(np.uint16),
        samples.pid,
        samples.tid,
        samples.mode,
        np.minimum(samples.event, 255).astype(np.uint8),
        comm_of.astype(np.uint32),
        cgroup_ids,
        judge_idle(samples.pid, node, tree, table.names),
        node,
        None,
        tree,
        tuple(table.names),
        tuple(table.files),
        tuple(comms),
        tuple(event.title for event in opened.events.all),
        cgroups,
    )


def _kernel(tools: Tools, side: Side, held: list[Spell], *, is_same: bool) -> tuple[KernelSymbols, list[Gap]]:
    found = tools.kernel(side.kernel_text, is_same)
    symbols, gaps = (no_kernel_symbols(), [found]) if isinstance(found, Gap) else (found, [])
    steady = [KernelSymbol(one.begin, one.start, one.length, one.name) for one in held if not one.changes]
    return symbols.told_also(steady + own_symbols([one for one in held if one.changes])), gaps


def _cgroups(raw: U64, side: Side) -> tuple[U32, tuple[str, ...]]:
    if not raw.any():
        return np.zeros(len(raw), np.uint32), ("",)
    ids, chosen = dense_ids(raw)
    names = [side.cgroups.get(number, f"[{number}]" if number else "") for number in raw[chosen].tolist()]
    return (ids + 1).astype(np.uint32), ("", *names)
